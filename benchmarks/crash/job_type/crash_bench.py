"""The same job as a Holdfast job type: start, effect under `once`, some seconds of work, done."""

from __future__ import annotations

import os
import time

from shared.domain.run import Run
from shared.jobs import Payload, job_type


class CrashBench(Payload):
    """The job's name in the journal, the journal's path, and how long it works."""

    name: str
    journal: str
    seconds: float


@job_type("crash-bench", queue="emails.bulk")
def crash_bench(payload: CrashBench, run: Run) -> None:
    """With the default deadline (20 s) and so the default lease (30 s)."""
    _say("start", payload)
    run.once("effect", lambda: _say("effect", payload))
    time.sleep(payload.seconds)
    _say("done", payload)


def _say(step: str, payload: CrashBench) -> None:
    line = f"{step} {payload.name} {os.getpid()} {time.monotonic():.6f}\n".encode()
    journal = os.open(payload.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(journal, line)
    finally:
        os.close(journal)
