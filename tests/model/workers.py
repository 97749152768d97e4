"""A worker before and after its handler: receive, lease, follow what a refusal means, acknowledge. See handlers.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from shared.domain.states import State
from tests.builders import NOW
from tests.model import handlers
from tests.model.changes import acknowledging, leaves, spent, with_message
from tests.model.explore import Step
from tests.model.refusals import MANY_RECEIVES, decides, follows, receives, token
from tests.model.starts import started
from tests.model.world import ACKNOWLEDGES, FOLLOWS, GATED, IDLE, RECEIVED, STARTS, UNSURE, Worker, World
from tests.model.writes import OTHER_LANE

if TYPE_CHECKING:
    from tests.model.job_model import JobModel


def steps(world: World, model: JobModel) -> Iterator[Step]:
    """What each worker may do now; two that stand alike do the same."""
    for place, worker in enumerate(world.workers):
        if worker.step == IDLE or (place and worker == world.workers[place - 1]):
            continue
        if world.budget.crash:
            crashed = leaves(world, place)._replace(budget=spent(world.budget, "crash"))
            broken = "(f) an attempt is burnt by a job that never ran" if worker.step == GATED else None
            yield model.step(f"FAULT: {worker} dies where it {worker.step}", crashed, False, broken)
        if worker.step == RECEIVED:
            yield from _received(world, place, worker, model)
        elif worker.step == FOLLOWS:
            yield from follows(world, place, worker, model)
        elif worker.step == UNSURE:
            yield decides(world, place, worker, model, "lease, written again,")
        elif worker.step == ACKNOWLEDGES:
            yield _acknowledges(world, place, worker, model)
        else:
            yield from handlers.steps(world, place, worker, model)


def _received(world: World, place: int, worker: Worker, model: JobModel) -> Iterator[Step]:
    if world.gate_shut and model.on("gate_first"):
        yield from _defers(world, place, worker, model)
        return
    if model.moved and world.record is not None and world.record.job.queue != OTHER_LANE:
        yield from _may_not_run(world, place, worker, model)
        return
    if world.budget.move:
        moved = world._replace(budget=spent(world.budget, "move"))
        yield _reroutes(moved, place, worker, model, fair=False)
    if worker.suspect:
        yield model.step("worker: no room to run a suspect alone, left", leaves(world, place), fair=False)
        if receives(world, worker) >= MANY_RECEIVES:
            yield from _defers(world, place, worker, model)
    record = model.records.apply(world.record, "lease", dispatch=worker.dispatch, holder=token(world))
    if record is None:
        yield decides(world, place, worker, model, "lease")
        return
    alone = worker.suspect
    yield started(world, place, record, "worker: leases", model, alone=alone, step=GATED if world.gate_shut else STARTS)
    if world.budget.lost_answer:
        yield started(world, place, record, "FAULT: answer lost, worker: leases", model, alone=alone, step=UNSURE)


def _defers(world: World, place: int, worker: Worker, model: JobModel) -> Iterator[Step]:
    short = model.records.apply(world.record, "defer (unleased)", dispatch=worker.dispatch)
    long = model.records.apply(world.record, "defer (unleased, long wait)", dispatch=worker.dispatch)
    if short is not None:
        yield model.step("worker: defers unleased, message kept", model.written(leaves(world, place), short))
    if long is not None:
        yield model.step("worker: defers unleased, into due", model.written(acknowledging(world, place), long))
    if short is None:
        yield decides(world, place, worker, model, "defer", gated=True)


def _may_not_run(world: World, place: int, worker: Worker, model: JobModel) -> Iterator[Step]:
    """It is rung where it belongs; or, if its lane has changed a moment ago, waits."""
    refused = model.records.apply(world.record, "reroute", dispatch=worker.dispatch) is None
    if refused and world.record is not None and world.record.job.rerouted_at == NOW:
        yield from _defers(world, place, worker, model)
    else:
        yield _reroutes(world, place, worker, model, fair=True)


def _reroutes(world: World, place: int, worker: Worker, model: JobModel, *, fair: bool) -> Step:
    """Its type has moved to another lane. Lanes differ in nothing else here."""
    before = world.record
    record = model.records.apply(before, "reroute", dispatch=worker.dispatch)
    if record is None or before is None:
        return decides(world, place, worker, model, "reroute", gated=True)
    broken = None
    if before.state is State.RETRYING and before.waiting:
        broken = "(k) a retry is sent before its time"
    elif before.job.rerouted_at == NOW:
        broken = "(n) a job is sent back and forth between two lanes"
    after = model.written(acknowledging(world, place), record)
    return model.step(f"worker: rings it on another lane, d{record.dispatch}", after, fair, broken)


def _acknowledges(world: World, place: int, worker: Worker, model: JobModel) -> Step:
    message = world.queue[worker.slot]
    record = world.record
    if message is None or (message.dispatch, message.marked) != (worker.dispatch, worker.marked):
        return model.step("worker: acknowledges what is gone", leaves(world, place))
    gone = leaves(world, place)._replace(queue=with_message(world.queue, worker.slot, None))
    lost = message.replay and record is not None and record.state is State.DEAD and record.dispatch == message.dispatch
    broken = "(e) a native redrive of a dead job is dropped" if lost else None
    return model.step(f"worker: acknowledges {message}", gone, broken=broken)
