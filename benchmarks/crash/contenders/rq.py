"""RQ."""

from __future__ import annotations

from benchmarks.crash.contender import About
from benchmarks.crash.environments import python_commands, python_version
from benchmarks.crash.rival import Rival

APP = "rq_app"
WORKER = ("rq", "worker", "--url", "{redis}")
CLEANED = (
    "An abandoned job is noticed about 90 s after its last heartbeat, by the maintenance of a worker: at its start "
    "and every 600 s (DEFAULT_MAINTENANCE_TASK_INTERVAL). "
)


def rq() -> Rival:
    """By default an abandoned job is failed, not run again."""
    about = About(
        name="RQ",
        version=python_version("rq"),
        at_once="1 (a process per job)",
        settings="none",
        afterwards=CLEANED + "It then goes to the FailedJobRegistry, where a human requeues it.",
    )
    return Rival(about, "rq", python_commands(APP, WORKER))


def rq_safe() -> Rival:
    """With retries an abandoned job is run again."""
    about = About(
        name="RQ, retries",
        version=python_version("rq"),
        at_once="1 (a process per job)",
        settings="retry=Retry(max=3) on every job",
        afterwards=CLEANED + "It is then queued again.",
        recommended=True,
    )
    return Rival(about, "rqsafe", python_commands(APP, WORKER, CRASH_SAFE="1"))
