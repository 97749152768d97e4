"""Small changes of a world, and what becomes of a worker and its message."""

from __future__ import annotations

from tests.model.world import ACKNOWLEDGES, Budget, Message, Worker, World


def spent(budget: Budget, kind: str) -> Budget:
    """One less of this kind."""
    return budget._replace(**{kind: getattr(budget, kind) - 1})


def with_message(queue: tuple[Message | None, ...], slot: int, message: Message | None) -> tuple[Message | None, ...]:
    """The queue with this message in that place."""
    return (*queue[:slot], message, *queue[slot + 1 :])


def with_worker(workers: tuple[Worker, ...], place: int, worker: Worker) -> tuple[Worker, ...]:
    """The workers with that one changed; in order, since which is which does not matter."""
    if len(workers) == 1:
        return (worker,)
    return tuple(sorted((*workers[:place], worker, *workers[place + 1 :])))


def free_slot(world: World) -> int | None:
    """A place in the queue that nobody refers to."""
    held = [worker.slot for worker in world.workers]
    return next((n for n, message in enumerate(world.queue) if message is None and n not in held), None)


def bare(worker: Worker, step: str) -> Worker:
    """The worker with its message and nothing else."""
    return Worker(step, worker.slot, worker.dispatch, worker.marked, worker.suspect)


def leaves(world: World, place: int) -> World:
    """The worker is done with its message, which stays hidden for a while."""
    return world._replace(workers=with_worker(world.workers, place, Worker()))


def acknowledging(world: World, place: int) -> World:
    """The worker is about to delete its message."""
    return world._replace(workers=with_worker(world.workers, place, bare(world.workers[place], ACKNOWLEDGES)))
