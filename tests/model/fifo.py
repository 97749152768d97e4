"""Order per key: two jobs, A then B, of one ordering key, in one SQS FIFO group; fifo_cases.py says what is promised.

The records are moved by the real table, doorbells are told apart by the real deduplication ids, and whether a wait
keeps its message is waits.leaves_its_message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from shared.domain.doorbell import Bell
from shared.domain.states import DEFAULT_STALL_LIMIT, FINAL, State
from tests.builders import a_job
from tests.model import fifo_worker
from tests.model.explore import BOUND, Step
from tests.model.fifo_world import (
    JOBS,
    NO_FAULTS,
    Budget,
    Fifo,
    Item,
    Ring,
    Worker,
    idle,
    spent,
    told,
    with_job,
    with_worker,
)
from tests.model.job_model import ROWS
from tests.model.record import AHEAD, PAST, Record
from tests.model.records import Records

FIFO_RULES: Mapping[str, str] = {
    "wait_in_place": "on a FIFO lane a wait keeps its message, however long",
    "release_the_rest": "behind a message that stays, the rest of its group is released unstarted",
    "live_leave": "a message that finds a live lease stays at the head of its group",
    "ring_apart": "a repair that rings again has a deduplication id of its own",
}


@dataclass(slots=True)
class FifoModel:
    """See the module. in_order: the relay sees A's record before B's."""

    budget: Budget = NO_FAULTS
    in_order: bool = True
    promised: bool = True
    off: Collection[str] = ()
    records: Records = field(init=False)
    goals: Mapping[str, Callable[[Any], bool]] = field(init=False)

    def __post_init__(self) -> None:
        if unknown := set(self.off) - set(FIFO_RULES):
            raise ValueError(f"there are no rules {sorted(unknown)}")
        self.records = Records(ROWS, DEFAULT_STALL_LIMIT)
        self.goals = {"both final": lambda world: all(job.state in FINAL for job in world.jobs)}

    def initial(self) -> Fifo:
        """Both accepted, A first."""
        job = self.records.of(
            a_job(job_id="job_" + "0" * 26, deadline_at=AHEAD, available_at=PAST, created_at=PAST, max_attempts=3)
        )
        rings = (Ring(0, 1), Ring(1, 1))
        return Fifo((job, job), rings, (), (), frozenset(), (Worker(), Worker()), (0, 0), self.budget)

    def steps(self, world: Any) -> Iterator[Step]:
        """Everything that may happen next."""
        yield from self._relay(world)
        yield from self._sqs(world)
        for which in range(2):
            yield from self._time(world, which)
            yield from self._sweep(world, which)
        for place, worker in enumerate(world.workers):
            if not worker.batch or (place and worker == world.workers[place - 1]):
                continue
            if world.budget.crash:
                yield Step(
                    f"FAULT: the worker of {told(worker.batch[0])} dies", idle(spent(world, "crash"), place), False
                )
            yield from fifo_worker.steps(world, place, worker, self)

    def _relay(self, world: Fifo) -> Iterator[Step]:
        firsts = [n for n, ring in enumerate(world.stream) if ring.job not in {r.job for r in world.stream[:n]}]
        for n in firsts[:1] if self.in_order else firsts:
            ring = world.stream[n]
            rest = world._replace(stream=(*world.stream[:n], *world.stream[n + 1 :]))
            yield self._send(rest, ring, "relay: sends", moved_on=True)
            if world.budget.again:
                yield self._send(
                    spent(world, "again"), ring, "FAULT: the relay sends, dies before it marks", moved_on=False
                )
            if world.budget.loss:
                yield Step(f"FAULT: the stream record of {told(ring)} is lost", spent(rest, "loss"), False)

    def _send(self, world: Fifo, ring: Ring, label: str, *, moved_on: bool) -> Step:
        label = f"{label} {told(ring)}"
        name = self._deduplication_id(ring)
        record = world.jobs[ring.job]
        if moved_on and (marked := self.records.apply(record, "mark", dispatch=ring.dispatch)) is not None:
            world = with_job(world, ring.job, marked)
        rings = [sent for known, sent in world.remembered if known == name]
        if rings:
            needed = record.state is State.QUEUED and record.dispatch == ring.dispatch
            missed = needed and not any(item.ring.job == ring.job for item in world.group)
            broken = "(h) a repair's ring is swallowed" if missed and ring not in rings else None
            return Step(f"{label}, swallowed", world, moved_on, broken)
        sent = world._replace(group=(*world.group, Item(ring)), remembered=world.remembered | {(name, ring)})
        return Step(label, sent, moved_on) if len(sent.group) <= 5 else Step("group", world, False, BOUND)

    def _deduplication_id(self, ring: Ring) -> str:
        bell = Bell(job_id="job_" + str(ring.job) * 26, dispatch=ring.dispatch, type="webhook", payload_version=1)
        apart = ring.repair if "ring_apart" not in self.off else 0
        return bell.deduplication_id(PAST + timedelta(minutes=apart) if apart else None)

    def _sqs(self, world: Fifo) -> Iterator[Step]:
        """A group's messages come in order, and only while none of them is in flight."""
        if world.group and not any(item.in_flight for item in world.group):
            yield from self._first(world)
        for n, item in enumerate(world.group):
            held = any(item.ring in worker.batch for worker in world.workers)
            if item.in_flight and (not held or world.budget.twice):
                seen = world._replace(group=(*world.group[:n], Item(item.ring), *world.group[n + 1 :]))
                seen = spent(seen, "twice") if held else seen
                yield Step(f"SQS: {told(item.ring)} is visible again", seen, not held)
        if world.remembered:
            yield Step("time: SQS forgets what it has seen", world._replace(remembered=frozenset()))

    def _first(self, world: Fifo) -> Iterator[Step]:
        if Worker() in world.workers:
            for size in range(1, len(world.group) + 1):
                batch = tuple(item.ring for item in world.group[:size])
                held = tuple(Item(item.ring, n < size) for n, item in enumerate(world.group))
                place = world.workers.index(Worker())
                received = with_worker(world._replace(group=held), place, Worker(batch))
                yield Step(f"worker: receives {', '.join(map(told, batch))}", received)
        ring, behind = world.group[0].ring, world._replace(group=world.group[1:])
        if world.budget.moved:
            moved = spent(behind._replace(dead_letters=(*world.dead_letters, ring)), "moved")
            yield Step(f"SQS: moves {told(ring)} to the DLQ", moved, False)
        if world.budget.purge:
            yield Step(f"operator: purges {told(ring)}", spent(behind, "purge"), False)

    def _time(self, world: Fifo, which: int) -> Iterator[Step]:
        record = world.jobs[which]
        if record.state is State.RUNNING and not record.lapsed:
            alive = any(w.run == record.run and w.batch and w.batch[0].job == which for w in world.workers)
            if not alive or world.budget.frozen:
                after = with_job(world, which, self.records.lapse(record))
                label = f"time: the lease of {JOBS[which]} ends"
                yield Step(label, spent(after, "frozen") if alive else after, not alive)
        if record.state is State.RETRYING and record.waiting:
            yield Step(f"time: {JOBS[which]} is due", with_job(world, which, self.records.wait_over(record)))

    def _sweep(self, world: Fifo, which: int) -> Iterator[Step]:
        """Only what no message can mend: lost stream records, messages that SQS moved away; and the promoter's work."""
        record = world.jobs[which]
        for ring in world.dead_letters:
            if (
                ring.job == which
                and ring.dispatch == record.dispatch
                and record.state in (State.QUEUED, State.RETRYING)
            ):
                parked = self.records.apply(record, "park", dispatch=ring.dispatch, attempts=record.attempts)
                if parked is not None:
                    yield Step(f"sweeper: parks {JOBS[which]}", with_job(world, which, parked))
                return
        coming = any(item.ring.job == which for item in world.group) or any(r.job == which for r in world.stream)
        move = "promote" if record.in_due else "ring again" if record.state is State.QUEUED else "redispatch"
        if record.state is State.RUNNING:
            move = "requeue" if record.lapsed else ""
        if not move or record.waiting or (coming and move != "promote"):
            return
        seen: Mapping[str, Any] = {"outbox": record.job.outbox or "", "marked": record.marked, "lease": record.lease}
        after = self.records.apply(record, move, dispatch=record.dispatch, run=record.run, **seen)
        if after is None or world.repairs[which] > 2:
            return
        rung = int(move == "ring again")
        repairs = (world.repairs[0] + rung * (which == 0), world.repairs[1] + rung * (which == 1))
        yield Step(f"repair: {move} {JOBS[which]}", self.written(world._replace(repairs=repairs), which, after))

    def written(self, world: Fifo, which: int, record: Record) -> Fifo:
        """The world after this write: what asks for a ring appears in the stream."""
        world = with_job(world, which, record)
        if not record.rings:
            return world
        return world._replace(stream=(*world.stream, Ring(which, record.dispatch, world.repairs[which])))
