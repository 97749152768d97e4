"""Jobs for later: one start each, and nothing in flight while they wait."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.adapters.memory import MemoryJobStore
from shared.domain.outcome import Outcome
from shared.domain.states import OUTBOX_OPEN, State
from shared.jobs import JobType
from shared.operations.promote import PromoterPorts, promote
from shared.operations.relay import OutboxRecord, RelayPorts, relay
from shared.operations.submit import JobRequest, submit
from shared.operations.sweep import SweeperPorts, sweep_job
from shared.queues import MAX_DELAY, QUEUES
from tests.builders import NOW, MemoryDeadLetters, MemoryDoorbell, RecordedLog, TestClock, a_message, a_minute_left
from tests.world import OneType, World

LOOK_AHEAD = timedelta(minutes=3)
HOUR, MINUTE, DAY = timedelta(hours=1), timedelta(minutes=1), timedelta(days=1)
LANES = {"exports.month-end": timedelta(seconds=2), "webhooks.partner-a": 2 * MINUTE}
"""How late a job may start at most, queueing apart."""


class InLane(OneType):
    """The one type, in the lane the test chooses."""

    lane = ""

    def get(self, name: str) -> JobType | None:
        found = super().get(name)
        return found and replace(found, queue=QUEUES[self.lane])


def ticks(until: datetime) -> list[datetime]:
    """The promoter's: some while nothing is near, then 119 s apart, the worst that EventBridge Scheduler makes of a
    minute.
    """
    far = [NOW + n * 5 * HOUR for n in range(1, int((until - NOW) / HOUR / 5))]
    near = [until - 30 * MINUTE + n * timedelta(seconds=119) for n in range(1, 20)]
    return far + near


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("ahead", [6 * HOUR, 7 * DAY, 90 * DAY])
def test_a_job_for_later_starts_once_at_its_time_and_is_nowhere_in_flight_until_then(
    ahead: timedelta, lane: str
) -> None:
    """SCENARIOS 18. Neither a message nor a worker holds it; the sweeper, which looks on, sees nothing wrong in it."""
    store, clock, doorbell, starts = MemoryJobStore(), TestClock(), MemoryDoorbell(), []
    world = World(handler=lambda p, run: starts.append(clock.now()), store=store, clock=clock, queue=lane)
    catalogue: Any = InLane(world.handler)
    catalogue.lane = lane
    request = JobRequest(type="invoice-export", payload={"tenantId": "a", "month": "2026-05"}, run_at=NOW + ahead)
    job = submit(request, catalogue=catalogue, store=store, now=NOW, entropy=bytes(10)).job
    relayed, seen = 0, RecordedLog()
    ports = {"store": store, "clock": clock, "log": seen, "queues": QUEUES}
    for at in ticks(NOW + ahead):
        clock.at = at
        sweep = sweep_job(
            job.job_id, SweeperPorts(dead_letters=MemoryDeadLetters(), meter=world.meter, **ports), queue_empty=True
        )  # type: ignore[arg-type]
        assert sweep is None, "what waits is not broken"
        promote(PromoterPorts(**ports), LOOK_AHEAD)  # type: ignore[arg-type]
        images, relayed = store.images[relayed:], len(store.images)
        records = [OutboxRecord({}, image) for image in images if image.outbox == OUTBOX_OPEN]
        if records:
            relay(records, RelayPorts(doorbell=doorbell, time_left=a_minute_left, **ports))  # type: ignore[arg-type]
            break
        assert world.found(a_message(job)).state is State.SCHEDULED
    ((_, ring),) = doorbell.sent
    assert ring.delay <= min(LOOK_AHEAD, MAX_DELAY)
    clock.forward(ring.delay)
    message = a_message(world.found(a_message(job)))
    assert world.deliver(message) is Outcome.COMPLETED
    assert world.deliver(message) is Outcome.STALE
    (started,) = starts
    assert timedelta() <= started - (NOW + ahead) <= LANES[lane]
