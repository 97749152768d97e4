"""A worker's batch on the in-memory twin: what each ending leaves in the record and on the queue."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.domain.job import Job, Progress
from shared.domain.outcome import Alert, Outcome
from shared.domain.run import StoredFile
from shared.domain.states import CANCEL_RUNNING, COMPLETE, RECLAIM, RENEW, REQUEST_CANCEL, Seen, State
from shared.errors import (
    DeterministicFailure,
    EnvironmentalFailure,
    LeaseLost,
    MoveRefused,
    StoreUnavailable,
    TransientFailure,
)
from shared.jobs import JobType
from shared.operations.run import run_batch
from shared.ports import Message
from tests.builders import NOW, a_job, a_message, a_running_job
from tests.world import LEASE, SECOND, OneType, Order, World, raising, refuse_to_run


def test_a_queued_job_runs_completes_and_is_acknowledged() -> None:
    world = World(
        handler=lambda payload, run: StoredFile(f"exports/acme-eu/{payload.month}.pdf", 12, "application/pdf")
    )
    message = world.submitted(a_job())
    assert run_batch([message], world.ports) == []
    job = world.found(message)
    assert (job.state, job.run, job.attempts, job.code_version) == (State.COMPLETED, 1, 1, "abc1234")
    assert job.result == {"file": {"key": "exports/acme-eu/2026-05.pdf", "size": 12, "contentType": "application/pdf"}}
    assert job.open_key is None
    assert job.expires_at == NOW + timedelta(days=14)
    assert world.store.runs(job) == []


def test_a_completed_job_records_the_version_of_its_file() -> None:
    world = World(handler=lambda payload, run: StoredFile("exports/acme-eu/a.pdf", 12, "application/pdf", "v7"))
    message = world.submitted(a_job())
    assert run_batch([message], world.ports) == []
    assert (world.found(message).result or {})["file"]["version"] == "v7"


def test_visibility_is_set_to_the_lease_and_its_margin_before_anything_else() -> None:
    world = World()
    message = world.submitted(a_job())
    world.handler = lambda payload, run: world.mailbox.hides.append(("ran", timedelta()))
    run_batch([message], world.ports)
    assert world.mailbox.hides == [(message.message_id, LEASE + 3 * SECOND), ("ran", timedelta())]


def test_a_transient_failure_waits_on_its_message_with_its_context_in_the_record() -> None:
    world = World(handler=raising(TransientFailure("SlowDown", code="s3-throttled")))
    message = world.submitted(a_job())
    assert run_batch([message], world.ports) == [message.message_id]
    job = world.found(message)
    assert (job.state, job.attempts, job.dispatch) == (State.RETRYING, 1, 1)
    assert (job.error_class, job.error_code, job.error_message) == ("transient", "s3-throttled", "SlowDown")
    assert job.first_error_at == job.last_error_at == NOW
    assert job.next_attempt_at == NOW + 5 * SECOND
    assert world.mailbox.hidden[message.message_id] == 5 * SECOND
    (run,) = world.store.runs(job)
    assert (run.run, run.outcome, run.error_code) == (1, "retrying", "s3-throttled")
    assert run.stack_digest is not None
    assert run.stack_digest.startswith("world.py:")


def test_a_job_is_tried_six_times_at_the_default_delays_then_dead_with_its_context() -> None:
    world = World(handler=raising(OSError("reset")))
    message = world.submitted(a_job())
    waits, outcomes = [], []
    while (outcome := world.deliver(message)) is not Outcome.DEAD:
        outcomes.append(outcome)
        before = world.clock.now()
        message = world.when_due(message)
        waits.append((world.clock.now() - before).total_seconds())
    assert waits == [5, 30, 120, 600, 3600]
    assert outcomes == [Outcome.RETRYING] * 2 + [Outcome.RETRYING_IN_DUE] * 3
    job = world.found(message)
    assert (job.state, job.attempts, job.outbox) == (State.DEAD, 6, "open")
    assert (job.error_class, job.error_code) == ("transient", "OSError")
    assert job.first_error_at == NOW
    assert job.dead_at == job.last_error_at == world.clock.now()
    assert len(world.store.runs(job)) == 6


@pytest.mark.parametrize("error", [DeterministicFailure("row 3", code="csv-row-invalid"), KeyError("vat"), TypeError()])
def test_a_deterministic_failure_is_dead_at_once_and_acknowledged(error: BaseException) -> None:
    world = World(handler=raising(error))
    message = world.submitted(a_job())
    assert run_batch([message], world.ports) == []
    assert (world.found(message).state, world.found(message).attempts) == (State.DEAD, 1)
    assert world.found(message).error_class == "deterministic"


def test_an_environmental_failure_waits_without_spending_an_attempt() -> None:
    world = World(handler=raising(EnvironmentalFailure("quota gone", code="quota")))
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEFERRED_IN_DUE
    job = world.found(message)
    assert (job.state, job.attempts, job.reason) == (State.RETRYING, 0, "quota: quota gone")
    assert (job.error_class, job.error_code) == ("environmental", "quota")
    assert job.next_attempt_at == NOW + timedelta(minutes=5)


def test_a_retry_that_would_come_after_the_deadline_is_dead_as_max_age() -> None:
    world = World(handler=raising(TransientFailure("slow")))
    message = world.submitted(a_job(deadline_at=NOW + 4 * SECOND))
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_class == "max-age"


def test_a_handler_that_exits_the_process_fails_its_own_job_only() -> None:
    world = World(handler=raising(SystemExit(3)))
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.RETRYING


@pytest.mark.parametrize("returned", ["exports/a.pdf", {"key": "x"}, 7])
def test_a_result_of_another_kind_is_refused_by_name(returned: object) -> None:
    world = World(handler=lambda payload, run: returned)
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_code == "result-invalid"


def test_a_job_never_completes_without_the_result_its_type_requires() -> None:
    world = World(requires_result=True)
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_code == "result-missing"


def test_a_payload_nobody_can_parse_is_dead_and_its_neighbours_complete() -> None:
    world = World()
    bad, good = world.submitted(a_job(payload='{"tenantId":7}')), world.submitted(a_job())
    assert run_batch([bad, good], world.ports) == []
    assert (world.found(bad).state, world.found(good).state) == (State.DEAD, State.COMPLETED)
    assert world.found(bad).error_code == "payload-invalid"
    assert "/payload/tenantId" in str(world.found(bad).error_message)


def test_a_stored_payload_is_fetched_and_one_that_is_gone_is_dead_as_payload_missing() -> None:
    seen = []
    world = World(handler=lambda payload, run: seen.append(payload.month))
    kept, gone = a_job(payload=None, payload_ref=b"k" * 16), a_job(payload=None, payload_ref=b"g" * 16)
    world.store.put_payload(kept.job_id, b"k" * 16, '{"tenantId":"a","month":"2026-04"}', NOW)
    assert world.deliver(world.submitted(kept)) is Outcome.COMPLETED
    assert seen == ["2026-04"]
    message = world.submitted(gone)
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_code == "payload-missing"


def test_a_type_this_worker_does_not_know_is_deferred_not_dead() -> None:
    world = World()
    message = world.submitted(a_job(type="unheard-of"))
    assert run_batch([message], world.ports) == [message.message_id]
    job = world.found(message)
    assert (job.state, job.run, job.attempts, job.dispatch) == (State.RETRYING, 0, 0, 1)
    assert "unheard-of" in str(job.reason)


def test_a_payload_version_newer_than_this_worker_is_deferred_and_an_older_one_dead_with_the_reason() -> None:
    world = World(handler=refuse_to_run, version=2)
    newer, older = world.submitted(a_job(payload_version=3)), world.submitted(a_job(payload_version=1))
    assert (world.deliver(newer), world.deliver(older)) == (Outcome.DEFERRED, Outcome.DEAD)
    assert world.found(newer).attempts == 0
    assert world.found(older).error_code == "payload-version-unsupported"


def test_a_job_type_file_that_does_not_import_defers_its_jobs_and_spares_the_others() -> None:
    world = World()
    ports = world.ports

    class Broken(OneType):
        def get(self, name: str) -> JobType | None:
            if name == "broken":
                raise ImportError("no module named stripe")
            return super().get(name)

    ports = replace(ports, catalogue=Broken(world.handler))  # type: ignore[arg-type]
    bad, good = world.submitted(a_job(type="broken")), world.submitted(a_job())
    assert run_batch([bad, good], ports) == [bad.message_id]
    assert world.found(good).state is State.COMPLETED
    assert world.found(bad).reason == "job type 'broken' cannot be loaded (ImportError)", "the log has its words"
    assert world.meter.alerts == [(Alert.TYPE_NOT_LOADED, bad.job_id)], "a person hears of it at once"


# ---- refused leases: the one rule for messages ----------------------------------------------------------------------


def test_a_message_of_a_final_job_is_acknowledged_and_runs_nothing() -> None:
    world = World(handler=refuse_to_run)
    for state in (State.COMPLETED, State.CANCELLED, State.EXPIRED, State.DEAD):
        assert world.deliver(world.submitted(a_job(state=state))) is Outcome.STALE


def test_a_message_older_than_the_records_doorbell_is_acknowledged_whatever_the_state() -> None:
    world = World(handler=refuse_to_run)
    for job in (a_job(dispatch=2), a_running_job(dispatch=2), a_job(state=State.RETRYING, dispatch=2)):
        world.store.submit(job, NOW)
        assert world.deliver(a_message(replace(job, dispatch=1))) is Outcome.STALE


def test_a_message_that_finds_a_live_lease_is_hidden_until_it_ends_and_never_deleted() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_running_job())
    world.clock.forward(10 * SECOND)
    assert run_batch([message], world.ports) == [message.message_id]
    assert world.mailbox.hidden[message.message_id] == 23 * SECOND


def test_a_message_that_comes_before_its_wait_is_over_is_hidden_for_the_rest() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_job(state=State.RETRYING, next_attempt_at=NOW + 40 * SECOND))
    assert world.deliver(message) is Outcome.WAITING
    assert world.mailbox.hidden[message.message_id] == 40 * SECOND


def test_a_message_from_the_future_is_left_for_later() -> None:
    world = World(handler=refuse_to_run)
    job = a_job(dispatch=1)
    world.store.submit(job, NOW)
    assert world.deliver(a_message(replace(job, dispatch=2))) is Outcome.WAITING


def test_a_message_without_a_record_goes_to_the_dlq_as_an_orphan() -> None:
    world = World(handler=refuse_to_run)
    message = a_message(a_job())
    assert world.deliver(message) is Outcome.ORPHANED
    assert [m for m, _ in world.mailbox.orphans] == [message]


def test_a_message_that_is_no_doorbell_goes_to_the_dlq_as_an_orphan() -> None:
    world = World(handler=refuse_to_run)
    message = a_message(a_job(), job_id="", dispatch=0, type="", body="hello")
    assert world.deliver(message) is Outcome.ORPHANED
    assert world.mailbox.orphans


def test_a_lapsed_lease_is_reclaimed_under_the_next_run_with_the_old_run_in_the_history() -> None:
    world = World()
    message = world.submitted(a_running_job())
    world.clock.forward(LEASE + 3 * SECOND)
    assert world.deliver(message) is Outcome.COMPLETED
    job = world.found(message)
    assert (job.run, job.attempts, job.stalls) == (2, 2, 1)
    (run,) = world.store.runs(job)
    assert (run.run, run.error_class, run.holder) == (1, "stalled", "holder-1")


def test_a_job_that_stalls_twice_in_a_row_is_dead_as_stalled_and_not_started_again() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_running_job(stalls=1))
    world.clock.forward(LEASE + 3 * SECOND)
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_class == "stalled"


def test_a_clean_end_between_two_crashes_is_not_a_stall_in_a_row() -> None:
    world = World(handler=raising(TransientFailure("x")))
    message = world.submitted(a_running_job())
    world.clock.forward(LEASE + 3 * SECOND)
    assert world.deliver(message) is Outcome.RETRYING
    assert (world.found(message).run, world.found(message).stalls) == (2, 0)


def test_a_lapsed_job_past_its_deadline_expires_and_one_asked_to_stop_is_cancelled() -> None:
    world = World(handler=refuse_to_run)
    late = world.submitted(a_running_job(deadline_at=NOW + 10 * SECOND))
    asked = world.submitted(a_running_job(cancel_request={"who": "op1", "why": "wrong month"}))
    world.clock.forward(LEASE + 3 * SECOND)
    assert (world.deliver(late), world.deliver(asked)) == (Outcome.EXPIRED, Outcome.CANCELLED)
    assert (world.found(asked).cancelled_by, world.found(asked).reason) == ("op1", "wrong month")


def test_a_queued_job_past_its_deadline_expires_with_its_reason() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_job(deadline_at=NOW))
    assert world.deliver(message) is Outcome.EXPIRED
    assert world.found(message).state is State.EXPIRED
    assert world.found(message).reason


def test_a_redriven_marked_copy_of_a_dead_job_is_a_replay_and_an_unmarked_one_is_dropped() -> None:
    world = World(handler=refuse_to_run)
    job = a_job(state=State.DEAD, dispatch=2, attempts=6, stalls=1, dead_at=NOW, dead_key="dead#x#1", expires_at=NOW)
    world.store.submit(job, NOW)
    assert world.deliver(a_message(job)) is Outcome.STALE
    assert world.deliver(a_message(job, dead_letter_mark=True)) is Outcome.REPLAYED
    replayed = world.store.get(job.job_id)
    assert replayed is not None
    assert (replayed.state, replayed.attempts, replayed.stalls, replayed.dispatch) == (State.QUEUED, 0, 0, 3)
    assert (replayed.outbox, replayed.dead_key, replayed.expires_at) == ("open", None, None)
    assert world.deliver(a_message(job, dead_letter_mark=True)) is Outcome.STALE


def test_a_lease_whose_answer_was_lost_is_recognised_by_its_own_token() -> None:
    world = World()
    message = world.submitted(a_running_job(holder="token-1"))
    assert world.deliver(message) is Outcome.COMPLETED
    assert (world.found(message).run, world.found(message).attempts) == (1, 1)


def test_a_lost_race_to_reclaim_runs_nothing() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_running_job())
    world.clock.forward(LEASE + 3 * SECOND)
    reclaimed = replace(
        world.found(message), run=2, holder="other", lease_expires_at=world.clock.now() + LEASE, attempts=2
    )
    plain_apply = world.store.apply

    def raced(job_id: str, move: Any, seen: Seen, **changes: Any) -> Job:
        if move is RECLAIM:
            world.store._jobs[job_id] = reclaimed
        return plain_apply(job_id, move, seen, **changes)

    world.store.apply = raced  # type: ignore[method-assign]
    assert world.deliver(message) is Outcome.WAITING
    assert world.found(message) == reclaimed


# ---- fencing --------------------------------------------------------------------------------------------------------


def test_a_worker_whose_job_was_reclaimed_writes_nothing_and_does_not_acknowledge() -> None:
    """A leases; 34 s without a heartbeat; B reclaims and completes; A resumes and tries to end the job, each way."""
    for ending in (None, TransientFailure("x"), DeterministicFailure("x"), EnvironmentalFailure("x")):
        world = World()
        message = world.submitted(a_job())

        def stale(
            payload: Order, run: Any, world: World = world, message: Message = message, ending: Any = ending
        ) -> None:
            world.handler = lambda payload, run: None
            world.clock.forward(LEASE + 4 * SECOND)
            assert world.deliver(message) is Outcome.COMPLETED
            if ending:
                raise ending

        world.handler = stale
        assert world.deliver(message) is Outcome.LEASE_LOST
        job = world.found(message)
        assert (job.state, job.run, job.attempts, job.stalls) == (State.COMPLETED, 2, 2, 1)


def test_progress_of_a_stale_worker_raises_lease_lost_and_its_later_calls_too() -> None:
    world = World()
    message = world.submitted(a_job())
    raised = []

    def stale(payload: Order, run: Any) -> None:
        job = world.found(message)
        world.store._jobs[job.job_id] = replace(job, run=2, holder="other")
        world.clock.forward(LEASE)
        for _ in range(2):
            try:
                run.progress(1, 9, "pages")
            except LeaseLost:
                raised.append(True)

    world.handler = stale
    assert world.deliver(message) is Outcome.LEASE_LOST
    assert raised == [True, True]


# ---- heartbeat ------------------------------------------------------------------------------------------------------


def heartbeat_world(steps: list[tuple[int, int]]) -> tuple[World, Message, list[Job]]:
    """A handler that reports `done` after waiting so many seconds, for each step; the renewals it caused."""
    world = World()
    message = world.submitted(a_job())
    renewals: list[Job] = []

    def handler(payload: Order, run: Any) -> None:
        for wait, done in steps:
            world.clock.forward(wait * SECOND)
            before = world.found(message).lease_expires_at
            run.progress(done, 100, "pages")
            if world.found(message).lease_expires_at != before:
                renewals.append(world.found(message))

    world.handler = handler
    return world, message, renewals


def test_progress_renews_lease_and_visibility_at_most_every_third_of_the_lease() -> None:
    world, message, renewals = heartbeat_world([(1, n) for n in range(1, 31)])
    assert world.deliver(message) is Outcome.COMPLETED
    assert [(job.progress.done, job.lease_expires_at) for job in renewals if job.progress] == [
        (10, NOW + 40 * SECOND),
        (20, NOW + 50 * SECOND),
        (30, NOW + 60 * SECOND),
    ]
    assert [wait for _, wait in world.mailbox.hides] == [33 * SECOND] * 4, "one at its lease, one a renewal"
    assert world.found(message).progress == Progress(30, 100, "pages")


def test_without_movement_the_lease_is_left_to_expire() -> None:
    world, message, renewals = heartbeat_world([(12, 5), (12, 5), (12, 4), (12, 5)])
    world.deliver(message)
    assert len(renewals) == 1


def test_a_cancel_request_reaches_the_handler_with_its_next_heartbeat() -> None:
    world = World()
    message = world.submitted(a_job())

    def handler(payload: Order, run: Any) -> None:
        world.store.apply(run.job_id, REQUEST_CANCEL, Seen(), cancel_request={"who": "op1", "why": "wrong month"})
        world.clock.forward(LEASE / 2)
        try:
            run.progress(1, 2, "pages")
        except Exception:
            pytest.fail("a handler's own except must not swallow the request")
        pytest.fail("the handler went on")

    world.handler = handler
    assert world.deliver(message) is Outcome.CANCELLED
    assert world.found(message).cancelled_by == "op1"


def test_a_failing_job_that_was_asked_to_stop_is_cancelled_instead_of_retried() -> None:
    world = World()
    message = world.submitted(a_job())

    def handler(payload: Order, run: Any) -> None:
        world.store.apply(run.job_id, REQUEST_CANCEL, Seen(), cancel_request={"who": "op1", "why": "stop"})
        raise TransientFailure("x")

    world.handler = handler
    assert world.deliver(message) is Outcome.CANCELLED
    assert CANCEL_RUNNING.target is world.found(message).state


def test_a_throttled_renewal_is_tried_again_with_the_next_report() -> None:
    world, message, renewals = heartbeat_world([(12, 1), (1, 2)])
    plain_apply, failed = world.store.apply, []

    def throttled_once(job_id: str, move: Any, seen: Seen, **changes: Any) -> Job:
        if move is RENEW and not failed:
            failed.append(True)
            raise StoreUnavailable("throttled")
        return plain_apply(job_id, move, seen, **changes)

    world.store.apply = throttled_once  # type: ignore[method-assign]
    assert world.deliver(message) is Outcome.COMPLETED
    assert len(renewals) == 1


@pytest.mark.parametrize("done", [-1, 2**53, "7", 1.5])
def test_progress_that_is_no_count_is_refused(done: Any) -> None:
    world = World(handler=lambda payload, run: run.progress(done, 9, "pages"))
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEAD
    assert "whole number" in str(world.found(message).error_message)


# ---- batches --------------------------------------------------------------------------------------------------------


def test_a_standard_batch_runs_side_by_side() -> None:
    together = threading.Barrier(4, timeout=10)
    world = World(handler=lambda payload, run: together.wait() and None)
    messages = [world.submitted(a_job()) for _ in range(4)]
    assert run_batch(messages, world.ports) == []


def test_a_fifo_group_stops_at_its_first_failure_and_returns_the_rest_untouched() -> None:
    """Batch g1a g1b g2a, g1a fails: g1b comes back unstarted, g2a completes."""
    world = World(queue="webhooks.partner-a")
    fifo = {"queue": "webhooks.partner-a"}
    g1a, g1b, g2a = (a_job(tenant=tenant, **fifo) for tenant in ("bad", "good", "good"))

    def handler(payload: Order, run: Any) -> None:
        if run.tenant == "bad":
            raise TransientFailure("x")

    world.handler = handler
    messages = [replace(world.submitted(job), group=group) for job, group in ((g1a, "1"), (g1b, "1"), (g2a, "2"))]
    assert run_batch(messages, world.ports) == [messages[0].message_id, messages[1].message_id]
    assert [world.found(m).state for m in messages] == [State.RETRYING, State.QUEUED, State.COMPLETED]
    assert world.found(messages[1]).attempts == 0
    assert world.mailbox.hidden[messages[1].message_id] == timedelta()


def test_a_fifo_group_runs_in_the_order_of_arrival() -> None:
    order: list[str] = []
    world = World(queue="webhooks.partner-a", handler=lambda payload, run: order.append(run.job_id))
    messages = [replace(world.submitted(a_job(queue="webhooks.partner-a")), group="k") for _ in range(4)]
    assert run_batch(messages, world.ports) == []
    assert order == [m.job_id for m in messages]


def test_the_tenant_group_of_a_standard_lane_does_not_serialise_it() -> None:
    together = threading.Barrier(3, timeout=10)
    world = World(handler=lambda payload, run: together.wait() and None)
    messages = [replace(world.submitted(a_job()), group="acme-eu") for _ in range(3)]
    assert run_batch(messages, world.ports) == []


def test_a_table_that_does_not_answer_leaves_the_message_and_raises_nothing() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_job())

    def down(*_: object, **__: object) -> Job:
        raise StoreUnavailable("throttled")

    world.store.apply = down  # type: ignore[method-assign]
    assert run_batch([message], world.ports) == [message.message_id]
    assert "unavailable" in world.log.names()


def test_a_surprise_in_one_delivery_does_not_fail_its_neighbours() -> None:
    world = World()
    odd, fine = world.submitted(a_job()), world.submitted(a_job())
    plain_apply = world.store.apply

    def surprising(job_id: str, move: Any, seen: Seen, **changes: Any) -> Job:
        if job_id == odd.job_id:
            raise PermissionError("AccessDenied")
        return plain_apply(job_id, move, seen, **changes)

    world.store.apply = surprising  # type: ignore[method-assign]
    assert run_batch([odd, fine], world.ports) == [odd.message_id]
    assert world.found(fine).state is State.COMPLETED


def test_a_completion_whose_answer_was_lost_still_counts_as_completed() -> None:
    world = World()
    message = world.submitted(a_job())
    plain_apply = world.store.apply

    def answer_lost(job_id: str, move: Any, seen: Seen, **changes: Any) -> Job:
        after = plain_apply(job_id, move, seen, **changes)
        if move.target is State.COMPLETED:
            raise MoveRefused(job_id, move.name, after)
        return after

    world.store.apply = answer_lost  # type: ignore[method-assign]
    assert world.deliver(message) is Outcome.COMPLETED


def test_every_line_of_a_job_names_the_job_and_its_type() -> None:
    world = World(handler=raising(TransientFailure("x")))
    world.deliver(world.submitted(a_job()))
    assert world.log.lines
    for name, fields in world.log.lines:
        assert fields["job"].startswith("job_"), name
        assert fields["type"] == "invoice-export", name
        assert fields["state"], name


# ---- crashes that take others with them -----------------------------------------------------------------------------


def test_a_job_whose_worker_vanished_runs_alone_so_that_its_next_crash_is_its_own() -> None:
    """Its batch came back with it, and any of them may have been the one that killed the worker."""
    beside: list[int] = []
    running = [0]
    lock = threading.Lock()

    def handler(payload: Order, run: Any) -> None:
        with lock:
            running[0] += 1
            beside.append(running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= 1

    world = World(handler=handler)
    messages = [world.submitted(a_running_job()) for _ in range(4)]
    world.clock.forward(LEASE + 3 * SECOND)
    assert world.run_batch(*messages) == []
    assert beside == [1, 1, 1, 1]
    assert {world.found(m).state for m in messages} == {State.COMPLETED}


def test_a_suspect_waits_for_the_jobs_beside_it_and_a_later_one_waits_for_the_suspect() -> None:
    order: list[str] = []

    def handler(payload: Order, run: Any) -> None:
        order.append(f"{run.tenant} starts")
        time.sleep(0.1 if run.tenant == "fresh" else 0.02)
        order.append(f"{run.tenant} ends")

    world = World(handler=handler)
    fresh = world.submitted(a_job(tenant="fresh"))
    suspect = world.submitted(a_running_job(tenant="suspect"))
    world.clock.forward(LEASE + 3 * SECOND)
    assert world.run_batch(fresh, suspect) == []
    assert order in (
        ["fresh starts", "fresh ends", "suspect starts", "suspect ends"],
        ["suspect starts", "suspect ends", "fresh starts", "fresh ends"],
    )


def test_a_suspect_without_time_left_is_released_and_not_reclaimed() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_running_job())
    world.clock.forward(LEASE + 3 * SECOND)
    left = [timedelta(minutes=14), timedelta(seconds=1)]
    ports = replace(world.ports, time_left=lambda: left.pop(0) if len(left) > 1 else left[0])
    assert run_batch([message], ports) == [message.message_id]
    assert (world.found(message).run, world.found(message).stalls) == (1, 0)
    assert world.mailbox.hidden[message.message_id] == timedelta()


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt(), GeneratorExit()])
def test_whatever_a_handler_raises_is_its_jobs_failure_and_never_the_batchs(error: BaseException) -> None:
    world = World()
    bad, good = world.submitted(a_job(tenant="bad")), world.submitted(a_job())

    def handler(payload: Order, run: Any) -> None:
        if run.tenant == "bad":
            raise error

    world.handler = handler
    assert world.run_batch(bad, good) == [bad.message_id]
    assert (world.found(bad).state, world.found(good).state) == (State.RETRYING, State.COMPLETED)


def test_a_table_that_does_not_give_the_payload_spends_no_attempt() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_job(payload=None, payload_ref=b"k" * 16))

    def down(*_: object) -> str:
        raise StoreUnavailable("throttled")

    world.store.get_payload = down  # type: ignore[method-assign]
    assert world.deliver(message) is Outcome.DEFERRED
    assert (world.found(message).state, world.found(message).attempts) == (State.RETRYING, 0)


def test_a_second_replay_gives_the_same_maximum_age_as_the_first() -> None:
    world = World(handler=raising(DeterministicFailure("x")))
    message = world.submitted(a_job())
    for _ in range(3):
        assert world.deliver(message) is Outcome.DEAD
        world.clock.forward(timedelta(days=5))
        copy = replace(a_message(world.found(message)), dead_letter_mark=True)
        assert world.deliver(copy) is Outcome.REPLAYED
        message = a_message(world.found(message))
        assert world.found(message).deadline_at == world.clock.now() + timedelta(hours=24)


def test_a_stale_worker_writes_no_history_over_the_one_that_ended_its_job() -> None:
    """Its lease lapsed and another delivery dead-lettered the job: the record still shows its run and holder."""
    world = World()
    message = world.submitted(a_job(max_attempts=1))

    def stale(payload: Order, run: Any) -> None:
        world.clock.forward(LEASE + 4 * SECOND)
        world.handler = refuse_to_run
        assert world.deliver(message) is Outcome.DEAD
        raise DeterministicFailure("too late")

    world.handler = stale
    assert world.deliver(message) is Outcome.LEASE_LOST
    assert [run.error_class for run in world.store.runs(world.found(message))] == ["stalled"]
    assert world.found(message).error_class == "stalled"


def test_a_lease_whose_answer_never_came_is_found_by_its_token() -> None:
    world = World()
    message = world.submitted(a_job())
    plain_apply = world.store.apply

    def answer_lost(job_id: str, move: Any, seen: Seen, **changes: Any) -> Job:
        after = plain_apply(job_id, move, seen, **changes)
        if move.name == "lease":
            raise StoreUnavailable("read timeout")
        return after

    world.store.apply = answer_lost  # type: ignore[method-assign]
    assert world.deliver(message) is Outcome.COMPLETED
    assert (world.found(message).attempts, world.found(message).stalls) == (1, 0)


def test_a_loop_that_reports_the_same_page_under_changing_units_loses_its_lease_all_the_same() -> None:
    world = World()
    message = world.submitted(a_job())
    renewals: list[Any] = []

    def handler(payload: Order, run: Any) -> None:
        for n in range(6):
            world.clock.forward(12 * SECOND)
            run.progress(7, 9, "rows" if n % 2 else "pages")
            renewals.append(world.found(message).lease_expires_at)

    world.handler = handler
    world.deliver(message)
    assert len(set(renewals)) == 2, "once per unit, then never again"


def test_a_handle_whose_attempt_is_over_renews_nothing() -> None:
    world, handles = World(), []
    world.handler = lambda payload, run: handles.append(run)
    world.deliver(world.submitted(a_job()))
    with pytest.raises(LeaseLost):
        handles[0].progress(1, 2, "pages")
    with pytest.raises(LeaseLost):
        handles[0].once("charge", lambda: 1)


def test_the_lease_counts_from_before_its_message_was_hidden_so_that_a_takeover_is_due_when_it_comes_back() -> None:
    """However long SQS took to answer: the message returns when its lease may be reclaimed, not a wait later."""
    world = World()
    message = world.submitted(a_job())
    plain_hide, leases = world.mailbox.hide, []

    def slow_hide(messages: Any, for_: Any) -> Any:
        unset = plain_hide(messages, for_)
        world.clock.forward(timedelta(milliseconds=700))
        return unset

    world.mailbox.hide = slow_hide  # type: ignore[method-assign]
    world.handler = lambda payload, run: leases.append(world.found(message).lease_expires_at)
    world.run_batch(message)
    assert leases == [NOW + LEASE]


def test_a_message_that_could_not_be_hidden_is_hidden_as_its_job_is_leased() -> None:
    """Left with the queue's own visibility, six timeouts, a crash would cost the sweeper's patience."""
    world = World()
    message, plain_hide, asked = world.submitted(a_job()), world.mailbox.hide, []

    def throttled_once(messages: Any, for_: Any) -> Any:
        asked.append(for_)
        return list(messages) if len(asked) == 1 else plain_hide(messages, for_)

    world.mailbox.hide = throttled_once  # type: ignore[method-assign]
    world.handler = lambda payload, run: asked.append("runs")
    assert world.run_batch(message) == []
    assert asked == [[LEASE + 3 * SECOND], [LEASE + 3 * SECOND], "runs"]


@pytest.mark.parametrize("end", ["complete", "retry", "dead-letter"])
def test_an_end_that_the_table_does_not_take_at_once_is_written_while_the_lease_lasts(end: str) -> None:
    """Given up, it would pass for a crash, and a healthy job would be dead as stalled after two of them."""
    endings = {"retry": TransientFailure("busy"), "dead-letter": DeterministicFailure("row 7")}
    world = World(handler=raising(endings[end]) if end in endings else lambda payload, run: None)
    message = world.submitted(a_job())
    plain_apply, refused = world.store.apply, []

    def down_for_twenty_seconds(job_id: str, move: Any, seen: Seen, **changes: Any) -> Job:
        if move.name == end and world.clock.now() < NOW + 20 * SECOND:
            refused.append(move.name)
            raise StoreUnavailable("throttled")
        return plain_apply(job_id, move, seen, **changes)

    world.store.apply = down_for_twenty_seconds  # type: ignore[method-assign]
    world.run_batch(message)
    assert len(refused) == 40
    assert world.found(message).state in (State.COMPLETED, State.RETRYING, State.DEAD)
    assert world.found(message).stalls == 0


def test_a_lease_whose_answer_is_lost_is_read_back_until_the_table_answers() -> None:
    """Left alone it would lapse and count as a crash of a worker that lives."""
    world = World()
    message = world.submitted(a_job())
    plain_apply, plain_get, silent = world.store.apply, world.store.get, []

    def answer_lost(job_id: str, move: Any, seen: Seen, **changes: Any) -> Job:
        after = plain_apply(job_id, move, seen, **changes)
        if move.name == "lease":
            raise StoreUnavailable("timed out after it landed")
        return after

    def silent_at_first(job_id: str) -> Job | None:
        silent.append(job_id)
        if len(silent) < 4:
            raise StoreUnavailable("throttled")
        return plain_get(job_id)

    world.store.apply, world.store.get = answer_lost, silent_at_first  # type: ignore[method-assign]
    assert world.deliver(message) is Outcome.COMPLETED
    assert world.found(message).run == 1


def test_a_renewed_lease_is_known_before_its_message_is_hidden() -> None:
    """A fence that falls in between must plan the retry after the new end."""
    world = World()
    message, known = world.submitted(a_job()), []
    plain_hide = world.mailbox.hide

    def handler(payload: Order, run: Any) -> None:
        world.clock.forward(LEASE / 2)
        world.mailbox.hide = lambda *a: known.append(run.lease_expires_at) or plain_hide(*a)  # type: ignore
        run.progress(1, 2, "pages")

    world.handler = handler
    world.deliver(message)
    assert known[0] == NOW + LEASE / 2 + LEASE


def test_a_completed_job_has_no_doorbell_left_to_ring_though_its_mark_was_lost() -> None:
    world = World()
    message = world.submitted(a_job())
    world.deliver(message)
    assert (world.found(message).state, world.found(message).outbox) == (State.COMPLETED, None)


def test_an_end_that_the_table_never_takes_is_given_up_before_the_lease_ends() -> None:
    world = World()
    message = world.submitted(a_job())
    plain_apply = world.store.apply

    def down(job_id: str, move: Any, seen: Seen, **changes: Any) -> Job:
        if move is COMPLETE:
            raise StoreUnavailable("throttled")
        return plain_apply(job_id, move, seen, **changes)

    world.store.apply = down  # type: ignore[method-assign]
    assert world.run_batch(message) == [message.message_id]
    assert NOW + 27 * SECOND <= world.clock.now() <= NOW + 28 * SECOND


def test_an_end_is_not_insisted_on_beyond_the_invocation() -> None:
    world = World(time_left=timedelta(minutes=14))
    message = world.submitted(a_job())
    plain_apply, tries = world.store.apply, []

    def down(job_id: str, move: Any, seen: Seen, **changes: Any) -> Job:
        if move is COMPLETE:
            tries.append(move)
            world.time_left = 2 * SECOND
            raise StoreUnavailable("throttled")
        return plain_apply(job_id, move, seen, **changes)

    world.store.apply = down  # type: ignore[method-assign]
    assert world.run_batch(message) == [message.message_id]
    assert len(tries) == 1


def test_a_message_of_a_vanished_worker_that_no_one_here_can_take_over_does_not_come_back_at_once() -> None:
    """Its type is not known here: coming back at once, it would use its receives up in seconds."""
    world = World()
    message = world.submitted(a_running_job(type="not-known-here"))
    world.clock.forward(LEASE + 3 * SECOND)
    assert world.deliver(message) is Outcome.WAITING
    assert world.mailbox.hidden[message.message_id] == 30 * SECOND


def test_in_a_fifo_group_each_message_is_hidden_anew_as_its_turn_comes() -> None:
    world = World(queue="webhooks.partner-a", handler=lambda payload, run: world.clock.forward(2 * SECOND))
    messages = [replace(world.submitted(a_job(queue="webhooks.partner-a")), group="k") for _ in range(3)]
    world.run_batch(*messages)
    hides = [message_id for message_id, _ in world.mailbox.hides]
    assert [hides.count(m.message_id) for m in messages] == [1, 2, 2]


@pytest.mark.parametrize(("races", "outcome"), [(3, Outcome.COMPLETED), (4, Outcome.WAITING)])
def test_four_races_lost_in_a_row_leave_the_message_for_later_three_do_not(races: int, outcome: Outcome) -> None:
    world = World()
    message = world.submitted(a_running_job())
    world.clock.forward(LEASE + 3 * SECOND)
    lost, plain_apply = [], world.store.apply

    def raced(job_id: str, move: Any, seen: Seen, **changes: Any) -> Job:
        if move is RECLAIM and len(lost) < races:
            lost.append(1)
            raise MoveRefused(job_id, move.name, world.store.get(job_id))
        return plain_apply(job_id, move, seen, **changes)

    world.store.apply = raced  # type: ignore[method-assign]
    assert world.deliver(message) is outcome
