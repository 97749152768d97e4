"""An operator: reads, then replays, cancels or reschedules as it was read; or has AWS redrive the DLQ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from shared.domain.states import State
from tests.model.changes import free_slot, spent, with_message
from tests.model.explore import BOUND, Step
from tests.model.record import Record
from tests.model.world import NO_PLAN, Message, Plan, World

if TYPE_CHECKING:
    from tests.model.job_model import JobModel

REPLAYED = (State.DEAD, State.EXPIRED, State.CANCELLED)
CANCELLED = (State.SCHEDULED, State.QUEUED, State.RETRYING, State.DEAD)
RESCHEDULED = (State.SCHEDULED, State.QUEUED, State.RETRYING)


def steps(world: World, model: JobModel) -> Iterator[Step]:
    """What the operator may do now."""
    record = world.record
    if world.operator != NO_PLAN:
        yield _writes(world, world.operator, model)
    elif record is not None:
        for act, budget, states in (("replay", "replay", REPLAYED), ("reschedule", "reschedule", RESCHEDULED)):
            if getattr(world.budget, budget) and record.state in states:
                yield _reads(world, act, budget, record, model)
        if world.budget.cancel and (record.state in CANCELLED or record.state is State.RUNNING):
            yield _reads(world, _cancelling(record), "cancel", record, model)
    if world.budget.redrive:
        yield from _redrive(world, model)


def _cancelling(record: Record) -> str:
    return "request-cancel" if record.state is State.RUNNING else "cancel"


def _reads(world: World, act: str, budget: str, record: Record, model: JobModel) -> Step:
    plan = Plan(act, record.dispatch)
    read = world._replace(operator=plan, budget=spent(world.budget, budget))
    return model.step(f"operator: reads {record.state} d{record.dispatch}, will {act}", read, fair=False)


def _writes(world: World, plan: Plan, model: JobModel) -> Step:
    idle = world._replace(operator=NO_PLAN)
    before = world.record
    record = model.records.apply(before, plan.act, dispatch=plan.dispatch)
    if record is not None and before is not None:
        replayed = plan.act == "replay"
        ghost = world.ghost._replace(replayed=replayed)
        ghost = ghost._replace(in_row=0, spent=0) if replayed else ghost
        broken = "(m) an act on a job as it no longer is" if _moved_on(before, plan) else None
        after = model.written(idle, record)._replace(ghost=ghost)
        return model.step(f"operator: {plan.act}, d{record.dispatch}", after, broken=broken)
    again = before is not None and (before.state in CANCELLED or before.state is State.RUNNING)
    if again and before is not None and "cancel" in plan.act:
        plan = Plan(_cancelling(before), before.dispatch)
        return model.step(f"operator: refused, will {plan.act}", world._replace(operator=plan))
    return model.step(f"operator: {plan.act} is refused", idle)


def _moved_on(before: Record, plan: Plan) -> bool:
    return plan.act in ("replay", "cancel", "reschedule") and before.dispatch != plan.dispatch


def _redrive(world: World, model: JobModel) -> Iterator[Step]:
    record, slot = world.record, free_slot(world)
    for copy in dict.fromkeys(world.dead_letters):
        if slot is None:
            yield Step("queue slots", world, False, BOUND)
            continue
        wanted = record is not None and record.state is State.DEAD and record.dispatch == copy.dispatch
        copies = list(world.dead_letters)
        copies.remove(copy)
        message = Message(copy.dispatch, copy.marked, copy.suspect, replay=wanted)
        moved = world._replace(
            queue=with_message(world.queue, slot, message),
            dead_letters=tuple(copies),
            budget=spent(world.budget, "redrive"),
        )
        yield model.step(f"operator: AWS redrives {copy}", moved, fair=False)
