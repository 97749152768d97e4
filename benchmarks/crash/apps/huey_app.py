"""Huey as it comes, on Redis."""

from __future__ import annotations

from huey import RedisHuey

from benchmarks.crash.apps import job

huey = RedisHuey("crash", url=job.REDIS_URL)


@huey.task()
def work(name: str) -> None:
    """One job."""
    job.run(name)


def submit(names: list[str]) -> None:
    """Queue them."""
    for name in names:
        work(name)
