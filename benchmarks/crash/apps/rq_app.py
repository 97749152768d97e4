"""RQ as it comes; CRASH_SAFE gives each job the retries without which RQ never runs an abandoned job again."""

from __future__ import annotations

import os

from redis import Redis
from rq import Queue, Retry

from benchmarks.crash.apps import job


def work(name: str) -> None:
    """One job."""
    job.run(name)


def submit(names: list[str]) -> None:
    """Queue them."""
    queue = Queue(connection=Redis.from_url(job.REDIS_URL))
    more = {"retry": Retry(max=3)} if "CRASH_SAFE" in os.environ else {}
    for name in names:
        queue.enqueue(work, name, job_id=name, **more)
