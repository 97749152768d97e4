"""A worker of a FIFO lane: one message of its batch after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from shared.domain.found import End, Stale, TakeOver, Wait
from shared.domain.states import FINAL, State
from shared.domain.waits import LONGEST_ON_MESSAGE, leaves_its_message
from tests.model.explore import Step
from tests.model.fifo_world import JOBS, Fifo, Worker, idle, spent, told, with_job, with_worker

if TYPE_CHECKING:
    from tests.model.fifo import FifoModel


def steps(world: Fifo, place: int, worker: Worker, model: FifoModel) -> Iterator[Step]:
    """What it may do now."""
    return _leased(world, place, worker, model) if worker.run else _received(world, place, worker, model)


def _received(world: Fifo, place: int, worker: Worker, model: FifoModel) -> Iterator[Step]:
    ring = worker.batch[0]
    record, token = world.jobs[ring.job], f"token-{world.jobs[ring.job].run + 1}"
    leased = model.records.apply(record, "lease", dispatch=ring.dispatch, holder=token)
    if leased is None and isinstance(model.records.meaning(record, ring.dispatch, False, token), TakeOver):
        leased = model.records.apply(
            record, "reclaim", dispatch=ring.dispatch, run=record.run, lease="lapsed", holder=token
        )
    if leased is not None:
        running = with_worker(with_job(world, ring.job, leased), place, worker._replace(run=leased.run))
        yield Step(f"worker: starts {told(ring)}", running, broken=_broken_start(world, ring.job, model))
        return
    meaning = model.records.meaning(record, ring.dispatch, False, token)
    if isinstance(meaning, Stale):
        yield Step(f"worker: {told(ring)} is stale, acknowledged", _acknowledged(world, place))
    elif isinstance(meaning, Wait) and "live_leave" in model.off and record.state is State.RUNNING:
        yield Step(f"worker: {told(ring)} finds a live lease, acknowledged", _acknowledged(world, place))
    elif isinstance(meaning, End) and meaning.write.move.name == "dead-letter (lapsed)":
        dead = model.records.apply(record, "dead-letter (lapsed)", run=record.run, lease="lapsed")
        if dead is not None:
            yield Step(f"worker: {JOBS[ring.job]} is dead", _acknowledged(with_job(world, ring.job, dead), place))
    else:
        yield Step(f"worker: {told(ring)} is left", _kept(world, place, model))


def _broken_start(world: Fifo, which: int, model: FifoModel) -> str | None:
    first = world.jobs[0]
    at_work = any(w.run == first.run and w.batch[:1] and w.batch[0].job == 0 for w in world.workers)
    if which == 1 and first.state is State.RUNNING and not first.lapsed and at_work:
        return "(h) two jobs of a key at once"
    return "(h) B starts before A has ended" if which == 1 and first.state not in FINAL and model.promised else None


def _leased(world: Fifo, place: int, worker: Worker, model: FifoModel) -> Iterator[Step]:
    ring = worker.batch[0]
    own: Mapping[str, Any] = {"run": worker.run, "holder": f"token-{worker.run}"}
    record = world.jobs[ring.job]
    completed = model.records.apply(record, "complete", **own)
    if completed is None:
        yield Step(f"worker: has lost its lease of {JOBS[ring.job]}", _kept(world, place, model))
        return
    yield Step(f"worker: completes {told(ring)}", _acknowledged(with_job(world, ring.job, completed), place))
    if world.budget.fail:
        yield from _fails(spent(world, "fail"), place, own, model)
    if world.budget.resume and (record.job.checkpoint is None):
        resumed = model.records.apply(record, "continue", page=1, **own)
        if resumed is not None:
            after = model.written(spent(world, "resume"), ring.job, resumed)
            yield Step(f"worker: continues {told(ring)}", _acknowledged(after, place), False)


def _fails(world: Fifo, place: int, own: Mapping[str, Any], model: FifoModel) -> Iterator[Step]:
    ring = world.workers[place].batch[0]
    for wait in (timedelta(), LONGEST_ON_MESSAGE * 60):
        leaves = leaves_its_message(wait, receives=1, fifo="wait_in_place" not in model.off)
        name = "retry (long wait)" if leaves else "retry"
        failed = model.records.apply(world.jobs[ring.job], name, **own)
        if failed is not None:
            after = model.written(world, ring.job, failed)
            gone = _acknowledged(after, place) if leaves else _kept(after, place, model)
            yield Step(f"worker: {name} of {told(ring)} in {wait}", gone, False)


def _acknowledged(world: Fifo, place: int) -> Fifo:
    """Deleted, and the next of the batch in hand."""
    ring, *rest = world.workers[place].batch
    gone = next((n for n, item in enumerate(world.group) if item.ring == ring), None)
    if gone is not None:
        world = world._replace(group=(*world.group[:gone], *world.group[gone + 1 :]))
    return with_worker(world, place, Worker(tuple(rest)))


def _kept(world: Fifo, place: int, model: FifoModel) -> Fifo:
    rest = world.workers[place].batch[1:]
    if "release_the_rest" in model.off:
        return with_worker(world, place, Worker(rest))
    return idle(world, place)
