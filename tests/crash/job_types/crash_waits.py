"""Comes too early, and says so."""

from __future__ import annotations

import time
from datetime import timedelta

from shared.domain.run import Defer, Run
from shared.jobs import job_type

from ._crash_visit import QUICK, Visit, Work

WAIT_SECONDS = 3.0


@job_type("crash-waits", queue="thumbnails", policy=QUICK)
def waits(payload: Work, run: Run) -> Defer | None:
    """The first run settles when it opens; whoever comes earlier is deferred."""
    with Visit(payload, run) as visit:
        opens_at = run.once("opens", lambda: time.time() + WAIT_SECONDS)
        visit.works(0.5)
        if (early := opens_at - time.time()) > 0:
            return Defer(timedelta(seconds=early), "not open yet")
        run.once("enter", visit.effect("enter"))
        visit.works(0.5)
    return None
