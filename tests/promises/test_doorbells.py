"""A message is a doorbell: lost, doubled, late or strange, it changes nothing that matters."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import boto3
import pytest
from moto import mock_aws

from shared.adapters.sqs import SqsMailbox
from shared.domain.job import Job
from shared.domain.outcome import Outcome
from shared.domain.retry import RetryPolicy
from shared.domain.states import (
    State,
)
from shared.domain.writes import Write
from shared.errors import (
    StoreUnavailable,
    TransientFailure,
)
from shared.queues import QUEUES
from tests.builders import NOW, SECOND, a_job, a_message, a_running_job
from tests.world import Order, World, refuse_to_run


def test_a_message_of_a_final_job_is_acknowledged_and_runs_nothing() -> None:
    world = World(handler=refuse_to_run)
    for state in (State.COMPLETED, State.CANCELLED, State.EXPIRED, State.DEAD):
        assert world.deliver(world.submitted(a_job(state=state))) is Outcome.STALE


def test_a_message_older_than_the_records_doorbell_is_acknowledged_whatever_the_state() -> None:
    world = World(handler=refuse_to_run)
    for job in (a_job(dispatch=2), a_running_job(dispatch=2), a_job(state=State.RETRYING, dispatch=2)):
        world.store.submit(job, NOW)
        assert world.deliver(a_message(replace(job, dispatch=1))) is Outcome.STALE


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
    message = a_message(a_job(), bell=None, body="hello")
    assert world.deliver(message) is Outcome.ORPHANED
    assert world.mailbox.orphans


def test_a_redriven_marked_copy_of_a_dead_job_is_a_replay_and_an_unmarked_one_is_dropped() -> None:
    world = World(handler=refuse_to_run)
    job = a_job(state=State.DEAD, dispatch=2, attempts=6, stalls=1, dead_at=NOW, dead_key="dead#x#1", expires_at=NOW)
    world.store.submit(job, NOW)
    assert world.deliver(a_message(job)) is Outcome.STALE
    assert world.deliver(a_message(job, dead_letter=True)) is Outcome.REPLAYED
    replayed = world.store.get(job.job_id)
    assert replayed is not None
    assert (replayed.state, replayed.attempts, replayed.stalls, replayed.dispatch) == (State.QUEUED, 0, 0, 3)
    assert (replayed.outbox, replayed.dead_key, replayed.expires_at) == ("open", None, None)
    assert world.deliver(a_message(job, dead_letter=True)) is Outcome.STALE


def test_a_job_whose_release_could_not_be_told_to_sqs_is_not_run_in_that_invocation_either() -> None:
    """SCENARIOS 8."""
    with mock_aws():
        world = World(handler=refuse_to_run, time_left=timedelta(seconds=1), queue="webhooks.partner-a")
        lane = {"queue": "webhooks.partner-a"}
        messages = [replace(world.submitted(a_job(**lane)), group="k") for _ in range(3)]
        client = boto3.client("sqs", region_name="eu-west-1")
        unreachable = SqsMailbox(client, "no-such-stage", QUEUES["webhooks.partner-a"], world.log)
        kept = world.run_batch(*messages, mailbox=unreachable)
    assert kept == [m.message_id for m in messages]
    assert "visibility-not-set" in world.log.names()
    assert [(world.found(m).state, world.found(m).attempts) for m in messages] == [(State.QUEUED, 0)] * 3


@pytest.mark.parametrize(
    "fields", [{"type": "unheard-of"}, {"payload": None, "payload_ref": b"k" * 16}], ids=["unleased", "leased"]
)
def test_a_job_that_was_deferred_is_not_run_although_the_answer_to_its_deferral_is_lost(fields: dict[str, Any]) -> None:
    """SCENARIOS 8. Deferred before its lease (no such type here yet), or under it (its payload could not be read)."""
    world = World(handler=refuse_to_run)
    message = world.submitted(a_job(**fields))
    plain_apply = world.store.apply

    def answer_lost(job_id: str, write: Write) -> Job:
        after = plain_apply(job_id, write)
        if write.move.target is State.RETRYING:
            raise StoreUnavailable("timed out after it landed")
        return after

    def down(*_: object) -> str:
        raise StoreUnavailable("throttled")

    world.store.apply, world.store.get_payload = answer_lost, down  # type: ignore[method-assign]
    assert world.run_batch(message) == [message.message_id]
    assert (world.found(message).state, world.found(message).attempts) == (State.RETRYING, 0)
    recognised = message.type != "unheard-of"  # under a lease the write is repeated, and found to be our own
    assert world.meter.outcomes() == ["deferred" if recognised else "unavailable"]


def test_messages_whose_acknowledgement_failed_come_back_and_run_nothing() -> None:
    """SCENARIOS 13."""
    ran: list[str] = []
    world = World(handler=lambda payload, run: ran.append(run.job_id))
    messages = [world.submitted(a_job()) for _ in range(10)]
    assert world.run_batch(*messages) == []
    assert world.run_batch(*[replace(m, receives=2, receipt="other") for m in messages[:3]]) == []
    assert len(ran) == 10


def test_an_effect_is_found_again_under_a_doorbell_with_a_new_message_id() -> None:
    """SCENARIOS 27. The provider accepted, the handler raised; idempotency keyed on message ids would charge again."""
    charges: list[int] = []
    policy = RetryPolicy((timedelta(), timedelta(minutes=10)))

    def handler(payload: Order, run: Any) -> None:
        run.once("charge", lambda: charges.append(1))
        if run.attempt == 1:
            raise TransientFailure("after the charge")

    world = World(handler=handler, policy=policy)
    first = world.submitted(a_job())
    assert world.deliver(first) is Outcome.RETRYING_IN_DUE
    second = world.when_due(first)
    assert second.message_id != first.message_id
    assert world.deliver(second) is Outcome.COMPLETED
    assert charges == [1]
