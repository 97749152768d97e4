"""The relay: rings for each stream record, then marks; a mark that its caller gave up may land much later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.model.changes import free_slot, spent, with_message
from tests.model.explore import BOUND, Step
from tests.model.world import Copy, Image, Message, World

if TYPE_CHECKING:
    from tests.model.job_model import JobModel


def steps(world: World, model: JobModel) -> Iterator[Step]:
    """What the relay may do now."""
    if world.relay is None and world.stream:
        yield from _send(world, world.stream[0], model)
    if world.relay is not None:
        yield _mark(world, world.relay, "relay: marks", model, relay=None, stream=world.stream[1:])
        if world.budget.crash and model.relay_dies:
            dead = world._replace(relay=None, budget=spent(world.budget, "crash"))
            yield model.step("FAULT: the relay dies after sending, before marking", dead, fair=False)
        if world.budget.stuck_mark and world.late is None:
            stuck = world._replace(relay=None, late=world.relay, budget=spent(world.budget, "stuck_mark"))
            yield model.step("FAULT: the relay hangs before its mark; another takes over", stuck, fair=False)
    if world.late is not None:
        yield _mark(world, world.late, "the relay given up: marks late", model, late=None)


def _send(world: World, image: Image, model: JobModel) -> Iterator[Step]:
    slot = free_slot(world)
    if image.dead:
        copies = tuple(sorted((*world.dead_letters, Copy(image.dispatch, True))))
        yield model.step(
            f"relay: sends the DLQ copy (d{image.dispatch})", world._replace(relay=image, dead_letters=copies)
        )
    elif slot is None:
        yield Step("queue slots", world, False, BOUND)
    else:
        message = Message(image.dispatch, False, image.suspect)
        sent = world._replace(relay=image, queue=with_message(world.queue, slot, message))
        yield model.step(f"relay: sends {message}", sent)
    if world.budget.loss:
        lost = world._replace(stream=world.stream[1:], budget=spent(world.budget, "loss"))
        yield model.step(f"FAULT: the stream record of d{image.dispatch} is lost", lost, fair=False)


def _mark(world: World, image: Image, label: str, model: JobModel, **moved: Any) -> Step:
    record = model.records.apply(world.record, "mark", dispatch=image.dispatch)
    moved_on = world._replace(**moved)
    if record is None:
        return model.step(f"{label} d{image.dispatch}, refused", moved_on)
    return model.step(f"{label} d{image.dispatch}", model.written(moved_on, record))
