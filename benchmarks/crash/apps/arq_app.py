"""arq as it comes."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from arq import create_pool
from arq.connections import RedisSettings

from benchmarks.crash.apps import job

SERVER = RedisSettings.from_dsn(job.REDIS_URL)


async def work(_: dict[str, Any], name: str) -> None:
    """One job: arq's are coroutines, so it sleeps as one."""
    job.begin(name)
    await asyncio.sleep(job.SECONDS)
    job.end(name)


class WorkerSettings:
    """What `arq` reads."""

    functions: ClassVar = [work]
    redis_settings = SERVER


def submit(names: list[str]) -> None:
    """Queue them."""
    asyncio.run(_submit(names))


async def _submit(names: list[str]) -> None:
    pool = await create_pool(SERVER)
    for name in names:
        await pool.enqueue_job("work", name, _job_id=name)
    await pool.aclose()
