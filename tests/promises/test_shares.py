"""A tenant's share of a lane's worker time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.memory import MemoryShares
from shared.domain.share import LONGEST_WAIT, TOLERANCE, charged, wait_above
from shared.errors import DeclarationError, StoreUnavailable
from shared.operations.run.share import LaneShare
from shared.queues import QUEUES, Queue
from tests.builders import NOW, SECOND, RecordedLog, TestClock

LANE = next(lane for lane in QUEUES.values() if lane.tenant_share is not None)


def lane_share(clock: TestClock, shares: Any = None, queue: Queue = LANE) -> LaneShare:
    return LaneShare(queue, shares or MemoryShares(), clock, RecordedLog())


def test_a_tenant_within_its_share_waits_for_nothing_and_one_above_it_until_its_account_is_even() -> None:
    clock = TestClock()
    share = lane_share(clock)
    assert share.wait("acme-eu", 0.0) is None

    started = clock.now()
    clock.forward(14 * SECOND)
    share.charge(started, {"acme-eu": 4 * 14 * SECOND})

    ahead = 4 * 14 * SECOND / (LANE.tenant_share or 0) - 14 * SECOND
    assert share.wait("acme-eu", 0.0) == ahead
    assert share.wait("other", 0.0) is None
    clock.forward(ahead)
    assert share.wait("acme-eu", 0.0) is None


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 80)), min_size=1, max_size=40),
    st.integers(1, 8),
)
def test_whatever_its_runs_took_a_tenant_is_above_its_share_only_while_it_used_more(
    runs: list[tuple[int, int]], share: int
) -> None:
    """Over the time since its account was last even."""
    even_at: datetime | None = None
    now = begun = NOW
    used = timedelta()
    for pause, took in runs:
        now += pause * SECOND
        if even_at is None or even_at <= now:
            begun, used = now, timedelta()
        even_at = charged(even_at, now, took * SECOND, share)
        used += took * SECOND
        above = wait_above(even_at, now, 0.0) is not None
        assert above == (used / share - (now - begun) > TOLERANCE)


@given(st.timedeltas(TOLERANCE, timedelta(days=30)), st.floats(0, 1, exclude_max=True))
def test_no_wait_is_longer_than_what_stays_on_its_message(ahead: timedelta, jitter: float) -> None:
    wait = wait_above(NOW + ahead + SECOND, NOW, jitter)
    assert wait is not None
    assert wait <= LONGEST_WAIT


def test_a_lane_that_declares_no_share_and_a_job_without_a_tenant_never_wait() -> None:
    clock = TestClock()
    share = lane_share(clock, queue=QUEUES["emails.high"])
    share.charge(clock.now(), {"acme-eu": timedelta(hours=5)})
    assert share.wait("acme-eu", 0.0) is None
    assert lane_share(clock).wait(None, 0.0) is None


def test_without_the_accounts_the_lane_runs_as_if_it_had_none() -> None:
    class Away:
        def even_at(self, queue: str, tenant: str) -> datetime | None:
            raise StoreUnavailable("away")

        def charge(self, queue: str, tenant: str, started_at: datetime, by: timedelta) -> None:
            raise StoreUnavailable("away")

    share = lane_share(TestClock(), Away())
    share.charge(NOW, {"acme-eu": timedelta(hours=1)})
    assert share.wait("acme-eu", 0.0) is None


def test_the_account_is_read_once_a_second_and_not_once_a_job() -> None:
    class Counted(MemoryShares):
        reads = 0

        def even_at(self, queue: str, tenant: str) -> datetime | None:
            self.reads += 1
            return super().even_at(queue, tenant)

    clock, shares = TestClock(), Counted()
    share = lane_share(clock, shares)
    for _ in range(100):
        share.wait("acme-eu", 0.0)
    assert shares.reads == 1
    clock.forward(SECOND)
    share.wait("acme-eu", 0.0)
    assert shares.reads == 2


@pytest.mark.parametrize("share", [0, 8, 9])
def test_a_share_that_is_none_or_all_of_the_lane_is_refused(share: int) -> None:
    with pytest.raises(DeclarationError, match="tenant_share"):
        Queue(
            name="webhooks.x",
            deadline=timedelta(seconds=20),
            parallelism=4,
            max_concurrency=2,
            memory_mb=512,
            oldest_age_alarm=timedelta(minutes=2),
            tenant_share=share,
        )
