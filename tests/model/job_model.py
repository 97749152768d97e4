"""One job in a whole pipeline: relay, SQS standard queue and DLQ, workers, sweepers, promoters, an operator.

Time is abstract: a lease may lapse, a wait may end and a hidden message may come back at any moment, which covers every
skew and every mismatch between visibility, lease and clocks. Faults are bounded by budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shared.domain.job import Job
from shared.domain.states import DEFAULT_STALL_LIMIT, FINAL, TABLE, State, Transition
from tests.builders import NOW, a_job
from tests.model import clockwork, operators, promoters, relays, sqs, sweepers, workers
from tests.model.explore import BOUND, Step
from tests.model.record import AHEAD, PAST, Record
from tests.model.records import Records
from tests.model.rules import RULES
from tests.model.world import NO_FAULTS, NO_PLAN, Budget, Ghost, Image, Worker, World

ROWS: Mapping[str, Transition] = {row.name: row for row in TABLE}

MOST_STREAM, MOST_DEAD_LETTERS = 4, 3


@dataclass(slots=True)
class JobModel:
    """See the module. `off`: rules that are switched off; `table`: the rows, perhaps one of them spoilt.

    receives    maxReceiveCount
    busy_queue  the queue always holds other jobs, so an empty one never tells that a doorbell is lost
    moved       the job waits on a lane that may not run it, and its type has moved to one that may; sent: to the former
                a moment ago, by another version's worker
    relay_dies  a crash may be the relay's; not to let it leaves room for deeper histories of the workers
    """

    budget: Budget = NO_FAULTS
    off: Collection[str] = ()
    table: Mapping[str, Transition] = field(default_factory=lambda: ROWS)
    start: State = State.QUEUED
    max_attempts: int = 2
    stall_limit: int = DEFAULT_STALL_LIMIT
    receives: int = 3
    slots: int = 3
    most_dispatch: int = 9
    workers: int = 2
    sweepers: int = 1
    promoters: int = 1
    busy_queue: bool = True
    time_to_live: bool = False
    at_most_once: bool = False
    moved: bool = False
    sent: bool = False
    relay_dies: bool = True
    watch: Callable[..., None] | None = None
    records: Records = field(init=False)
    first: Record = field(init=False)
    goals: Mapping[str, Callable[[Any], bool]] = field(init=False)

    def __post_init__(self) -> None:
        if unknown := set(self.off) - set(RULES):
            raise ValueError(f"there are no rules {sorted(unknown)}")
        self.records = Records(self.table, self.stall_limit, self.watch)
        self.first = self.records.of(self._submitted())
        self.goals = {"final": is_final, "settled": is_settled}

    def _submitted(self) -> Job:
        job = a_job(
            job_id="job_" + "0" * 26,
            state=self.start,
            max_attempts=self.max_attempts,
            deadline_at=AHEAD,
            available_at=PAST,
            created_at=PAST,
            rerouted_at=NOW if self.sent else None,
        )
        if self.start is State.QUEUED:
            return job
        return replace(job, **_SCHEDULED)

    def initial(self) -> World:
        """Accepted, nothing else yet."""
        rings = self.first.rings
        return World(
            record=self.first,
            stream=(Image(self.first.dispatch, False, False),) if rings else (),
            relay=None,
            late=None,
            queue=(None,) * self.slots,
            dead_letters=(),
            workers=(Worker(),) * self.workers,
            sweepers=(NO_PLAN,) * self.sweepers,
            promoters=(NO_PLAN,) * self.promoters,
            operator=NO_PLAN,
            gate_shut=False,
            budget=self.budget,
            ghost=Ghost(),
        )

    def steps(self, world: Any) -> Iterator[Step]:
        """Everything that may happen next."""
        yield from clockwork.steps(world, self)
        yield from sqs.steps(world, self)
        yield from relays.steps(world, self)
        yield from workers.steps(world, self)
        yield from promoters.steps(world, self)
        yield from sweepers.steps(world, self)
        yield from operators.steps(world, self)

    def on(self, rule: str) -> bool:
        """Whether this rule is kept."""
        return rule not in self.off

    def written(self, world: World, record: Record) -> World:
        """The world after this write of the record: what asks for a ring appears in the stream."""
        if record.rings:
            image = Image(record.dispatch, record.state is State.DEAD, self.suspects(record))
            return world._replace(record=record, stream=(*world.stream, image))
        return world._replace(record=record)

    def suspects(self, record: Record) -> bool:
        """Whether the relay says of this job that its last worker vanished."""
        return record.state is State.QUEUED and record.stalls > 0 and self.on("suspect_alone")

    def step(self, label: str, world: World, fair: bool = True, broken: str | None = None) -> Step:
        """The step, unless the record it leads to is out of shape or out of bounds."""
        record = world.record
        if broken is None and record is not None:
            if record.fault is not None:
                return Step(label, world, fair, record.fault)
            if record.dispatch > self.most_dispatch:
                return Step("dispatch", world, fair, BOUND)
        if broken is None and (len(world.stream) > MOST_STREAM or len(world.dead_letters) > MOST_DEAD_LETTERS):
            return Step("stream or DLQ", world, fair, BOUND)
        return Step(label, world, fair, broken)


_SCHEDULED: Mapping[str, Any] = {
    "due_key": "due#0",
    "due_at": AHEAD,
    "dispatch": 0,
    "outbox": None,
    "open_key": None,
    "available_at": None,
}


def is_final(world: World) -> bool:
    """The job has ended, or its record's time has passed."""
    return world.record is None or world.record.state in FINAL


def is_settled(world: World) -> bool:
    """The job has ended, and the DLQ tells the truth: a current copy of a dead job, and nothing of any other."""
    record, copies = world.record, world.dead_letters
    if record is None:
        return True
    if record.state not in FINAL:
        return False
    if record.state is not State.DEAD:
        return not copies
    return bool(copies) and all(copy.marked and copy.dispatch == record.dispatch for copy in copies)
