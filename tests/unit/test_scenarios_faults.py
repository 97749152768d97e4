"""What one bad record, or one late ring, must not do to others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from shared.domain.job import Job
from shared.domain.repair import PATIENCE
from shared.domain.states import State
from tests.builders import NOW, a_job, a_message, a_running_job
from tests.unit.test_scenarios_relay import Relaying
from tests.unit.test_sweep import World

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize("hours", [0, 5])
def test_a_requeued_jobs_ring_is_given_time_and_rung_again_as_soon_as_a_young_jobs(hours: int) -> None:
    """Its age is not the age of its ring: not rung again at once, nor after hours when the second is lost too."""
    world, old = World(), NOW - timedelta(hours=hours)
    job = world.submitted(a_running_job(created_at=old, run_at=old, available_at=old, lease_expires_at=NOW))
    rung = []
    for minute in range(2, 12):
        repaired, _ = world.sweep(job, minute * MINUTE)
        rung += [minute] if repaired else []
    assert rung[:3] == [2, 4, 7], "requeued; PATIENCE and a tick later; then as long again as all before it"


def test_an_overdue_job_that_was_just_promoted_is_not_said_to_be_unpublished() -> None:
    """Seen with every promotion that comes late: a FIFO job's, within its two minutes, too."""
    world = World()
    job = world.submitted(a_job(state=State.SCHEDULED, dispatch=0, outbox=None, due_at=NOW, due_key="due#0"))
    promoted, _ = world.sweep(job, 60 * MINUTE)
    assert promoted is not None
    assert world.sweep(job, 60 * MINUTE + PATIENCE / 2)[0] is None


def test_a_record_nobody_can_read_keeps_no_other_dead_letter_from_being_looked_at() -> None:
    world = World()
    jobs = [world.submitted(a_job(outbox=None, published_at=NOW)) for _ in range(3)]
    plain_get = world.store.get

    def unreadable(job_id: str) -> Job | None:
        if job_id == jobs[1].job_id:
            raise ValueError("attribute 'state' is no State: 'archived'")
        return plain_get(job_id)

    world.store.get = unreadable  # type: ignore[method-assign]
    assert world.sweep_dlq(*(a_message(job) for job in jobs)) == [("parked-by-sqs", True)] * 2


@pytest.mark.parametrize("place", [0, 7, 22])
def test_a_mark_that_surprises_keeps_no_other_flag_open(place: int) -> None:
    relaying = Relaying(*(a_job() for _ in range(23)))
    plain_apply = relaying.store.apply

    def failing(job_id: str, *args: Any, **changes: Any) -> Job:
        if job_id == relaying.jobs[place].job_id:
            raise ValueError("attribute 'state' is no State: 'archived'")
        return plain_apply(job_id, *args, **changes)

    relaying.store.apply = failing  # type: ignore[method-assign]
    relaying.relay()
    assert relaying.open() == [place]
