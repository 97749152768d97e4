"""What one bad record, or one late ring, must not do to others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from shared.domain.job import Job
from tests.builders import NOW, a_job, a_message
from tests.unit.test_scenarios_relay import Relaying
from tests.unit.test_sweep import World

MINUTE = timedelta(minutes=1)


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
