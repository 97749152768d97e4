"""Quotas: one tenant and one caller can neither fill the table nor the bill; nobody is refused for want of a count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.memory import MemoryCounters
from shared.domain.job import LONGEST_RETENTION
from shared.domain.quota import LONGEST_OPEN, Standing, block, forgotten_at, granted, month_of
from shared.domain.states import State
from shared.errors import DeclarationError, QuotaExceeded, StoreUnavailable
from shared.operations.admit import Admission
from shared.operations.submit import LONGEST_AHEAD, MAX_AGE
from shared.operations.tally import Image, tally
from shared.quotas import CALLER_SUBMITS_PER_MINUTE, MIB, Quota, of_tenant
from tests.builders import RecordedLog, TestClock

SMALL = Quota(submits_per_minute=40, open_jobs=5, waiting_bytes=1_000)


MAY = datetime(2026, 5, 17, tzinfo=UTC)


class Counting(MemoryCounters):
    """Counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = self.reads = 0

    def take(self, subject: str, minute: int, n: int) -> int:
        self.writes += 1
        return super().take(subject, minute, n)

    def standing(self, tenant: str) -> Standing:
        self.reads += 1
        return super().standing(tenant)


@pytest.fixture
def counters() -> Counting:
    return Counting()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.quotas.TENANTS", {"acme-eu": SMALL})


def gate(counters: MemoryCounters, clock: TestClock | None = None) -> Admission:
    return Admission(counters, clock or TestClock(), RecordedLog())


def admitted(admission: Admission, times: int, **who: object) -> int:
    count = 0
    for _ in range(times):
        try:
            admission.admit(**{"caller": None, "tenant": None, "large_bytes": 0} | who)  # type: ignore[arg-type]
        except QuotaExceeded:
            continue
        count += 1
    return count


def test_a_tenant_has_its_submits_of_a_minute_and_again_in_the_next(
    monkeypatch: pytest.MonkeyPatch, counters: Counting
) -> None:
    roomy = Quota(submits_per_minute=40, open_jobs=10_000, waiting_bytes=MIB)
    monkeypatch.setattr("shared.quotas.TENANTS", {"acme-eu": roomy})
    clock = TestClock()
    admission = gate(counters, clock)
    assert admitted(admission, 100, tenant="acme-eu") == 40
    clock.forward(timedelta(minutes=1))
    assert admitted(admission, 100, tenant="acme-eu") == 40


def test_what_is_refused_says_when_to_ask_again(small: None, counters: Counting) -> None:
    clock = TestClock()
    admission = gate(counters, clock)
    second = clock.now().second
    admission.counters.take("tenant#acme-eu", int(clock.now().timestamp()) // 60, 40)
    with pytest.raises(QuotaExceeded, match="more than 40 submits in this minute") as refused:
        admission.admit(caller=None, tenant="acme-eu", large_bytes=0)
    assert refused.value.retry_after == timedelta(seconds=60 - second)


def test_a_tenant_that_has_its_fill_costs_the_others_nothing(small: None, counters: Counting) -> None:
    admission = gate(counters)
    assert admitted(admission, 500, tenant="acme-eu") < 500
    assert admitted(admission, 300, tenant="other") == 300


def test_counting_costs_a_write_a_block_and_a_refusal_none(counters: Counting) -> None:
    admission = gate(counters)
    per_minute = of_tenant("acme-eu").submits_per_minute
    assert admitted(admission, per_minute + 500, tenant="acme-eu") == per_minute
    assert counters.writes <= per_minute // block(per_minute) + 1
    assert counters.reads == 1


def test_several_environments_together_let_through_no_more_than_the_quota(counters: Counting) -> None:
    environments = [gate(counters) for _ in range(7)]
    per_minute = of_tenant("acme-eu").submits_per_minute
    let_through = sum(admitted(one, per_minute, tenant="acme-eu") for one in environments)
    assert let_through == per_minute


def test_one_caller_cannot_use_up_what_api_gateway_lets_through_for_all(counters: Counting) -> None:
    admission = gate(counters)
    asked = CALLER_SUBMITS_PER_MINUTE + 1_000
    assert admitted(admission, asked, caller="role/a") == CALLER_SUBMITS_PER_MINUTE
    assert admitted(admission, 10, caller="role/b") == 10


def test_a_tenant_with_too_much_open_is_told_and_goes_on_once_jobs_ended(small: None, counters: Counting) -> None:
    clock = TestClock()
    admission = gate(counters, clock)
    counters.count("acme-eu", "2026-05", 5, 0)
    with pytest.raises(QuotaExceeded, match="5 jobs are open, 5 may be"):
        admission.admit(caller=None, tenant="acme-eu", large_bytes=0)
    counters.count("acme-eu", "2026-05", -3, 0)
    clock.forward(timedelta(seconds=5))
    assert admitted(admission, 10, tenant="acme-eu") == 3


def test_waiting_bytes_are_large_payloads_alone(small: None, counters: Counting) -> None:
    admission = gate(counters)
    admission.admit(caller=None, tenant="acme-eu", large_bytes=900)
    with pytest.raises(QuotaExceeded, match="900 bytes of large payloads are waiting"):
        admission.admit(caller=None, tenant="acme-eu", large_bytes=101)
    admission.admit(caller=None, tenant="acme-eu", large_bytes=0)


def test_without_the_counts_everybody_is_admitted_and_the_log_says_so() -> None:
    class Away(MemoryCounters):
        def take(self, subject: str, minute: int, n: int) -> int:
            raise StoreUnavailable("away")

        def standing(self, tenant: str) -> Standing:
            raise StoreUnavailable("away")

    log = RecordedLog()
    Admission(Away(), TestClock(), log).admit(caller="role/a", tenant="acme-eu", large_bytes=10 * MIB)
    assert "quota-unknown" in str(log.lines)


def test_an_environment_that_saw_a_great_many_callers_forgets_them_and_goes_on(counters: Counting) -> None:
    admission = gate(counters)
    assert sum(admitted(admission, 1, tenant=f"t{n}") for n in range(10_050)) == 10_050


def test_a_quota_that_shuts_everybody_out_is_refused() -> None:
    with pytest.raises(DeclarationError, match="open_jobs is 0"):
        Quota(submits_per_minute=1, open_jobs=0, waiting_bytes=1)


@given(st.integers(1, 10_000), st.lists(st.integers(1, 600), max_size=60))
def test_blocks_taken_in_any_order_never_grant_more_than_the_minute(per_minute: int, blocks: list[int]) -> None:
    total = given_out = 0
    for taken in blocks:
        total += taken
        part = granted(per_minute, total, taken)
        assert 0 <= part <= taken
        given_out += part
    assert given_out == min(total, per_minute)


def test_the_tally_counts_what_begins_ends_and_begins_anew() -> None:
    counters = MemoryCounters()

    def image(state: State, size: int = 500) -> Image:
        return Image("acme-eu", state, MAY, size)

    tally([(None, image(State.QUEUED)), (None, image(State.SCHEDULED))], counters)
    assert counters.standing("acme-eu") == Standing(2, 1_000)
    tally([(image(State.RUNNING), image(State.COMPLETED)), (image(State.RUNNING), image(State.DEAD))], counters)
    assert counters.standing("acme-eu") == Standing(0, 0)
    tally([(image(State.DEAD), image(State.QUEUED)), (image(State.COMPLETED), None)], counters)
    assert counters.standing("acme-eu") == Standing(1, 500)


def test_a_batch_counted_twice_is_forgotten_with_its_month_and_never_reads_below_nothing() -> None:
    counters = MemoryCounters()
    ended = [(Image("acme-eu", State.RUNNING, MAY, 0), Image("acme-eu", State.COMPLETED, MAY, 0))]
    tally(ended, counters)
    tally(ended, counters)
    assert counters.standing("acme-eu") == Standing(0, 0)
    counters.count("acme-eu", "2026-06", 1, 0)
    assert counters.standing("acme-eu") == Standing(1, 0)


def test_a_months_counts_are_kept_until_no_job_of_it_can_be_open() -> None:
    assert LONGEST_OPEN >= LONGEST_AHEAD + MAX_AGE + LONGEST_RETENTION + MAX_AGE
    assert month_of(MAY) == "2026-05"
    assert forgotten_at("2026-12") == datetime(2027, 1, 1, tzinfo=UTC) + LONGEST_OPEN
