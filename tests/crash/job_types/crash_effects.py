"""Hardly anything but recorded effects, the last of them at most once and refused at first."""

from __future__ import annotations

from shared.domain.run import Run
from shared.errors import NotDone, TransientFailure
from shared.jobs import job_type

from ._crash_visit import QUICK, Visit, Work

PARTS = 5


@job_type("crash-effects", queue="emails.bulk", policy=QUICK)
def effects(payload: Work, run: Run) -> None:
    """Five parts, then the wire, which the first attempt is refused."""
    with Visit(payload, run) as visit:
        for part in range(1, PARTS + 1):
            run.once(f"part-{part}", visit.effect(f"part-{part}"))
            visit.works(0.1)
        run.once("wire", _closed if run.attempt == 1 else visit.effect("wire"), at_most_once=True)
        visit.works(0.5)


def _closed() -> str:
    raise NotDone(TransientFailure("the bank is closed", code="bank-closed"))
