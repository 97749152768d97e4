"""A worker killed in mid-export."""

from __future__ import annotations

import io
import os
import signal
import time
from collections.abc import Callable

from pypdf import PdfReader

from local import samples
from shared.domain.states import State
from shared.queues import QUEUES
from tests.e2e.cloud import Cloud, fetch
from tests.e2e.functions import processes_of

PAGES = 6000
LEASE_SECONDS = 30


def test_an_export_whose_worker_is_killed_completes_without_help(cloud: Cloud, figure: Callable[[str], None]) -> None:
    cloud.put_month("2030-06", samples.write_month(rows=PAGES))
    job_id = cloud.export("2030-06")
    run = killed_in_mid_run(cloud, job_id)
    killed_at = time.monotonic()

    while cloud.record(job_id).run == run:
        assert time.monotonic() < killed_at + LEASE_SECONDS + 30, "nobody took the job over"
        time.sleep(0.2)
    figure(f"taken over {time.monotonic() - killed_at:.1f} s after kill -9, with a lease of {LEASE_SECONDS} s")

    ended = cloud.wait(job_id, seconds=90)
    assert ended["status"] == State.COMPLETED, str(ended)
    assert cloud.record(job_id).run > run
    pdf = fetch(cloud.ask("GET", f"/jobs/{job_id}/result").headers["Location"]).body
    assert len(PdfReader(io.BytesIO(pdf)).pages) == PAGES


def killed_in_mid_run(cloud: Cloud, job_id: str) -> int:
    """Kill the lane's worker processes while one runs the job; answers the number of the run that died.

    A kill that falls between two runs of the export harms nothing, so it is tried again with the next run.
    """
    worker = f"{cloud.up.outputs['Prefix']}-worker-{QUEUES['exports.month-end'].slug}"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        before = cloud.record(job_id)
        if before.state is State.RUNNING:
            for pid in processes_of(worker, cloud.up.processes[0].pid):
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.3)
            after = cloud.record(job_id)
            if (after.state, after.run) == (State.RUNNING, before.run):
                return after.run
        time.sleep(0.02)
    raise AssertionError("the export ended before its worker could be killed: give it more pages")
