"""Celery as it comes, on Redis; CRASH_SAFE turns on what its documentation offers against lost workers."""

from __future__ import annotations

import os

from celery import Celery

from benchmarks.crash.apps import job

app = Celery("crash", broker=job.REDIS_URL)
if "CRASH_SAFE" in os.environ:
    app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True)


@app.task
def work(name: str) -> None:
    """One job."""
    job.run(name)


def submit(names: list[str]) -> None:
    """Queue them."""
    for name in names:
        work.delay(name)
