"""The job: says that it starts, has its effect, works for some seconds, says that it is done.

Standard library only, because every system's environment runs it.
"""

from __future__ import annotations

import os
import time

SECONDS = float(os.environ["CRASH_WORK_SECONDS"])
REDIS_URL = os.environ["CRASH_REDIS_URL"]


def run(job: str) -> None:
    """All of it, for systems that run a function in a process or thread."""
    begin(job)
    time.sleep(SECONDS)
    end(job)


def begin(job: str) -> None:
    """Up to the effect: the line appended to the journal is what a charged card or a sent mail would be."""
    _say("start", job)
    _say("effect", job)


def end(job: str) -> None:
    """The work is done; what follows is the system's own acknowledgement."""
    _say("done", job)


def _say(step: str, job: str) -> None:
    line = f"{step} {job} {os.getpid()} {time.monotonic():.6f}\n".encode()
    journal = os.open(os.environ["CRASH_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(journal, line)  # one write under O_APPEND: lines of many processes never mix
    finally:
        os.close(journal)
