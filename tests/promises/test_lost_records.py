"""Stream records that nobody ever reads: the job record is the outbox, and the sweeper rings again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.adapters.memory import MemoryJobStore
from shared.domain.job import Job
from shared.domain.repair import PATIENCE
from shared.domain.states import OUTBOX_OPEN, State
from shared.jobs import JobType
from shared.operations.promote import PromoterPorts, promote_job
from shared.operations.relay import OutboxRecord, RelayPorts, relay
from shared.operations.submit import JobRequest, submit
from shared.operations.sweep import SweeperPorts, sweep_job
from shared.queues import QUEUES
from tests.builders import (
    NOW,
    MemoryDeadLetters,
    MemoryDoorbell,
    RecordedLog,
    RecordedMeter,
    TestClock,
    a_message,
    a_minute_left,
)
from tests.world import OneType, World

STANDARD, FIFO = "exports.month-end", "webhooks.partner-a"


TICK, LOOK_AHEAD = timedelta(minutes=1), timedelta(minutes=3)


MOST_LOSSES = 6
"""Of one job in a row; after ten the repairs, which back off, would come after its deadline of 24 h."""


@dataclass
class InLane(OneType):
    """The one type, in the lane the test chooses."""

    lane: str = STANDARD

    def get(self, name: str) -> JobType | None:
        found = super().get(name)
        return found and replace(found, queue=QUEUES[self.lane])


@dataclass
class LossyCloud:
    """Everything between the door and the worker, its stream losing the records whose place in `lost` is True."""

    lost: list[bool]
    clock: TestClock = field(default_factory=TestClock)
    store: MemoryJobStore = field(default_factory=MemoryJobStore)
    doorbell: MemoryDoorbell = field(default_factory=MemoryDoorbell)
    started: dict[str, datetime] = field(default_factory=dict)
    losses: Counter[str] = field(default_factory=Counter)
    ringing: list[tuple[datetime, Job]] = field(default_factory=list)
    streamed: int = 0
    recorded: int = 0

    def __post_init__(self) -> None:
        self.world = World(handler=self.start, store=self.store, clock=self.clock)

    def start(self, payload: Any, run: Any) -> None:
        assert run.job_id not in self.started, "a spare doorbell runs nothing"
        self.started[run.job_id] = self.clock.now()

    def accept(self, lane: str, ahead: timedelta, number: int) -> Job:
        return submit(
            JobRequest(type="invoice-export", payload={"tenantId": "a", "month": "2026-05"}, run_at=NOW + ahead),
            catalogue=InLane(self.start, lane=lane),  # type: ignore[arg-type]
            store=self.store,
            now=self.clock.now(),
            entropy=number.to_bytes(10, "big"),
        ).job

    def relay(self) -> None:
        """The stream gives each record once, or never."""
        images, self.streamed = self.store.images[self.streamed :], len(self.store.images)
        for job in images:
            if job.outbox == OUTBOX_OPEN and job.state is State.QUEUED:
                self.recorded += 1
                lost = self.recorded <= len(self.lost) and self.lost[self.recorded - 1]
                if lost and self.losses[job.job_id] < MOST_LOSSES:
                    self.losses[job.job_id] += 1
                else:
                    self._ring(job)

    def _ring(self, job: Job) -> None:
        before = len(self.doorbell.sent)
        ports = RelayPorts(
            store=self.store,
            doorbell=self.doorbell,
            clock=self.clock,
            log=RecordedLog(),
            queues=QUEUES,
            time_left=a_minute_left,
        )
        relay([OutboxRecord({}, job)], ports)
        for _, ring in self.doorbell.sent[before:]:
            self.ringing.append((self.clock.now() + ring.delay, job))

    def work_until(self, end: datetime) -> None:
        """Each doorbell reaches a worker when SQS shows it."""
        while due := sorted((at, n) for n, (at, _) in enumerate(self.ringing) if at <= end):
            at, job = self.ringing.pop(due[0][1])
            self.clock.at = max(at, self.clock.at)
            self.world.queue = job.queue
            self.world.deliver(a_message(job))
        self.clock.at = end

    def tick(self, jobs: list[Job]) -> None:
        """The promoter's and the sweeper's minute."""
        promoter = PromoterPorts(store=self.store, clock=self.clock, log=RecordedLog(), queues=QUEUES)
        sweeper = SweeperPorts(
            store=self.store,
            dead_letters=MemoryDeadLetters(),
            clock=self.clock,
            log=RecordedLog(),
            meter=RecordedMeter(),
            queues=QUEUES,
        )
        for job in jobs:
            promote_job(job.job_id, self.clock.now(), LOOK_AHEAD, promoter)
            sweep_job(job.job_id, sweeper, queue_empty=not self.ringing)


def promised(lane: str, losses: int) -> timedelta:
    """How long after its time a job starts at the latest. A first loss costs the sweeper's patience and a tick; each
    further one, of the sweeper's own repair, as long as all before it, since repairs back off.
    """
    wait = timedelta()
    for _ in range(losses):
        wait += max(PATIENCE, wait) + TICK
    return wait + (TICK if lane == FIFO else timedelta())  # no delay per message there: its promoter's tick


JOBS = st.lists(
    st.tuples(st.sampled_from([STANDARD, FIFO]), st.sampled_from([0, 40, 5 * 60, 20 * 60, 2 * 3600])),
    min_size=1,
    max_size=6,
)


@settings(deadline=None, max_examples=400)
@given(JOBS, st.lists(st.booleans(), max_size=24), st.integers(0, 59))
@example([(STANDARD, 0)] * 6, [True] * 6, 59)
@example([(FIFO, 2 * 3600)], [True] * MOST_LOSSES, 0)
@example([(FIFO, 20 * 60), (STANDARD, 2 * 3600)], [True] * 4, 1)
def test_whatever_stream_records_are_lost_for_good_every_accepted_job_starts_within_the_sweeps_promise(
    asked: list[tuple[str, int]], lost: list[bool], second: int
) -> None:
    """SCENARIOS 20. `second`: where in the minute the ticks fall."""
    cloud = LossyCloud(lost)
    jobs = [cloud.accept(lane, timedelta(seconds=ahead), n) for n, (lane, ahead) in enumerate(asked)]
    cloud.relay()
    cloud.work_until(NOW + timedelta(seconds=second))
    longest = timedelta(hours=2) + promised(FIFO, MOST_LOSSES)
    while len(cloud.started) < len(jobs) and cloud.clock.now() <= NOW + longest:
        cloud.tick(jobs)
        cloud.relay()
        cloud.work_until(cloud.clock.now() + TICK)
    for job in jobs:
        assert job.job_id in cloud.started, f"{job} never started"
        late = cloud.started[job.job_id] - job.run_at
        assert timedelta() <= late <= promised(job.queue, cloud.losses[job.job_id]), job
