"""One specification for the jobs table, two implementations."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from datetime import datetime, timedelta

import pytest

from shared.adapters.memory import MemoryJobStore
from shared.domain.job import EFFECT_COMPLETED, EFFECT_STARTED, Effect, Job, RunRecord
from shared.domain.moves import after
from shared.domain.states import (
    ERASE_EFFECT,
    FINISH_EFFECT,
    LEASE,
    MARK,
    RENEW,
    RETRY,
    RING_AGAIN,
    START_EFFECT,
    TABLE,
    Seen,
    State,
    Transition,
)
from shared.domain.writes import Write
from shared.errors import AlreadySubmitted, MoveRefused
from shared.ports import JobStore, Row
from tests.builders import NOW, a_job, a_running_job
from tests.moves import broken, changes_for, record_for, seen_for

MOVES = [m for m in TABLE if m.arms]


def _name(value: object) -> str:
    return value.name if isinstance(value, Transition) else ""


@pytest.mark.parametrize("move", MOVES, ids=_name)
def test_a_move_writes_exactly_what_the_table_says(store: JobStore, move: Transition) -> None:
    for arm in move.arms:
        for state in sorted(arm.states):
            job = record_for(move, arm, state)
            store.submit(job, NOW)
            expected = after(job, move, changes_for(move), "charge")
            assert store.apply(job.job_id, Write(move, seen_for(job), changes_for(move))) == expected
            assert store.get(job.job_id) == expected


@pytest.mark.parametrize("move", MOVES, ids=_name)
def test_a_refused_move_writes_nothing_and_shows_what_it_met(store: JobStore, move: Transition) -> None:
    arm = move.arms[0]
    sound = record_for(move, arm, min(arm.states))
    others = [b for guard in (*move.guards, *arm.guards) for b in broken(guard, sound)]
    others += [replace(sound, state=state) for state in sorted(set(State) - move.sources)[:1]]
    for other in others:
        met = replace(other, job_id=a_job().job_id)
        store.submit(met, NOW)
        with pytest.raises(MoveRefused) as refused:
            store.apply(met.job_id, Write(move, seen_for(sound), changes_for(move)))
        assert refused.value.found == met
        assert store.get(met.job_id) == met


def test_a_move_on_no_record_is_refused_and_makes_none(store: JobStore) -> None:
    job = a_running_job()
    for move in MOVES:
        with pytest.raises(MoveRefused) as refused:
            store.apply(job.job_id, Write(move, seen_for(job), changes_for(move)))
        assert refused.value.found is None
    assert store.get(job.job_id) is None


def test_optional_changes_may_be_left_out(store: JobStore) -> None:
    job = a_running_job()
    store.submit(job, NOW)
    renewed = store.apply(job.job_id, Write(RENEW, seen_for(job), {"lease_expires_at": NOW + timedelta(seconds=60)}))
    assert renewed == replace(job, lease_expires_at=NOW + timedelta(seconds=60))


@pytest.mark.parametrize("name", ["charge", "größe: 7 €", "a.b[0]", "#x :y"])
def test_an_effect_is_found_under_its_own_name_whatever_its_characters(store: JobStore, name: str) -> None:
    job = a_running_job()
    store.submit(job, NOW)
    started = Effect(status=EFFECT_STARTED, run=1, at=NOW)
    seen = replace(seen_for(job), effect=name)
    assert store.apply(job.job_id, Write(START_EFFECT, seen, {"effect": started})).effects == {name: started}
    done = Effect(status=EFFECT_COMPLETED, run=1, at=NOW, outcome='{"outcome":0}')
    assert store.apply(job.job_id, Write(FINISH_EFFECT, seen, {"effect": done})).effects == {name: done}
    with pytest.raises(MoveRefused):
        store.apply(job.job_id, Write(ERASE_EFFECT, seen))


def test_the_first_error_time_stays_that_of_the_first_error(store: JobStore) -> None:
    job = a_running_job(first_error_at=NOW - timedelta(hours=1))
    store.submit(job, NOW)
    assert store.apply(job.job_id, Write(RETRY, seen_for(job), changes_for(RETRY))).first_error_at == NOW - timedelta(
        hours=1
    )


def test_a_move_that_is_not_told_what_it_needs_raises_and_writes_nothing(store: JobStore) -> None:
    job = a_job()
    store.submit(job, NOW)
    with pytest.raises(ValueError, match="dispatch"):
        store.apply(job.job_id, Write(LEASE, Seen(now=NOW), changes_for(LEASE)))
    with pytest.raises(ValueError, match="None for"):
        store.apply(job.job_id, Write(MARK, Seen(dispatch=1), {"published_at": None}))
    assert store.get(job.job_id) == job


def test_ringing_again_is_refused_once_the_relay_has_marked(store: JobStore) -> None:
    job = a_job()
    store.submit(job, NOW)
    store.apply(job.job_id, Write(MARK, Seen(dispatch=1), {"published_at": NOW}))
    with pytest.raises(MoveRefused):
        store.apply(job.job_id, Write(RING_AGAIN, Seen(dispatch=1, outbox="open"), {"rung_at": NOW}))
    again = store.apply(job.job_id, Write(RING_AGAIN, Seen(dispatch=1, published_at=NOW), {"rung_at": NOW}))
    assert (again.outbox, again.dispatch, again.published_at) == ("open", 1, None)


def test_a_record_survives_the_store_to_the_letter(store: JobStore) -> None:
    job = a_job(
        tags={"run": "May", "ünï": "¢"},
        ordering_key="acct-1",
        trace_id="Root=1-2-3",
        fingerprint=bytes(range(16)),
        checkpoint={"page": 7, "done": [1, 2.5, None, True, {"x": "y"}]},
        result={"file": {"key": "exports/a.pdf", "size": 1}},
        tenant_key="tenant#acme-eu#3",
        created_at=NOW + timedelta(milliseconds=7),
        expires_at=NOW,
    )
    assert {f.name for f in fields(Job)} >= {"tags", "checkpoint"}
    store.submit(job, NOW)
    assert store.get(job.job_id) == job


def test_a_taken_id_is_refused_with_the_record_that_has_it(store: JobStore) -> None:
    first, second = a_job(), a_job(tenant="other")
    second = replace(second, job_id=first.job_id)
    store.submit(first, NOW)
    with pytest.raises(AlreadySubmitted) as taken:
        store.submit(second, NOW)
    assert taken.value.found == first
    assert store.get(first.job_id) == first


def test_an_id_whose_record_outlived_its_time_is_free_again(store: JobStore) -> None:
    """TTL deletes hours to days late, and such items are still read: the condition compares the time itself."""
    old = a_job(state=State.COMPLETED, expires_at=NOW)
    new = replace(a_job(tenant="other"), job_id=old.job_id)
    store.submit(old, NOW)
    with pytest.raises(AlreadySubmitted):
        store.submit(new, NOW)
    store.submit(new, NOW + timedelta(seconds=1))
    assert store.get(old.job_id) == new


def test_a_submit_with_rows_writes_both_or_neither(store: JobStore) -> None:
    job = a_job()
    row = Row("exports", {"pk": "EXPORT#1", "sk": "EXPORT", "job_id": job.job_id, "requested_at": NOW, "n": 3})
    store.submit_with(job, [row], NOW)
    assert store.get(job.job_id) == job
    with pytest.raises(AlreadySubmitted) as taken:
        store.submit_with(job, [Row("exports", {"pk": "EXPORT#2", "sk": "EXPORT"})], NOW)
    assert taken.value.found == job
    assert rows_of(store) == ["EXPORT#1"]


def rows_of(store: JobStore) -> list[str]:
    if isinstance(store, MemoryJobStore):
        return [str(row.values["pk"]) for row in store.rows]
    items = store._client.scan(TableName="exports")["Items"]  # type: ignore[attr-defined]
    return [item["pk"]["S"] for item in items]


def test_a_payload_is_kept_under_its_fingerprint_beside_others_of_the_same_id(store: JobStore) -> None:
    job = a_job()
    store.put_payload(job.job_id, b"1" * 16, "accepted", NOW)
    store.put_payload(job.job_id, b"2" * 16, "refused later", NOW)
    assert store.get_payload(job.job_id, b"1" * 16) == "accepted"
    assert store.get_payload(job.job_id, b"3" * 16) is None


@pytest.mark.parametrize("later", [timedelta(days=-300), timedelta(), timedelta(days=300)])
def test_the_time_to_live_of_a_stored_payload_only_ever_grows(store: JobStore, later: timedelta) -> None:
    """The second put may be a request that is refused, under the key of a job that was promised for later."""
    job, until = a_job(), NOW + timedelta(days=400)
    store.put_payload(job.job_id, b"1" * 16, "text", until)
    store.put_payload(job.job_id, b"1" * 16, "text", until + later)
    let_ttl_pass(store, max(until, until + later))
    assert store.get_payload(job.job_id, b"1" * 16) == "text"
    let_ttl_pass(store, max(until, until + later) + timedelta(seconds=1))
    assert store.get_payload(job.job_id, b"1" * 16) is None


@pytest.mark.parametrize("later", [timedelta(days=-300), timedelta(), timedelta(days=300)])
def test_a_renewed_payload_is_kept_as_long_as_it_was_and_as_was_asked(store: JobStore, later: timedelta) -> None:
    job, until = a_job(), NOW + timedelta(days=400)
    store.put_payload(job.job_id, b"1" * 16, "text", until)
    assert store.renew_payload(job.job_id, b"1" * 16, until + later)
    let_ttl_pass(store, max(until, until + later))
    assert store.get_payload(job.job_id, b"1" * 16) == "text"


def test_a_payload_that_is_gone_is_not_renewed(store: JobStore) -> None:
    job = a_job()
    assert not store.renew_payload(job.job_id, b"1" * 16, NOW)
    assert store.get_payload(job.job_id, b"1" * 16) is None


@pytest.mark.parametrize("later", [timedelta(days=-300), timedelta(days=300)])
def test_a_payload_ends_with_the_record_of_its_completed_job_and_never_later_than_it_would_have(
    store: JobStore, later: timedelta
) -> None:
    job, until = a_job(), NOW + timedelta(days=400)
    store.put_payload(job.job_id, b"1" * 16, "text", until)
    store.end_payload(job.job_id, b"1" * 16, until + later)
    let_ttl_pass(store, min(until, until + later) + timedelta(seconds=1))
    assert store.get_payload(job.job_id, b"1" * 16) is None


def test_a_payload_that_is_gone_is_not_brought_back_by_its_end(store: JobStore) -> None:
    job = a_job()
    store.end_payload(job.job_id, b"1" * 16, NOW + timedelta(days=1))
    assert store.get_payload(job.job_id, b"1" * 16) is None


def let_ttl_pass(store: JobStore, now: datetime) -> None:
    """What stands beside the records and is past its time by `now` goes."""
    if isinstance(store, MemoryJobStore):
        store.expire_beside(now)
        return
    client = store._client  # type: ignore[attr-defined]
    for item in client.scan(TableName="jobs")["Items"]:
        if item["sk"]["S"] != "JOB" and int(item["expires_at"]["N"]) < now.timestamp():
            client.delete_item(TableName="jobs", Key={name: item[name] for name in ("pk", "sk")})


def a_run(job: Job, number: int, ended_at: datetime = NOW) -> RunRecord:
    return RunRecord(
        job_id=job.job_id,
        run=number,
        ended_at=ended_at,
        outcome="retrying",
        holder=None,
        error_class="transient",
        error_code="x",
        error_message="y",
        stack_digest=None,
        expires_at=ended_at + timedelta(days=90),
    )


def test_the_history_is_read_oldest_run_first(store: JobStore) -> None:
    job = a_job()
    for number in (10, 2, 1):
        store.record_run(a_run(job, number))
    assert list(store.runs(job)) == [a_run(job, 1), a_run(job, 2), a_run(job, 10)]
    assert list(store.runs(a_job())) == []
    again = replace(a_run(job, 2), error_class=None, holder="holder-2")
    store.record_run(again)
    assert list(store.runs(job))[1] == again


def test_a_run_that_ended_by_a_clock_behind_the_clients_is_the_jobs_own(store: JobStore) -> None:
    job = a_job()
    store.record_run(a_run(job, 1, NOW - timedelta(seconds=30)))
    assert [run.run for run in store.runs(job)] == [1]


def test_a_key_that_lives_again_shows_none_of_its_former_lifes_failed_runs(store: JobStore) -> None:
    """Its record's time had passed, and history is kept longer."""
    former = a_job(created_at=NOW - timedelta(days=15), state=State.COMPLETED, expires_at=NOW - timedelta(seconds=1))
    store.submit(former, former.created_at)
    for number in (1, 2, 3):
        store.record_run(a_run(former, number, former.created_at + timedelta(minutes=number)))
    again = replace(a_job(), job_id=former.job_id)
    store.submit(again, NOW)
    assert list(store.runs(again)) == []
    store.record_run(a_run(again, 1))
    assert list(store.runs(again)) == [a_run(again, 1)]


def test_of_many_workers_one_gets_the_lease() -> None:
    """On the twin: moto is not thread-safe; the emulator's turn comes in the end-to-end tests."""
    store, job, barrier = MemoryJobStore(), a_job(), threading.Barrier(16)
    store.submit(job, NOW)

    def lease(n: int) -> str | None:
        barrier.wait()
        try:
            changes = changes_for(LEASE) | {"holder": f"holder-{n}"}
            return store.apply(job.job_id, Write(LEASE, Seen(now=NOW, dispatch=1), changes)).holder
        except MoveRefused:
            return None

    with ThreadPoolExecutor(16) as pool:
        winners = [holder for holder in pool.map(lease, range(16)) if holder]
    found = store.get(job.job_id)
    assert found is not None
    assert winners == [found.holder]
    assert (found.run, found.attempts) == (1, 1)
