"""The start of an attempt, and the promises about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.domain.states import State
from tests.model.changes import spent, with_worker
from tests.model.explore import Step
from tests.model.record import Record
from tests.model.world import AT_WORK, STARTS, UNSURE, World

if TYPE_CHECKING:
    from tests.model.job_model import JobModel


def started(world: World, place: int, record: Record, label: str, model: JobModel, *, alone: bool, step: str) -> Step:
    """The world in which this worker holds the lease. `alone`: it has its process to itself."""
    unsure = step == UNSURE
    ghost = world.ghost._replace(
        leases=world.ghost.leases + 1, replayed=False, spent=world.ghost.spent + 1, in_row=world.ghost.in_row
    )
    worker = world.workers[place]._replace(
        step=step, run=0 if unsure else record.run, holder=record.holder or "", passed=False, seen=()
    )
    after = model.written(world, record)._replace(workers=with_worker(world.workers, place, worker), ghost=ghost)
    if unsure:
        after = after._replace(budget=spent(world.budget, "lost_answer"))
    broken = broken_start(world, place, record, model, alone) if step in (STARTS, UNSURE) else None
    return model.step(f"{label} (run {record.run}, attempt {record.attempts})", after, not unsure, broken)


def broken_start(world: World, place: int, record: Record, model: JobModel, alone: bool) -> str | None:
    """The promise that this start breaks, if any."""
    if record.cancelling:
        return "(e) a handler starts although cancelling was requested"
    if record.late:
        return "(d) a handler starts after its deadline"
    if world.record is not None and world.record.state is State.RETRYING and world.record.waiting:
        return "(k) an attempt starts before its time"
    if world.ghost.in_row > model.stall_limit:
        return "(g) crash loop: started again past the stall limit"
    if world.ghost.spent >= model.max_attempts:
        return "(g) started again with its attempts used up"
    if world.record is not None and world.record.state is State.RUNNING and not world.record.lapsed:
        return "(c) a live lease is taken from its holder"
    if any(n != place and w.step in AT_WORK and not w.passed for n, w in enumerate(world.workers)):
        return "(c) two attempts run beside each other while a lease is live"
    if record.stalls and not alone:
        return "(j) a suspect starts beside other jobs"
    return None
