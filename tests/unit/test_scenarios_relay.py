"""The relay between sending and marking."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from shared.adapters.memory import MemoryJobStore
from shared.domain.job import Job
from shared.domain.outcome import Outcome
from shared.domain.states import State
from shared.errors import RingRefused, StoreUnavailable
from shared.operations.relay import MARK_THREADS, OutboxRecord, RelayPorts, relay
from shared.ports import Ring, Unsent
from shared.queues import QUEUES
from tests.builders import NOW, MemoryDoorbell, RecordedLog, TestClock, a_job, a_message, a_minute_left
from tests.world import World


class Relaying:
    """A relay over these jobs' records."""

    def __init__(self, *jobs: Job) -> None:
        self.store, self.doorbell, self.log, self.jobs = MemoryJobStore(), MemoryDoorbell(), RecordedLog(), jobs
        for job in jobs:
            self.store.submit(job, NOW)

    def relay(self) -> None:
        ports = RelayPorts(
            store=self.store,
            doorbell=self.doorbell,
            clock=TestClock(),
            log=self.log,
            queues=QUEUES,
            time_left=a_minute_left,
        )
        relay([OutboxRecord({}, job) for job in self.jobs], ports)

    def open(self) -> list[int]:
        """Places of the jobs whose flag is still open."""
        return [n for n, job in enumerate(self.jobs) if (found := self.store.get(job.job_id)) and found.outbox]


def test_marks_are_written_side_by_side_so_that_one_slow_table_call_does_not_add_up_over_a_batch() -> None:
    """As many at once as the relay's client has connections for."""
    relaying = Relaying(*(a_job() for _ in range(2 * MARK_THREADS)))
    together = threading.Barrier(MARK_THREADS, timeout=10)
    plain_apply = relaying.store.apply

    def slow(*args: Any, **changes: Any) -> Job:
        together.wait()
        return plain_apply(*args, **changes)

    relaying.store.apply = slow  # type: ignore[method-assign]
    relaying.relay()
    assert relaying.open() == []


@pytest.mark.parametrize("place", [0, 7, 22])
def test_a_mark_that_cannot_be_written_keeps_no_other_flag_open_and_rings_nobody_twice(place: int) -> None:
    """SCENARIOS 22. Its own flag is left to the sweeper."""
    relaying = Relaying(*(a_job() for _ in range(23)))
    plain_apply = relaying.store.apply

    def throttled(job_id: str, *args: Any, **changes: Any) -> Job:
        if job_id == relaying.jobs[place].job_id:
            raise StoreUnavailable("throttled")
        return plain_apply(job_id, *args, **changes)

    relaying.store.apply = throttled  # type: ignore[method-assign]
    relaying.relay()
    assert relaying.open() == [place]
    assert len(relaying.doorbell.sent) == 23


def test_a_batch_of_which_sqs_takes_a_part_is_delivered_again_and_every_job_runs_once() -> None:
    """SCENARIOS 22. SendMessageBatch answers 200 with failures in it; the record comes again with all its batch."""
    jobs = [a_job() for _ in range(10)]
    relaying, ran = Relaying(*jobs), []
    down = {jobs[3].job_id, jobs[8].job_id}

    def refuse(ring: Ring) -> Unsent | None:
        return Unsent(ring, "InternalError", hopeless=False) if ring.job_id in down else None

    relaying.doorbell.refuse = refuse
    with pytest.raises(RingRefused, match="2 of 10"):
        relaying.relay()
    assert relaying.open() == [3, 8]
    assert [count for _, count in relaying.doorbell.calls] == [10, 1, 1, 1, 1], "failures are tried again singly"
    down.clear()
    relaying.relay()
    assert relaying.open() == []

    world = World(handler=lambda payload, run: ran.append(run.job_id), store=relaying.store)
    by_id = {job.job_id: job for job in jobs}
    messages = [a_message(by_id[ring.job_id]) for _, ring in relaying.doorbell.sent]
    assert len(messages) == 18
    came_to = [world.deliver(message) for message in messages]
    assert (came_to.count(Outcome.COMPLETED), came_to.count(Outcome.STALE)) == (10, 8)
    assert sorted(ran) == sorted(by_id)
    assert {found.state for job in jobs if (found := relaying.store.get(job.job_id))} == {State.COMPLETED}
