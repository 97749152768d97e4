"""Takes its worker down with it, every time."""

from __future__ import annotations

import os
import signal

from shared.domain.run import Run
from shared.jobs import job_type

from ._crash_visit import QUICK, Visit, Work


@job_type("crash-poison", queue="exports.month-end", policy=QUICK)
def poison(payload: Work, run: Run) -> None:
    """What a handler that runs out of memory looks like."""
    with Visit(payload, run) as visit:
        visit.works(1.0)
        os.kill(os.getpid(), signal.SIGKILL)
