"""One at a time for each ordering key."""

from __future__ import annotations

from shared.domain.run import Run
from shared.jobs import job_type

from ._crash_visit import QUICK, Visit, Work


@job_type("crash-ordered", queue="webhooks.partner-a", policy=QUICK)
def ordered(payload: Work, run: Run) -> None:
    """Its start and end, told to the provider, show whether another of its key ran beside it."""
    with Visit(payload, run) as visit:
        visit.works(0.5)
        run.once("deliver", visit.effect("deliver"))
        visit.works(0.5)
