"""arq."""

from __future__ import annotations

from benchmarks.crash.contender import About
from benchmarks.crash.environments import APPS, python_commands, python_version
from benchmarks.crash.rival import Rival

APP = "arq_app"


def arq() -> Rival:
    """A job stays queued until it is done, and is marked while it runs."""
    about = About(
        name="arq",
        version=python_version("arq", "arq"),
        at_once="10 (coroutines, max_jobs)",
        settings="none",
        afterwards="A job's in-progress mark lasts job_timeout=300 s and 10 s more; then any worker starts it again.",
    )
    return Rival(about, "arq", python_commands(APP, ("arq", f"{APPS}.{APP}.WorkerSettings"), "arq"))
