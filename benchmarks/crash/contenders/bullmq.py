"""BullMQ, in Node."""

from __future__ import annotations

from benchmarks.crash.contender import About
from benchmarks.crash.environments import BULLMQ, bullmq_version, programs
from benchmarks.crash.rival import Commands, Rival


def bullmq() -> Rival:
    """A running job is locked, the lock is renewed, and workers look for stalled jobs."""
    about = About(
        name="BullMQ",
        version=bullmq_version(),
        at_once="1",
        settings="none",
        afterwards=(
            "A job's lock lasts lockDuration=30 s, and stalled jobs are looked for every stalledInterval=30 s; a job "
            "that stalls twice fails (maxStalledCount=1)."
        ),
    )
    commands = Commands(
        programs=programs("rivals"),  # nothing of it: Node comes from the path
        worker=("node", str(BULLMQ / "worker.js")),
        submit=("node", str(BULLMQ / "submit.js")),
    )
    return Rival(about, "bullmq", commands)
