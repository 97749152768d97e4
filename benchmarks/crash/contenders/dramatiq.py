"""Dramatiq on Redis."""

from __future__ import annotations

import os

from benchmarks.crash.contender import About
from benchmarks.crash.environments import APPS, python_commands, python_version
from benchmarks.crash.rival import Rival

APP = "dramatiq_app"


def dramatiq() -> Rival:
    """Recovers what a silent worker had, when somebody happens to look."""
    about = About(
        name="Dramatiq",
        version=python_version("dramatiq"),
        at_once=f"{8 * (os.cpu_count() or 1)} (8 threads in a process per core)",
        settings="none",
        afterwards=(
            "A worker counts as dead 60 s (heartbeat_timeout) after its last command; what it had, started or "
            "prefetched, is queued again by one in a thousand of the commands that follow (maintenance_chance=1000 "
            "in a million). So it is at random: soon on a busy queue; on an idle one, which two processes look at 2.6 "
            "times a second, after six minutes on average."
        ),
    )
    return Rival(about, "dramatiq", python_commands(APP, ("dramatiq", f"{APPS}.{APP}")))
