"""Who takes part."""

from __future__ import annotations

from pathlib import Path

from benchmarks.crash.contender import Contender
from benchmarks.crash.contenders.arq import arq
from benchmarks.crash.contenders.bullmq import bullmq
from benchmarks.crash.contenders.celery import celery, celery_safe
from benchmarks.crash.contenders.dramatiq import dramatiq
from benchmarks.crash.contenders.holdfast import Holdfast
from benchmarks.crash.contenders.huey import huey
from benchmarks.crash.contenders.rq import rq, rq_safe
from benchmarks.crash.redis_server import RedisServer

RIVALS = (celery, rq, dramatiq, huey, arq, bullmq, celery_safe, rq_safe)
KEYS = (Holdfast.key, *(made().key for made in RIVALS))


def field(home: Path, redis: RedisServer | None, work_seconds: float) -> list[Contender]:
    """Holdfast, and the others where there is a Redis for them, each with a database of its own."""
    everyone: list[Contender] = [Holdfast(home / "holdfast", work_seconds)]
    if redis is not None:
        for database, rival in enumerate(made() for made in RIVALS):
            everyone.append(rival.settle(home / rival.key, redis, database, work_seconds))
    return everyone
