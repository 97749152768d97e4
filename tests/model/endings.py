"""How a run ends: completed, retried, deferred, continued, dead, cancelled; and its heartbeat, which may tell it to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.model.changes import acknowledging, leaves, spent, with_worker
from tests.model.explore import Step
from tests.model.record import Record
from tests.model.world import CANCELS, DONE, FAILED, GATED, GIVES_UP, Worker, World

if TYPE_CHECKING:
    from tests.model.job_model import JobModel

KEPT, GONE = True, False
"""What becomes of the message."""


def steps(world: World, place: int, worker: Worker, model: JobModel) -> Iterator[Step]:
    """Every way this run may end now. The record is the worker's own."""
    if worker.step == GIVES_UP:
        yield from _ends(world, place, "dead-letter", GONE, model)
    elif worker.step == CANCELS:
        yield from _ends(world, place, "cancel (running)", GONE, model)
    elif worker.step == GATED:
        yield from _ends(world, place, "defer (long wait)", GONE, model)
    else:
        if worker.step == DONE:
            yield from _ends(world, place, "complete", GONE, model)
        forced = worker.step == FAILED
        if forced or world.budget.misbehave:
            budget = world.budget if forced else spent(world.budget, "misbehave")
            yield from _fails(world._replace(budget=budget), place, model, fair=forced)
            if not forced:
                yield from _says(world._replace(budget=budget), place, model)


def _fails(world: World, place: int, model: JobModel, fair: bool) -> Iterator[Step]:
    """retry.judge: the last attempt, and a retry past the deadline, are the end."""
    record = world.record
    assert record is not None
    if record.attempts >= model.max_attempts or record.late:
        broken = None if record.late or world.ghost.spent >= model.max_attempts else "(f) dead with attempts left"
        yield from _ends(world, place, "dead-letter", GONE, model, fair=fair, broken=broken)
        return
    yield from _ends(world, place, "retry", KEPT, model, fair=fair)
    yield from _ends(world, place, "retry (long wait)", GONE, model, fair=fair)


def _says(world: World, place: int, model: JobModel) -> Iterator[Step]:
    """The handler's other exits by name."""
    record = world.record
    assert record is not None
    page = 0 if record.job.checkpoint is None else record.job.checkpoint["page"]
    yield from _ends(world, place, "defer", KEPT, model, fair=False)
    yield from _ends(world, place, "defer (long wait)", GONE, model, fair=False)
    yield from _ends(world, place, "continue", GONE, model, fair=False, page=page + 1)
    if not model.on("checkpoint_moves") and page:
        yield from _ends(world, place, "continue", GONE, model, fair=False, page=page)
    yield from _ends(world, place, "dead-letter", GONE, model, fair=False)
    asked = _own(world, place, "request-cancel (own)", model)
    if asked is not None:
        yield _moves(model.written(world, asked), place, "asks to be cancelled", CANCELS, model, fair=False)


def _ends(
    world: World, place: int, name: str, kept: bool, model: JobModel, *, fair: bool = True, broken: str | None = None,
    page: int = 0,
) -> Iterator[Step]:  # fmt: skip
    """This ending, or what its refusal means."""
    worker, record = world.workers[place], _own(world, place, name, model, page)
    if record is None:
        yield _refused(world, place, name, model, fair, page)
        return
    given_back = name.startswith(("defer", "continue"))
    ghost = world.ghost._replace(in_row=0, spent=max(world.ghost.spent - given_back, 0))
    same_page = name == "continue" and world.record is not None and world.record.job.checkpoint == record.job.checkpoint
    if same_page:
        broken = "(l) a job continues from the checkpoint it started at"
    after = model.written(leaves(world, place) if kept else acknowledging(world, place), record)
    yield model.step(f"{worker}: {name}", after._replace(ghost=ghost), fair, broken)


def _refused(world: World, place: int, name: str, model: JobModel, fair: bool, page: int) -> Step:
    worker, record = world.workers[place], world.record
    assert record is not None  # it is the worker's own
    if record.cancelling and name != "complete" and model.on("cancel_for_wait"):
        return _moves(world, place, f"{name} is refused for a cancel request", CANCELS, model, fair=fair)
    broken = "(e) a cancel request is heard, and nothing follows" if record.cancelling else None
    honest = not page or record.job.checkpoint != {"page": page}
    if not record.cancelling and honest:
        broken = "(f) the honest end of a run is refused"
    return model.step(f"{worker}: {name} is refused", leaves(world, place), fair, broken)


def renews(world: World, place: int, worker: Worker, model: JobModel) -> Iterator[Step]:
    """progress(): renews the lease, and hears of a cancel request."""
    if not world.budget.renew:
        return
    record = _own(world, place, "renew", model)
    if record is None:
        return
    fresh = with_worker(world.workers, place, worker._replace(passed=False))
    after = model.written(world, record)._replace(workers=fresh, budget=spent(world.budget, "renew"))
    if record.cancelling:
        place = fresh.index(worker._replace(passed=False))
        yield _moves(after, place, "renews and is told to cancel", CANCELS, model, fair=False)
    else:
        yield model.step(f"{worker}: renews", after, fair=False)


def hangs(world: World, place: int, worker: Worker, model: JobModel) -> Iterator[Step]:
    """Past its deadline: the attempt is recorded as failed, and the process ends."""
    record = world.record
    if not world.budget.hang or record is None:
        return
    world = world._replace(budget=spent(world.budget, "hang"))
    name = "dead-letter" if record.attempts >= model.max_attempts or record.late else "retry"
    after = _own(world, place, name, model)
    label = f"{worker}: past its deadline, {name} recorded"
    if after is None:
        yield _moves(world, place, f"past its deadline, {name} is refused", CANCELS, model, fair=False)
        return
    ghost = world.ghost._replace(in_row=0)
    if model.on("handler_stops"):
        ended = model.written(leaves(world, place), after)._replace(ghost=ghost)
        yield model.step(f"{label}, process ends", ended, fair=False)
    else:
        thread = with_worker(world.workers, place, Worker(worker.step, run=worker.run, holder=worker.holder))
        runs_on = model.written(world, after)._replace(workers=thread, ghost=ghost)
        yield model.step(f"{label}, the thread runs on", runs_on, fair=False)


def _moves(world: World, place: int, what: str, step: str, model: JobModel, *, fair: bool) -> Step:
    worker = world.workers[place]
    moved = with_worker(world.workers, place, worker._replace(step=step))
    return model.step(f"{worker}: {what}", world._replace(workers=moved), fair)


def _own(world: World, place: int, name: str, model: JobModel, page: int = 0) -> Record | None:
    worker = world.workers[place]
    return model.records.apply(world.record, name, run=worker.run, holder=worker.holder, page=page)
