"""More work than one run does: three checkpoints, an effect at each."""

from __future__ import annotations

from shared.domain.run import Continue, Run
from shared.jobs import job_type

from ._crash_visit import QUICK, Visit, Work

STEPS = 3


@job_type("crash-steps", queue="exports.month-end", policy=QUICK)
def steps(payload: Work, run: Run) -> Continue | None:
    """One step per run."""
    step = (run.checkpoint or {"step": 0})["step"] + 1
    with Visit(payload, run) as visit:
        visit.works(0.5)
        run.once(f"step-{step}", visit.effect(f"step-{step}"))
        visit.works(0.5)
    return Continue({"step": step}) if step < STEPS else None
