"""Two jobs of one ordering key at one instant: their records, the stream, the group in SQS, and the workers."""

from __future__ import annotations

from typing import NamedTuple

from tests.model.record import Record

JOBS = ("A", "B")


class Budget(NamedTuple):
    """Faults and interventions still to come."""

    crash: int = 0
    loss: int = 0
    fail: int = 0
    resume: int = 0  # a run continues from a checkpoint
    frozen: int = 0
    twice: int = 0
    moved: int = 0  # by SQS, into the DLQ
    purge: int = 0  # of the first message, by an operator
    again: int = 0  # the relay sends once more what it has sent


NO_FAULTS = Budget()


class Ring(NamedTuple):
    """A doorbell of a job; `repair`: how many times it was rung again."""

    job: int
    dispatch: int
    repair: int = 0


class Item(NamedTuple):
    """A message of the group."""

    ring: Ring
    in_flight: bool = False


class Worker(NamedTuple):
    """One worker. batch: the rings it holds, the first of them in hand; run: of that one's lease."""

    batch: tuple[Ring, ...] = ()
    run: int = 0


class Fifo(NamedTuple):
    """One state. remembered: deduplication ids of the last five minutes, and the rings that had them."""

    jobs: tuple[Record, Record]
    stream: tuple[Ring, ...]
    group: tuple[Item, ...]
    dead_letters: tuple[Ring, ...]
    remembered: frozenset[tuple[str, Ring]]
    workers: tuple[Worker, ...]
    repairs: tuple[int, int]
    budget: Budget


def told(ring: Ring) -> str:
    """The ring in words."""
    return f"{JOBS[ring.job]}(d{ring.dispatch}{f', again x{ring.repair}' if ring.repair else ''})"


def spent(world: Fifo, kind: str) -> Fifo:
    """One fault less of this kind."""
    return world._replace(budget=world.budget._replace(**{kind: getattr(world.budget, kind) - 1}))


def with_job(world: Fifo, which: int, record: Record) -> Fifo:
    """The world with that job changed."""
    return world._replace(jobs=(record, world.jobs[1]) if which == 0 else (world.jobs[0], record))


def with_worker(world: Fifo, place: int, worker: Worker) -> Fifo:
    """The world with that worker changed; which is which does not matter."""
    others = (*world.workers[:place], *world.workers[place + 1 :])
    return world._replace(workers=tuple(sorted((*others, worker))))


def idle(world: Fifo, place: int) -> Fifo:
    """That worker is done with its batch."""
    return with_worker(world, place, Worker())
