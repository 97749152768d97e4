"""Celery on Redis."""

from __future__ import annotations

import os

from benchmarks.crash.contender import About
from benchmarks.crash.environments import APPS, python_commands, python_version
from benchmarks.crash.rival import Rival

APP = "celery_app"
WORKER = ("celery", "-A", f"{APPS}.{APP}", "worker")


def celery() -> Rival:
    """By default a job is acknowledged when it starts."""
    about = About(
        name="Celery",
        version=python_version("celery"),
        at_once=f"{os.cpu_count()} (one process per core)",
        settings="none",
        afterwards=(
            "task_acks_late=False: what had started was acknowledged and is gone. What the dead worker had only "
            "prefetched (worker_prefetch_multiplier=4) comes back after visibility_timeout=3600 s."
        ),
    )
    return Rival(about, "celery", python_commands(APP, WORKER))


def celery_safe() -> Rival:
    """Acknowledged when it is done."""
    about = About(
        name="Celery, acks late",
        version=python_version("celery"),
        at_once=f"{os.cpu_count()} (one process per core)",
        settings="task_acks_late=True, task_reject_on_worker_lost=True",
        afterwards="All that the dead worker had comes back after visibility_timeout=3600 s (default).",
        recommended=True,
    )
    return Rival(about, "celerysafe", python_commands(APP, WORKER, CRASH_SAFE="1"))
