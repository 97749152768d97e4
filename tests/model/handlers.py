"""A worker with a lease: its effect, its heartbeat, its end. Every write is by its run and its token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from shared.domain.job import EFFECT_COMPLETED as COMPLETED
from shared.domain.job import EFFECT_STARTED as STARTED
from shared.domain.lease import Lease
from shared.domain.states import State
from tests.builders import NOW
from tests.model import endings
from tests.model.changes import leaves, spent, with_worker
from tests.model.explore import Step
from tests.model.record import Record
from tests.model.world import AT_WORK, CANCELS, DONE, FAILED, GATED, GIVES_UP, PERFORMS, RECORDS, STARTS, Worker, World

if TYPE_CHECKING:
    from tests.model.job_model import JobModel


def steps(world: World, place: int, worker: Worker, model: JobModel) -> Iterator[Step]:
    """What a worker that had a lease may do now."""
    if not holds(world.record, worker):
        yield from _fenced(world, place, worker, model)
        return
    if worker.slot < 0:
        yield from _thread(world, place, worker, model)
        return
    if worker.step in AT_WORK:
        yield from endings.renews(world, place, worker, model)
    if worker.step in (STARTS, PERFORMS):
        yield from endings.hangs(world, place, worker, model)
    if worker.step == STARTS:
        yield from starts_effect(world, place, worker, model)
    elif worker.step == PERFORMS:
        yield from performs(world, place, worker, model)
    elif worker.step == RECORDS:
        yield _records(world, place, worker, model)
    if worker.step in (STARTS, DONE, FAILED, GIVES_UP, CANCELS, GATED):
        yield from endings.steps(world, place, worker, model)


def holds(record: Record | None, worker: Worker) -> bool:
    """Whether the record is this worker's, as one who sees everything knows."""
    return (
        record is not None
        and record.state is State.RUNNING
        and (record.run, record.holder) == (worker.run, worker.holder)
    )


def to(world: World, place: int, step: str) -> World:
    """The worker moves on."""
    worker = world.workers[place]._replace(step=step)
    return world._replace(workers=with_worker(world.workers, place, worker))


def own(world: World, worker: Worker, name: str, model: JobModel, page: int = 0, effect: str = "") -> Record | None:
    """A write under the worker's lease."""
    return model.records.apply(world.record, name, run=worker.run, holder=worker.holder, page=page, effect=effect)


OWN_MOVES = (
    "renew",
    "complete",
    "retry",
    "retry (long wait)",
    "defer",
    "defer (long wait)",
    "continue",
    "dead-letter",
    "request-cancel (own)",
    "cancel (running)",
    "start effect",
    "start effect (at most once)",
    "finish effect",
    "erase effect",
)


def _fenced(world: World, place: int, worker: Worker, model: JobModel) -> Iterator[Step]:
    """The job is no longer this worker's: whatever it tries to write must be refused."""
    for name in OWN_MOVES:
        effect = COMPLETED if name == "finish effect" else STARTED if "effect" in name else ""
        if own(world, worker, name, model, page=9, effect=effect) is not None:
            broken = "(b) a worker writes under a lease it has lost"
            yield model.step(f"{worker}: {name}, fenced off", world, broken=broken)
    if worker.step == PERFORMS:
        yield from performs(world, place, worker, model)
    effect_done = world.record is not None and world.record.effect is not None and world.record.effect[0] == COMPLETED
    own_start = world.record is not None and world.record.effect == (STARTED, worker.run)
    if worker.step == STARTS and effect_done:
        yield model.step(f"{worker}: finds the outcome of its effect", to(world, place, DONE))
    elif worker.step == STARTS and own_start:
        yield _begins(world, place, worker, model, "finds its own start in another's record")
    else:
        yield model.step(f"{worker}: has lost its lease", leaves(world, place))


def _thread(world: World, place: int, worker: Worker, model: JobModel) -> Iterator[Step]:
    """A thread whose attempt was closed: what it began it may finish, no more."""
    if worker.step == PERFORMS:
        yield from performs(world, place, worker, model)
    yield model.step(f"{worker}: its thread ends", leaves(world, place))


def starts_effect(world: World, place: int, worker: Worker, model: JobModel) -> Iterator[Step]:
    """adapters/effects.py, _put_record and _refused."""
    name = "start effect (at most once)" if model.at_most_once else "start effect"
    record = own(world, worker, name, model, effect=STARTED)
    effect = None if world.record is None else world.record.effect
    if record is not None:
        after = model.written(world, record)
        yield _begins(after, place, worker, model, "starts its effect")
        if world.budget.lost_answer:
            unsure = after._replace(budget=spent(world.budget, "lost_answer"))
            yield model.step(f"FAULT: answer lost, {worker}: starts its effect", unsure, fair=False)
    elif effect is None:
        yield model.step(f"{worker}: may not start its effect", leaves(world, place))
    elif effect[0] == COMPLETED:
        yield model.step(f"{worker}: finds the outcome of its effect", to(world, place, DONE))
    elif effect[1] == worker.run:
        yield _begins(world, place, worker, model, "finds its own start, written before")
    else:
        broken = None if model.at_most_once else "(f) a job dies of an effect that may be repeated"
        yield model.step(f"{worker}: finds its effect half-done", to(world, place, GIVES_UP), broken=broken)


def _begins(world: World, place: int, worker: Worker, model: JobModel, how: str) -> Step:
    """Its start stands in the record; whether it may begin says Lease.lasts. One that may not is taken back."""
    record = world.record
    assert record is not None
    if Lease(record.job.job_id, worker.run, worker.holder).lasts(record.job, NOW) or not model.on("own_start"):
        lost = not holds(record, worker)
        broken = "(b) a worker begins an effect under a lease it has lost" if lost else None
        return model.step(f"{worker}: {how}", to(world, place, PERFORMS), broken=broken)
    erased = own(world, worker, "erase effect", model)
    after = world if erased is None else model.written(world, erased)
    return model.step(f"{worker}: {how}, too late", leaves(after, place))


def performs(world: World, place: int, worker: Worker, model: JobModel) -> Iterator[Step]:
    """The call to the outside. A fenced worker's, already on its way, is not promised never to be sent."""
    record, ghost = world.record, world.ghost
    mine = record is not None and record.effect == (STARTED, worker.run) and holds(record, worker)
    broken = None
    if ghost.recorded and mine:
        broken = "(b) an effect is performed again after it was recorded as completed"
    elif model.at_most_once and ghost.performed:
        broken = "(b) an at-most-once effect is performed twice"
    after = world._replace(ghost=ghost._replace(performed=min(ghost.performed + 1, 3)))
    yield model.step(f"{worker}: performs its effect", to(after, place, RECORDS), broken=broken)
    if world.budget.misbehave and worker.slot >= 0 and broken is None and holds(record, worker):
        yield from _raises(after, place, worker, model)
        yield from _is_refused(world, place, worker, model)


def _raises(world: World, place: int, worker: Worker, model: JobModel) -> Iterator[Step]:
    """The effect takes place, and its call raises all the same: a timeout."""
    after = world._replace(budget=spent(world.budget, "misbehave"))
    label = f"{worker}: performs its effect, whose answer times out"
    if model.at_most_once and model.on("amo_keep"):
        yield model.step(label, to(after, place, FAILED), fair=False)
        return
    record = own(world, worker, "erase effect", model)
    if record is not None:
        yield model.step(label, to(model.written(after, record), place, FAILED), fair=False)


def _is_refused(world: World, place: int, worker: Worker, model: JobModel) -> Iterator[Step]:
    """The provider did not do it, and says so: the start is erased, at most once or not."""
    record = own(world, worker, "erase effect", model)
    if record is not None:
        after = model.written(world, record)._replace(budget=spent(world.budget, "misbehave"))
        yield model.step(f"{worker}: its effect is refused", to(after, place, FAILED), fair=False)


def _records(world: World, place: int, worker: Worker, model: JobModel) -> Step:
    record = own(world, worker, "finish effect", model, effect=COMPLETED)
    if record is None:
        return model.step(f"{worker}: may not record its effect", leaves(world, place))
    after = model.written(world, record)._replace(ghost=world.ghost._replace(recorded=True))
    return model.step(f"{worker}: records its effect as completed", to(after, place, DONE))
