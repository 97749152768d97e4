"""Sweepers: read the record or a DLQ message, decide by shared.domain.repair, then write on what was read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from shared.domain.states import FINAL, State
from tests.model.changes import spent
from tests.model.explore import Step
from tests.model.promoters import with_plan
from tests.model.record import Record
from tests.model.refusals import broken_end
from tests.model.world import NO_PLAN, Copy, Plan, World

if TYPE_CHECKING:
    from tests.model.job_model import JobModel

PARKS = ("park", "park (lapsed)")
ANEW = " anew"
"""Rung because of a message in the DLQ, which goes with the same step."""
DROP = "drop"


def steps(world: World, model: JobModel) -> Iterator[Step]:
    """What a sweeper may do now."""
    for place, plan in enumerate(world.sweepers):
        if place and plan == world.sweepers[place - 1]:
            continue
        if plan == NO_PLAN:
            yield from _reads(world, place, model)
        elif plan.act == DROP:
            yield _drops(world, place, plan, model)
        else:
            yield _writes(world, place, plan, model)


def _reads(world: World, place: int, model: JobModel) -> Iterator[Step]:
    record = world.record
    if record is not None:
        yield from _sees_broken(world, place, record, model)
    for copy in dict.fromkeys(world.dead_letters):
        plan = _fate(copy, record, model)
        if plan is not None:
            label = f"sweeper: sees {copy} in the DLQ, will {plan.act}"
            yield model.step(label, world._replace(sweepers=with_plan(world.sweepers, place, plan)))
        if world.budget.away and (plan := _fate_after_days(copy, record, model)) is not None:
            seen = world._replace(budget=spent(world.budget, "away"))
            label = f"sweeper: sees {copy} in the DLQ, of days ago, will {plan.act}"
            yield model.step(label, seen._replace(sweepers=with_plan(seen.sweepers, place, plan)), fair=False)


def _sees_broken(world: World, place: int, record: Record, model: JobModel) -> Iterator[Step]:
    repair = model.records.repair(record, not model.busy_queue and not any(world.queue))
    if repair is None or _left_out(record, repair, model) or (repair == "promote" and model.promoters):
        return
    plan = seen_by(repair, record, record.dispatch)
    seen = world._replace(sweepers=with_plan(world.sweepers, place, plan))
    label = f"sweeper: sees {record.state} d{record.dispatch}, will {plan.act}"
    ringing = record.job.outbox is not None and repair in ("ring again", "redispatch")
    if not ringing or (world.relay is None and not world.stream):
        yield model.step(label, seen)
    elif world.budget.lag:  # the relay is only slow
        late = seen._replace(budget=spent(world.budget, "lag"))
        yield model.step(f"{label}, the relay lags", late, fair=False)


def _left_out(record: Record, repair: str, model: JobModel) -> bool:
    """Repairs of a rule that is switched off."""
    if record.state is State.RUNNING:
        return not model.on("repair_lapsed")
    if repair == "redispatch" and record.job.outbox is not None:
        return not model.on("repair_unmarked")
    return record.job.outbox is None and repair != "promote" and not model.on("repair_lost")


def seen_by(act: str, record: Record, dispatch: int) -> Plan:
    """A plan on the record exactly as it is."""
    return Plan(
        act, dispatch, record.run, record.attempts, record.lease, record.job.outbox or "", record.marked
    )  # fmt: skip


def _fate(copy: Copy, record: Record | None, model: JobModel) -> Plan | None:
    if record is None:
        return None
    found = model.records.broken_by(record, copy.dispatch, copy.marked)
    parks, drops = found is not None and found.write is not None, found is not None and found.write is None
    if not model.on("park_current") and record.state not in FINAL and not record.in_due:
        parks = True
    elif not model.on("drop_stale"):
        state_alone = record.state in FINAL and record.state is not State.DEAD
        parks, drops = False, state_alone or (copy.marked and record.state is not State.DEAD)
    if parks:
        return seen_by(PARKS[record.state is State.RUNNING], record, copy.dispatch)
    return Plan(DROP, copy.dispatch, marked=copy.marked, suspect=copy.suspect) if drops else None


def _fate_after_days(copy: Copy, record: Record | None, model: JobModel) -> Plan | None:
    """Where the table may have been away, the job is rung anew."""
    found = None if record is None else model.records.broken_by(record, copy.dispatch, copy.marked, away=True)
    if record is None or found is None or found.write is None or found.write.move.name in PARKS:
        return None
    return seen_by(found.write.move.name + ANEW, record, copy.dispatch)


def _drops(world: World, place: int, plan: Plan, model: JobModel) -> Step:
    idle = world._replace(sweepers=with_plan(world.sweepers, place, NO_PLAN))
    copy = Copy(plan.dispatch, plan.marked, plan.suspect)
    if copy not in world.dead_letters:
        return model.step("sweeper: the DLQ message is gone", idle)
    copies = list(world.dead_letters)
    copies.remove(copy)
    return model.step(f"sweeper: deletes {copy} from the DLQ", idle._replace(dead_letters=tuple(copies)))


def _writes(world: World, place: int, plan: Plan, model: JobModel) -> Step:
    idle = world._replace(sweepers=with_plan(world.sweepers, place, NO_PLAN))
    before = world.record
    dispatch = plan.dispatch
    if plan.act in PARKS and not model.on("park_current") and before is not None:
        dispatch = before.dispatch
    act = plan.act.removesuffix(ANEW)
    record = model.records.apply(
        before, act, dispatch=dispatch, run=plan.run, attempts=plan.attempts,
        lease=plan.lease, outbox=plan.outbox, marked=plan.marked,
    )  # fmt: skip
    if record is None or before is None:
        return model.step(f"sweeper: {plan.act} is refused", idle)
    after = model.written(idle, record)
    if act != plan.act:
        kept = [copy for copy in after.dead_letters if copy.marked or copy.dispatch != plan.dispatch]
        after = after._replace(dead_letters=tuple(kept))
    if plan.act == "requeue":
        after = after._replace(ghost=world.ghost._replace(in_row=world.ghost.in_row + 1))
    broken = _broken_park(before, plan, world) if plan.act in PARKS else _broken_write(before, plan, world, model)
    return model.step(f"sweeper: {plan.act}, d{record.dispatch}", after, broken=broken)


def _broken_write(before: Record, plan: Plan, world: World, model: JobModel) -> str | None:
    if plan.act == "promote" and before.waiting:
        return "(k) a job is promoted before its time"
    if plan.act.removesuffix(ANEW) == "redispatch" and before.waiting:
        return "(k) a retry is sent before its time"
    return broken_end(world, plan.act, plan.dispatch, model)


def _broken_park(before: Record, plan: Plan, world: World) -> str | None:
    if before.dispatch != plan.dispatch:
        return "(e) a healthy job is parked because of a stale DLQ message"
    if before.attempts != plan.attempts:
        return "(e) a job is parked as never having run after it ran"
    if before.state is State.RUNNING and not before.lapsed:
        return "(e) a running job is parked under its worker"
    return None
