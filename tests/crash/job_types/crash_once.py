"""An effect that must never happen twice, even if that leaves it to a human."""

from __future__ import annotations

from shared.domain.run import Run
from shared.jobs import job_type

from ._crash_visit import QUICK, Visit, Work


@job_type("crash-once", queue="thumbnails", policy=QUICK)
def once(payload: Work, run: Run) -> None:
    """Works inside its effect too, so that kills hit it there."""
    with Visit(payload, run) as visit:
        call = visit.effect("pay")

        def pay() -> str:
            mark = call()
            visit.works(0.4)
            return mark

        visit.works(0.3)
        run.once("pay", pay, at_most_once=True)
        visit.works(0.3)
