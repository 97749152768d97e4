"""Huey on Redis."""

from __future__ import annotations

from benchmarks.crash.contender import About
from benchmarks.crash.environments import APPS, python_commands, python_version
from benchmarks.crash.rival import Rival

APP = "huey_app"


def huey() -> Rival:
    """Takes a job off its list before it runs it, and has no setting to do otherwise."""
    about = About(
        name="Huey",
        version=python_version("huey"),
        at_once="1 (a thread)",
        settings="none",
        afterwards=(
            "A job leaves Redis when a worker takes it (RPOP), so one that was running is gone. No setting changes it."
        ),
    )
    return Rival(about, "huey", python_commands(APP, ("huey_consumer", f"{APPS}.{APP}.huey")))
