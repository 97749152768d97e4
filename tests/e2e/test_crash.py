"""A worker killed in mid-export."""

from __future__ import annotations

import io
import os
import signal
import time

import pytest
from pypdf import PdfReader

from local import samples
from shared.domain.states import State
from shared.queues import QUEUES
from tests.e2e.cloud import Cloud, fetch
from tests.e2e.functions import busiest, processes_of

PAGES = 4000
LEASE_SECONDS = 30


def test_an_export_whose_worker_is_killed_completes_without_help(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.put_month("2030-06", samples.write_month(rows=PAGES))
    job_id = cloud.export("2030-06")
    deadline = time.monotonic() + 20
    while cloud.ask("GET", f"/jobs/{job_id}").json["status"] != State.RUNNING:
        assert time.monotonic() < deadline
        time.sleep(0.05)

    worker = f"{cloud.up.outputs['Prefix']}-worker-{QUEUES['exports.month-end'].slug}"
    victim = busiest(processes_of(worker, cloud.up.processes[0].pid))
    os.kill(victim, signal.SIGKILL)
    killed_at = time.monotonic()
    assert cloud.record(job_id).state is State.RUNNING, (
        "the export ended before its worker was killed: give it more pages"
    )

    while cloud.record(job_id).run == 1:
        assert time.monotonic() < killed_at + LEASE_SECONDS + 15, "nobody took the job over"
        time.sleep(0.2)
    with capsys.disabled():
        print(f"\ntaken over {time.monotonic() - killed_at:.1f} s after kill -9, with a lease of {LEASE_SECONDS} s")

    ended = cloud.wait(job_id, seconds=90)
    assert ended["status"] == State.COMPLETED
    assert cloud.record(job_id).run == 2
    pdf = fetch(cloud.ask("GET", f"/jobs/{job_id}/result").headers["Location"]).body
    assert len(PdfReader(io.BytesIO(pdf)).pages) == PAGES
