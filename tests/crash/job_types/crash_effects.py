"""Hardly anything but recorded effects, the last of them at most once and refused at first."""

from __future__ import annotations

from datetime import timedelta

from shared.domain.run import Run
from shared.errors import NotDone, TransientFailure
from shared.jobs import job_type

from ._crash_visit import QUICK, Visit, Work

PARTS = 4
LEASE, DEADLINE = timedelta(seconds=30), timedelta(seconds=50)
"""Ten writes about effects, most of which AWS spoils once or more: a handler past its deadline would show nothing. The
lease is as long as the other types', or a killed one would start again later than theirs.
"""


@job_type("crash-effects", queue="exports.month-end", policy=QUICK, deadline=DEADLINE, lease=LEASE)
def effects(payload: Work, run: Run) -> None:
    """Four parts, then the wire, which the first attempt is refused."""
    with Visit(payload, run) as visit:
        for part in range(1, PARTS + 1):
            run.once(f"part-{part}", visit.effect(f"part-{part}"))
            run.progress(part, PARTS, "parts")
            visit.works(0.1)
        run.once("wire", _closed if run.attempt == 1 else visit.effect("wire"), at_most_once=True)
        visit.works(0.5)


def _closed() -> str:
    raise NotDone(TransientFailure("the bank is closed", code="bank-closed"))
