"""Dramatiq as it comes, on Redis."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.crash.apps import job

dramatiq.set_broker(RedisBroker(url=job.REDIS_URL))


@dramatiq.actor
def work(name: str) -> None:
    """One job."""
    job.run(name)


def submit(names: list[str]) -> None:
    """Queue them."""
    for name in names:
        work.send(name)
