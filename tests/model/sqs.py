"""A standard queue: messages come back once their holder is gone, go away after many receives, may come twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.model.changes import spent, with_message, with_worker
from tests.model.explore import Step
from tests.model.world import IDLE, RECEIVED, Copy, Message, Worker, World

if TYPE_CHECKING:
    from tests.model.job_model import JobModel


def steps(world: World, model: JobModel) -> Iterator[Step]:
    """What may happen to the messages, and to the gate before them."""
    for slot, message in enumerate(world.queue):
        if message is None:
            continue
        if not message.visible:
            yield from _come_back(world, slot, message, model)
        elif message.receives >= model.receives:
            copy = Copy(message.dispatch, message.marked, message.suspect)
            copies = tuple(sorted((*world.dead_letters, copy)))
            yield model.step(f"SQS: moves {message} to the DLQ", _put(world, slot, None)._replace(dead_letters=copies))
        else:
            yield from _receive(world, slot, message, model)
        if world.budget.purge:
            purged = _put(world, slot, None)._replace(budget=spent(world.budget, "purge"))
            yield model.step(f"operator: purges {message}", purged, fair=False)
    if world.gate_shut:
        yield model.step("the gate opens", world._replace(gate_shut=False))
    elif world.budget.gate:
        shut = world._replace(gate_shut=True, budget=spent(world.budget, "gate"))
        yield model.step("the gate shuts: its type is unknown here, or paused", shut, fair=False)


def _come_back(world: World, slot: int, message: Message, model: JobModel) -> Iterator[Step]:
    back = _put(world, slot, message._replace(visible=True))
    if all(worker.slot != slot or worker.passed for worker in world.workers):
        yield model.step(f"SQS: {message} is visible again", back)
    elif world.budget.twice:
        back = back._replace(budget=spent(world.budget, "twice"))
        yield model.step(f"FAULT: SQS delivers {message} a second time", back, fair=False)


def _receive(world: World, slot: int, message: Message, model: JobModel) -> Iterator[Step]:
    received = message._replace(receives=message.receives + 1)
    if world.budget.throttle:
        throttled = _put(world, slot, received)._replace(budget=spent(world.budget, "throttle"))
        yield model.step(f"SQS: the receive of {message} reaches no worker", throttled, fair=False)
    for place, worker in enumerate(world.workers):
        if worker.step == IDLE:
            holding = Worker(RECEIVED, slot, message.dispatch, message.marked, message.suspect)
            workers = with_worker(world.workers, place, holding)
            hidden = _put(world, slot, received._replace(visible=False))
            yield model.step(f"worker: receives {message}", hidden._replace(workers=workers))
            return


def _put(world: World, slot: int, message: Message | None) -> World:
    return world._replace(queue=with_message(world.queue, slot, message))
