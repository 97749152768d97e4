"""Two recorded effects: a run that is interrupted between them must repeat the second and not the first."""

from __future__ import annotations

from shared.domain.run import Run
from shared.jobs import job_type

from ._crash_visit import QUICK, Visit, Work


@job_type("crash-pair", queue="emails.bulk", policy=QUICK)
def pair(payload: Work, run: Run) -> None:
    """Reserves, works, charges."""
    with Visit(payload, run) as visit:
        visit.works(0.2)
        run.once("reserve", visit.effect("reserve"))
        visit.works(0.6)
        run.once("charge", visit.effect("charge"))
        visit.works(0.2)
