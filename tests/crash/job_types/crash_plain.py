"""One recorded effect in the middle of its work."""

from __future__ import annotations

from shared.domain.run import Run
from shared.jobs import job_type

from ._crash_visit import QUICK, Visit, Work


@job_type("crash-plain", queue="emails.high", policy=QUICK)
def plain(payload: Work, run: Run) -> None:
    """Works, charges, works."""
    with Visit(payload, run) as visit:
        visit.works(0.5)
        run.once("charge", visit.effect("charge"))
        visit.works(0.5)
