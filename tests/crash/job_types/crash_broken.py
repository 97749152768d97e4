"""Cannot succeed, and knows it."""

from __future__ import annotations

from shared.domain.run import Run
from shared.errors import DeterministicFailure
from shared.jobs import job_type

from ._crash_visit import QUICK, Visit, Work


@job_type("crash-broken", queue="emails.high", policy=QUICK)
def broken(payload: Work, run: Run) -> None:
    """Dead at its first end."""
    with Visit(payload, run) as visit:
        visit.works(1.0)
        raise DeterministicFailure("row 7 has no amount", code="row-invalid")
