"""What a worker makes of a refused write: it was shown the record, and the next write conditions on exactly that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from shared.domain.found import End, Ours, Stale, TakeOver, Wait
from shared.domain.states import FINAL, State
from tests.model.changes import acknowledging, bare, leaves, with_worker
from tests.model.explore import Step
from tests.model.record import Record
from tests.model.starts import started
from tests.model.world import FOLLOWS, STARTS, UNSURE, Worker, World

if TYPE_CHECKING:
    from tests.model.job_model import JobModel

MANY_RECEIVES = 2
"""Stands for waits.RECEIVE_LIMIT, where maxReceiveCount is 3."""

REPLAY = "replay (redriven message)"


def token(world: World) -> str:
    """The next lease's token."""
    return f"token-{world.ghost.leases + 1}"


def receives(world: World, worker: Worker) -> int:
    """How often its message was received."""
    message = world.queue[worker.slot]
    return 0 if message is None else message.receives


def decides(world: World, place: int, worker: Worker, model: JobModel, what: str, *, gated: bool = False) -> Step:
    """A refused write has shown the record; the next one will condition on exactly that."""
    found = world.record
    meaning = None if found is None else model.records.meaning(found, worker.dispatch, worker.marked, worker.holder)
    own = found is not None and found.state is State.RUNNING and found.holder == worker.holder
    if own and not (isinstance(meaning, Ours) and model.on("own_lease")):
        broken = "(f) an attempt is burnt by a lost answer, its worker alive"
        return model.step("worker: does not know its own lease", world, broken=broken)
    if isinstance(meaning, Ours) and not meaning.late and found is not None:
        won = worker._replace(step=STARTS, run=found.run, passed=False, seen=())
        label = f"worker: {what} is refused by its own token: it has run {found.run}"
        return model.step(label, world._replace(workers=with_worker(world.workers, place, won)))
    if _wrongly_revives(found, worker, model):
        return model.step("worker: takes a redriven copy", world, broken="(d) an ended job is revived by a DLQ copy")
    if found is None or isinstance(meaning, Stale):
        label = f"worker: {what} is refused, {'orphan' if found is None else 'acknowledge'}, {_told(found)}"
        return model.step(label, acknowledging(world, place))
    if isinstance(meaning, Wait) or (gated and isinstance(meaning, TakeOver)):
        forgets = not model.on("live_leave" if found.state is State.RUNNING else "early_leave")
        label = f"worker: {what} is refused, {'acknowledged' if forgets else 'left'}, {_told(found)}"
        return model.step(label, acknowledging(world, place) if forgets else leaves(world, place))
    late = isinstance(meaning, Ours)
    following = meaning.write.move.name if isinstance(meaning, End) else "renew" if late else "reclaim"
    decided = bare(worker, FOLLOWS)._replace(seen=(following, found.dispatch, found.run, found.reasoned))
    if late:
        decided = decided._replace(holder=worker.holder)
    label = f"worker: {what} is refused, will {following}, {_told(found)}"
    return model.step(label, world._replace(workers=with_worker(world.workers, place, decided)))


def _told(found: Record | None) -> str:
    return "no record" if found is None else f"{found.state} d{found.dispatch}"


def _wrongly_revives(found: Record | None, worker: Worker, model: JobModel) -> bool:
    if model.on("accept_dead_only") or found is None or not worker.marked or found.state is State.COMPLETED:
        return False
    return found.state in FINAL and found.state is not State.DEAD and worker.dispatch == found.dispatch


def follows(world: World, place: int, worker: Worker, model: JobModel) -> Iterator[Step]:
    """The write that a refusal led to."""
    following, dispatch, run, reasoned = worker.seen  # type: ignore[misc]
    if following == "reclaim":
        yield from _reclaims(world, place, worker, dispatch, run, model)
        return
    if following == "renew":
        yield _renews(world, place, worker, run, model)
        return
    record = model.records.apply(world.record, following, dispatch=dispatch, run=run, lease="lapsed", reasoned=reasoned)
    if record is None or world.record is None:
        yield decides(world, place, worker, model, following)
        return
    ghost = world.ghost
    if following == REPLAY:
        ghost = ghost._replace(replayed=True, in_row=0, spent=0)
    ended = model.written(acknowledging(world, place), record)._replace(ghost=ghost)
    broken = broken_end(world, following, dispatch, model)
    if following.startswith("expire") and world.record.reasoned != reasoned:
        broken = "(o) an expiry hides what stood in its way"
    yield model.step(f"worker: {following}", ended, broken=broken)


def _renews(world: World, place: int, worker: Worker, run: int, model: JobModel) -> Step:
    """A lease of its own that was over before it knew of it."""
    record = model.records.apply(world.record, "renew", run=run, holder=worker.holder)
    if record is None:
        return decides(world, place, worker, model, "renew")
    fresh = worker._replace(step=STARTS, run=run, passed=False, seen=())
    after = model.written(world, record)._replace(workers=with_worker(world.workers, place, fresh))
    return model.step(f"worker: renews its late lease of run {run}", after)


def broken_end(world: World, following: str, dispatch: int, model: JobModel) -> str | None:
    """The promise that this ending of a job breaks."""
    record, ghost = world.record, world.ghost
    if record is not None and record.state is State.RUNNING and not record.lapsed:
        return "(c) a live lease is taken from its holder"
    if following == REPLAY and record is not None and record.dispatch != dispatch:
        return "(m) a dead job is replayed by the copy of an earlier death"
    if following.startswith("expire") and ghost.replayed:
        return "(e) a replayed job expires by its old deadline"
    if following.startswith("cancel") and ghost.replayed:
        return "(e) a replayed job is lost to its old cancel request"
    if following.startswith("dead-letter") and record is not None:
        return stopped_too_soon(record, world, model)
    return None


def stopped_too_soon(record: Record, world: World, model: JobModel) -> str | None:
    """Dead for a budget that was not spent."""
    if record.stalls >= model.stall_limit:
        return "(f) dead as stalled without crashes in a row" if world.ghost.in_row < model.stall_limit else None
    return "(f) dead with attempts left" if world.ghost.spent < model.max_attempts else None


def _reclaims(world: World, place: int, worker: Worker, dispatch: int, run: int, model: JobModel) -> Iterator[Step]:
    yield model.step("worker: no room to run a suspect alone, left", leaves(world, place), fair=False)
    if receives(world, worker) >= MANY_RECEIVES:
        requeued = model.records.apply(world.record, "requeue", run=run, lease="lapsed")
        if requeued is not None:
            ghost = world.ghost._replace(in_row=world.ghost.in_row + 1)
            after = model.written(acknowledging(world, place), requeued)._replace(ghost=ghost)
            broken = broken_end(world, "requeue", dispatch, model)
            yield model.step("worker: no room for a suspect: requeues it", after, broken=broken)
    record = model.records.apply(
        world.record, "reclaim", dispatch=dispatch, run=run, lease="lapsed", holder=token(world)
    )
    if record is None:
        yield decides(world, place, worker, model, "reclaim")
        return
    crashed = world._replace(ghost=world.ghost._replace(in_row=world.ghost.in_row + 1))
    yield started(crashed, place, record, "worker: reclaims", model, alone=True, step=STARTS)
    if world.budget.lost_answer:
        yield started(crashed, place, record, "FAULT: answer lost, worker: reclaims", model, alone=True, step=UNSURE)
