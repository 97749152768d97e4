"""Fails twice in passing, then succeeds."""

from __future__ import annotations

from shared.domain.run import Run
from shared.errors import TransientFailure
from shared.jobs import job_type

from ._crash_visit import QUICK, Visit, Work

FAILURES = 2


@job_type("crash-flaky", queue="emails.bulk", policy=QUICK)
def flaky(payload: Work, run: Run) -> None:
    """The effect is done by the first attempt already, so the later ones must find it done."""
    with Visit(payload, run) as visit:
        visit.works(0.4)
        run.once("charge", visit.effect("charge"))
        visit.works(0.6)
        if run.attempt <= FAILURES:
            raise TransientFailure("the provider is busy", code="busy")
