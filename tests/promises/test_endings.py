"""However a run ends, its record says so before its message is acknowledged."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.domain.job import Job
from shared.domain.outcome import Outcome
from shared.domain.run import Cancel, Continue, StoredFile
from shared.domain.states import (
    CANCEL_RUNNING,
    COMPLETE,
    REQUEST_CANCEL,
    Seen,
    State,
)
from shared.domain.writes import Write
from shared.errors import (
    DeterministicFailure,
    EnvironmentalFailure,
    MoveRefused,
    StoreUnavailable,
    TransientFailure,
)
from tests.builders import NOW, SECOND, a_job, a_message, a_running_job, saying
from tests.world import DEFAULT_LEASE, Order, World, raising, refuse_to_run


def test_a_queued_job_runs_completes_and_is_acknowledged() -> None:
    world = World(
        handler=lambda payload, run: StoredFile(f"exports/acme-eu/{payload.month}.pdf", 12, "application/pdf")
    )
    message = world.submitted(a_job())
    assert world.run_batch(message) == []
    job = world.found(message)
    assert (job.state, job.run, job.attempts, job.code_version) == (State.COMPLETED, 1, 1, "abc1234")
    assert job.result == {"file": {"key": "exports/acme-eu/2026-05.pdf", "size": 12, "contentType": "application/pdf"}}
    assert job.open_key is None
    assert job.expires_at == NOW + timedelta(days=14)
    assert world.store.runs(job) == []


def test_a_completed_job_records_the_version_of_its_file() -> None:
    world = World(handler=lambda payload, run: StoredFile("exports/acme-eu/a.pdf", 12, "application/pdf", "v7"))
    message = world.submitted(a_job())
    assert world.run_batch(message) == []
    assert (world.found(message).result or {})["file"]["version"] == "v7"


def test_a_transient_failure_waits_on_its_message_with_its_context_in_the_record() -> None:
    world = World(handler=raising(TransientFailure("SlowDown", code="s3-throttled")))
    message = world.submitted(a_job())
    assert world.run_batch(message) == [message.message_id]
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
    assert world.run_batch(message) == []
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


def test_a_lapsed_job_past_its_deadline_expires_and_one_asked_to_stop_is_cancelled() -> None:
    world = World(handler=refuse_to_run)
    late = world.submitted(a_running_job(deadline_at=NOW + 10 * SECOND))
    asked = world.submitted(a_running_job(cancel_request={"who": "op1", "why": "wrong month"}))
    world.clock.forward(DEFAULT_LEASE + 3 * SECOND)
    assert (world.deliver(late), world.deliver(asked)) == (Outcome.EXPIRED, Outcome.CANCELLED)
    assert (world.found(asked).cancelled_by, world.found(asked).reason) == ("op1", "wrong month")


def test_a_queued_job_past_its_deadline_expires_with_its_reason() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_job(deadline_at=NOW))
    assert world.deliver(message) is Outcome.EXPIRED
    assert world.found(message).state is State.EXPIRED
    assert world.found(message).reason


def test_a_failing_job_that_was_asked_to_stop_is_cancelled_instead_of_retried() -> None:
    world = World()
    message = world.submitted(a_job())

    def handler(payload: Order, run: Any) -> None:
        world.store.apply(run.job_id, Write(REQUEST_CANCEL, Seen(), {"cancel_request": {"who": "op1", "why": "stop"}}))
        raise TransientFailure("x")

    world.handler = handler
    assert world.deliver(message) is Outcome.CANCELLED
    assert CANCEL_RUNNING.target is world.found(message).state


def test_a_completion_whose_answer_was_lost_still_counts_as_completed() -> None:
    world = World()
    message = world.submitted(a_job())
    plain_apply = world.store.apply

    def answer_lost(job_id: str, write: Write) -> Job:
        after = plain_apply(job_id, write)
        if write.move.target is State.COMPLETED:
            raise MoveRefused(job_id, write.move.name, after)
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


def test_a_second_replay_gives_the_same_maximum_age_as_the_first() -> None:
    world = World(handler=raising(DeterministicFailure("x")))
    message = world.submitted(a_job())
    for _ in range(3):
        assert world.deliver(message) is Outcome.DEAD
        world.clock.forward(timedelta(days=5))
        copy = saying(a_message(world.found(message)), dead_letter=True)
        assert world.deliver(copy) is Outcome.REPLAYED
        message = a_message(world.found(message))
        assert world.found(message).deadline_at == world.clock.now() + timedelta(hours=24)


@pytest.mark.parametrize("end", ["complete", "retry", "dead-letter"])
def test_an_end_that_the_table_does_not_take_at_once_is_written_while_the_lease_lasts(end: str) -> None:
    """Given up, it would pass for a crash, and a healthy job would be dead as stalled after two of them."""
    endings = {"retry": TransientFailure("busy"), "dead-letter": DeterministicFailure("row 7")}
    world = World(handler=raising(endings[end]) if end in endings else lambda payload, run: None)
    message = world.submitted(a_job())
    plain_apply, refused = world.store.apply, []

    def down_for_twenty_seconds(job_id: str, write: Write) -> Job:
        if write.move.name == end and world.clock.now() < NOW + 20 * SECOND:
            refused.append(write.move.name)
            raise StoreUnavailable("throttled")
        return plain_apply(job_id, write)

    world.store.apply = down_for_twenty_seconds  # type: ignore[method-assign]
    world.run_batch(message)
    assert len(refused) == 40
    assert world.found(message).state in (State.COMPLETED, State.RETRYING, State.DEAD)
    assert world.found(message).stalls == 0


def test_a_completed_job_has_no_doorbell_left_to_ring_though_its_mark_was_lost() -> None:
    world = World()
    message = world.submitted(a_job())
    world.deliver(message)
    assert (world.found(message).state, world.found(message).outbox) == (State.COMPLETED, None)


def test_an_end_that_the_table_never_takes_is_given_up_before_the_lease_ends() -> None:
    world = World()
    message = world.submitted(a_job())
    plain_apply = world.store.apply

    def down(job_id: str, write: Write) -> Job:
        if write.move is COMPLETE:
            raise StoreUnavailable("throttled")
        return plain_apply(job_id, write)

    world.store.apply = down  # type: ignore[method-assign]
    assert world.run_batch(message) == [message.message_id]
    assert NOW + 27 * SECOND <= world.clock.now() <= NOW + 28 * SECOND


def test_an_end_is_not_insisted_on_beyond_the_invocation() -> None:
    world = World(time_left=timedelta(minutes=14))
    message = world.submitted(a_job())
    plain_apply, tries = world.store.apply, []

    def down(job_id: str, write: Write) -> Job:
        if write.move is COMPLETE:
            tries.append(write.move)
            world.time_left = 2 * SECOND
            raise StoreUnavailable("throttled")
        return plain_apply(job_id, write)

    world.store.apply = down  # type: ignore[method-assign]
    assert world.run_batch(message) == [message.message_id]
    assert len(tries) == 1


def test_a_long_job_continues_over_several_runs_from_where_it_was_and_costs_one_attempt() -> None:
    pages: list[int] = []
    world = World()

    def handler(payload: Order, run: Any) -> Continue | None:
        start = (run.checkpoint or {"page": 0})["page"]
        pages.extend(range(start, start + 100))
        return None if start + 100 == 500 else Continue({"page": start + 100})

    world.handler = handler
    message = world.submitted(a_job())
    for _ in range(4):
        assert world.deliver(message) is Outcome.CONTINUED
        assert world.deliver(message) is Outcome.STALE, "its old message is not needed any more"
        message = a_message(world.found(message))
    assert world.deliver(message) is Outcome.COMPLETED
    assert pages == list(range(500))
    assert (world.found(message).attempts, world.found(message).run) == (1, 5)


@pytest.mark.parametrize("checkpoint", [{"page": 7}, {1, 2}, "page 7", {"x": float("nan")}, {"x": "y" * 2000}])
def test_a_checkpoint_that_did_not_move_or_cannot_be_kept_is_dead_by_name(checkpoint: Any) -> None:
    world = World(handler=lambda payload, run: Continue(checkpoint))
    message = world.submitted(a_job(checkpoint={"page": 7}))
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_code == "checkpoint-invalid"


def test_a_job_asked_to_stop_is_cancelled_where_it_would_continue_or_be_deferred() -> None:
    world = World()
    message = world.submitted(a_job())

    def handler(payload: Order, run: Any) -> Continue:
        world.store.apply(run.job_id, Write(REQUEST_CANCEL, Seen(), {"cancel_request": {"who": "op1", "why": "stop"}}))
        return Continue({"page": 1})

    world.handler = handler
    assert world.deliver(message) is Outcome.CANCELLED
    assert world.found(message).cancelled_by == "op1"


def test_a_handler_may_cancel_its_own_job_with_a_reason_and_a_stale_one_may_not() -> None:
    world = World(handler=lambda payload, run: Cancel("the invoice was paid"))
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.CANCELLED
    job = world.found(message)
    assert (job.cancelled_by, job.reason) == ("handler of invoice-export", "the invoice was paid")

    def stale(payload: Order, run: Any) -> Cancel:
        world.store._jobs[run.job_id] = replace(world.found(other), run=2, holder="another")
        return Cancel("no longer mine to say")

    world.handler = stale
    other = world.submitted(a_job())
    assert world.deliver(other) is Outcome.LEASE_LOST
    assert world.found(other).cancel_request is None


def test_nothing_is_acknowledged_before_its_record_is_written() -> None:
    ran: list[str] = []
    world = World(handler=lambda payload, run: ran.append(run.job_id))
    message = world.submitted(a_job())
    plain_apply = world.store.apply

    def table_goes_away(job_id: str, write: Write) -> Any:
        if write.move.target is State.COMPLETED:
            raise StoreUnavailable("throttled")
        return plain_apply(job_id, write)

    world.store.apply = table_goes_away  # type: ignore[method-assign]
    assert world.run_batch(message) == [message.message_id], "the effect took place, the record did not"
    assert (len(ran), world.mailbox.acknowledged) == (1, [])


def test_an_expired_job_is_visible_with_its_reason_and_never_silently_gone() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_job(deadline_at=a_job().created_at))
    assert world.deliver(message) is Outcome.EXPIRED
    job = world.found(message)
    assert (job.state, bool(job.reason), job.expires_at is not None) == (State.EXPIRED, True, True)
