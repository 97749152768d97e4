"""Receives without a run cost no attempt, and SQS moves no message away before its job's policy is used up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import boto3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moto import mock_aws

from shared.adapters.dynamodb import DynamoJobStore
from shared.adapters.sqs import SqsDeadLetters, SqsDoorbell
from shared.domain.outcome import Outcome
from shared.domain.retry import MOST_ATTEMPTS, FailureClass, RetryPolicy
from shared.domain.run import Defer
from shared.domain.states import FINAL, PARK, REPLAY, State
from shared.domain.waits import RECEIVE_LIMIT
from shared.domain.writes import Write
from shared.errors import EnvironmentalFailure, TransientFailure
from shared.jobs import Catalogue, JobType
from shared.operations.redrive import OperatorPorts, replay
from shared.operations.relay import OutboxRecord, RelayPorts, relay
from shared.operations.sweep import SweeperPorts, sweep_dead_letters
from shared.queues import MAX_RECEIVES, QUEUES, Queue
from tests.aws import create_jobs_table
from tests.builders import (
    DAY,
    HOUR,
    NOW,
    RecordedLog,
    RecordedMeter,
    TestClock,
    a_job,
    a_message,
    a_minute_left,
)
from tests.lane import Lane, busy_at_first
from tests.moves import changes_for, seen_for
from tests.world import Handler, OneType, Order, World, raising

LANES = ("exports.month-end", "webhooks.partner-a")


STANDARD, FIFO = QUEUES["exports.month-end"], QUEUES["webhooks.partner-a"]


RECEIVES = 10


@dataclass
class Throttled:
    """A lane on moto whose worker is never invoked: SQS moves a message away after ten receives."""

    queue: Queue

    def __post_init__(self) -> None:
        self.sqs = boto3.client("sqs", region_name="eu-west-1")
        dynamodb = boto3.client("dynamodb", region_name="eu-west-1")
        create_jobs_table(dynamodb, "jobs")
        self.store, self.clock, self.log = DynamoJobStore(dynamodb, "jobs"), TestClock(), RecordedLog()
        kind = {"FifoQueue": "true"} if self.queue.fifo else {}
        dlq = self.sqs.create_queue(QueueName=self.queue.dead_letter_name("hf"), Attributes=kind)["QueueUrl"]
        arn = self.sqs.get_queue_attributes(QueueUrl=dlq, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        policy = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": RECEIVES})}
        name = self.queue.physical_name("hf")
        self.url = self.sqs.create_queue(QueueName=name, Attributes=kind | policy)["QueueUrl"]

    def relay(self, job_id: str) -> None:
        job = self.store.get(job_id)
        doorbell = SqsDoorbell(self.sqs, "hf", "parked")
        ports = RelayPorts(
            store=self.store, doorbell=doorbell, clock=self.clock, log=self.log, queues=QUEUES, time_left=a_minute_left
        )
        relay([OutboxRecord({}, job)], ports)

    def receive(self) -> int:
        """A poll whose invocation is throttled: the message is taken and shows again."""
        got = self.sqs.receive_message(QueueUrl=self.url, VisibilityTimeout=0).get("Messages", [])
        return len(got)

    def sweep(self) -> list[tuple[str, bool]]:
        letters = SqsDeadLetters(self.sqs, "hf", self.log)
        ports = SweeperPorts(
            store=self.store,
            dead_letters=letters,
            clock=self.clock,
            log=self.log,
            meter=RecordedMeter(),
            queues={self.queue.name: self.queue},
        )
        return [(one.invariant, one.done) for one in sweep_dead_letters(self.queue, ports)]


@pytest.fixture(params=[STANDARD, FIFO], ids=["standard", "fifo"])
def throttled(request: pytest.FixtureRequest) -> Iterator[Throttled]:
    with mock_aws():
        yield Throttled(request.param)


def most_receives(world: World, attempts: int) -> int:
    """The highest receive count of any message of one job, from its submit to its end; every wait ends by itself."""
    job = a_job(max_attempts=attempts, queue=world.queue, deadline_at=NOW + timedelta(hours=2))
    message, receives, most = world.submitted(job), 1, 1
    while world.deliver(replace(message, receives=receives)) not in (Outcome.DEAD, Outcome.EXPIRED, Outcome.STALE):
        fresh = world.when_due(message)
        receives = 1 if fresh.message_id != message.message_id else receives + 1
        message, most = fresh, max(most, receives)
    assert world.found(message).state in FINAL
    return most


def always(kind: type[Exception]) -> Handler:
    """A fresh error each time: one raised again and again drags all its tracebacks along."""

    def handler(payload: Order, run: Any) -> None:
        raise kind("x")

    return handler


ENDINGS: dict[str, Handler] = {
    "transient": always(TransientFailure),
    "environmental": always(EnvironmentalFailure),
    "defers": lambda payload, run: Defer(timedelta(seconds=50)),
}


@dataclass
class TwoTypes:
    """Two types of one lane, which differ in how often they are tried."""

    world: World

    def get(self, name: str) -> JobType | None:
        tries = {"export-twice": 2, "export-eight-times": 8}[name]
        policy = RetryPolicy((timedelta(), *[timedelta(seconds=1)] * (tries - 1)), spread=timedelta())
        found = OneType(self.world.handler, policy=policy).get("invoice-export")
        return found and replace(found, name=name)


@pytest.mark.parametrize("queue", LANES)
@pytest.mark.parametrize("waiting", [False, True], ids=["queued", "retrying"])
def test_a_message_moved_away_while_the_table_may_have_been_gone_is_rung_anew_and_its_job_runs(
    queue: str, waiting: bool
) -> None:
    lane = Lane(World(queue=queue, handler=busy_at_first(set()) if waiting else lambda payload, run: None))
    job = lane.submit()
    lane.until(lambda: lane.found(job).state is (State.RETRYING if waiting else State.QUEUED))
    lane.without_table(3 * DAY + HOUR)
    lane.moved_away(job)
    repair = "redispatch" if waiting else "ring-again"
    assert [(one.invariant, one.repair) for one in lane.sweep_dead_letters()] == [("parked-by-sqs", repair)]
    assert lane.dead.messages == {}
    lane.until(lambda: lane.found(job).state is State.COMPLETED)


@pytest.mark.parametrize("queue", LANES)
def test_a_message_moved_away_sooner_than_an_absent_table_could_do_it_parks_its_job(queue: str) -> None:
    lane = Lane(World(queue=queue))
    job = lane.submit()
    lane.throttled(job, lane.queue.max_receives + 1)
    lane.for_(2 * DAY)
    assert [(one.repair, one.done) for one in lane.sweep_dead_letters()] == [("park", True)]
    assert lane.found(job).error_class == FailureClass.NEVER_RAN


@pytest.mark.parametrize("queue", LANES)
def test_a_job_that_no_worker_could_start_in_its_whole_age_is_parked_however_long_that_took(queue: str) -> None:
    lane = Lane(World(queue=queue))
    job = lane.submit(deadline_at=NOW + 4 * DAY)
    lane.throttled(job, lane.queue.max_receives + 1)
    lane.for_(5 * DAY)
    assert [one.repair for one in lane.sweep_dead_letters()] == ["park"]


def test_a_waiting_job_whose_message_was_moved_away_is_rung_once_its_wait_is_over_and_not_before() -> None:
    lane = Lane(World(queue="webhooks.partner-a"))

    def waits_for_days(payload: Any, run: Any) -> None:
        if run.attempt == 1:
            raise TransientFailure("busy", retry_after=5 * 24 * 3600)

    lane.world.handler = waits_for_days
    job = lane.submit()
    lane.for_(4 * DAY)
    lane.moved_away(job)
    assert lane.sweep_dead_letters() == []
    lane.for_(DAY + HOUR)
    assert [one.repair for one in lane.sweep_dead_letters()] == ["redispatch"]
    lane.until(lambda: lane.found(job).state is State.COMPLETED)


def test_ten_receives_without_an_invocation_spend_no_attempt_and_what_sqs_moved_is_parked_and_replayed(
    throttled: Throttled,
) -> None:
    """SCENARIOS 9, on the real adapters; SQS's part is moto's."""
    job = a_job(queue=throttled.queue.name, ordering_key="k" if throttled.queue.fifo else None)
    throttled.store.submit(job, NOW)
    throttled.relay(job.job_id)
    assert [throttled.receive() for _ in range(RECEIVES + 1)] == [1] * RECEIVES + [0]
    found = throttled.store.get(job.job_id)
    assert found is not None
    assert (found.state, found.attempts, found.run) == (State.QUEUED, 0, 0)
    assert throttled.sweep() == [("parked-by-sqs", True)]
    parked = throttled.store.get(job.job_id)
    assert parked is not None
    assert (parked.state, parked.attempts, parked.error_class) == (State.DEAD, 0, FailureClass.NEVER_RAN)
    throttled.relay(job.job_id)
    assert throttled.sweep() == [], "the marked copy in its place tells the truth"
    replay(job.job_id, "ada", "over", OperatorPorts(store=throttled.store, clock=throttled.clock, log=throttled.log))
    throttled.relay(job.job_id)
    assert throttled.receive() == 1


@settings(deadline=None, max_examples=60)
@given(
    lane=st.sampled_from(sorted(QUEUES)),
    waits=st.lists(st.integers(0, 600), max_size=MOST_ATTEMPTS - 1),
    fails=st.sampled_from(sorted(ENDINGS)),
)
def test_no_policy_that_can_be_declared_lets_sqs_move_a_message_first_on_any_lane(
    lane: str, waits: list[int], fails: str
) -> None:
    """SCENARIOS 10 and 17. A job ends by its own policy, its deadline, or our own hand, each with its reason."""
    delays = (timedelta(), *(timedelta(seconds=seconds) for seconds in waits))
    policy = RetryPolicy(delays, environmental=(timedelta(seconds=1), timedelta(minutes=1)), spread=timedelta())
    world = World(handler=ENDINGS[fails], policy=policy, queue=lane)
    assert most_receives(world, policy.max_attempts) < QUEUES[lane].max_receives


def test_types_of_two_and_of_eight_attempts_in_one_batch_each_get_all_of_theirs() -> None:
    """SCENARIOS 17. The queue has one receive count for both; the record counts for each."""
    world = World(handler=always(TransientFailure))
    world.catalogue = TwoTypes(world)
    jobs = [a_job(type="export-twice", max_attempts=2), a_job(type="export-eight-times", max_attempts=8)]
    kept = messages = [world.submitted(job) for job in jobs]
    for receives in range(1, 20):
        ids = world.run_batch(*[replace(message, receives=receives) for message in kept])
        kept = [message for message in kept if message.message_id in ids]
        world.clock.forward(timedelta(seconds=1))
        if not kept:
            break
    assert receives == 8
    found = [world.found(message) for message in messages]
    assert [(job.state, job.attempts, job.error_class) for job in found] == [
        (State.DEAD, 2, FailureClass.TRANSIENT),
        (State.DEAD, 8, FailureClass.TRANSIENT),
    ]


def test_every_job_type_of_the_catalogue_is_tried_less_often_than_sqs_delivers() -> None:
    """SCENARIOS 10."""
    for name, job_type in Catalogue().all().items():
        assert job_type.policy.max_attempts < job_type.queue.max_receives, name


def test_what_sqs_moved_away_before_any_worker_ran_it_is_parked_with_no_attempt_and_can_be_replayed() -> None:
    """SCENARIOS 9."""
    world = World()
    message = world.submitted(a_job())
    parked = world.store.apply(message.job_id, Write(PARK, seen_for(world.found(message)), changes_for(PARK)))
    assert (parked.state, parked.attempts, parked.outbox) == (State.DEAD, 0, "open")
    assert world.deliver(message) is Outcome.STALE, "the copy that SQS moved is no replay: it bears no mark"
    replayed = world.store.apply(message.job_id, Write(REPLAY, seen_for(parked), changes_for(REPLAY)))
    assert world.deliver(a_message(replayed)) is Outcome.COMPLETED


@pytest.mark.parametrize("attempts", [2, 8, 50])
def test_sqs_never_moves_a_message_before_the_policy_of_its_type_is_used_up(attempts: int) -> None:
    """SCENARIOS 17. Types of any number of attempts share a queue, whose receive count knows nothing of them."""
    policy = RetryPolicy((timedelta(), *[timedelta(seconds=1)] * (attempts - 1)), spread=timedelta())
    world = World(handler=raising(TransientFailure("x")), policy=policy)
    message, receives, most = world.submitted(a_job(max_attempts=attempts)), 1, 1
    while world.deliver(replace(message, receives=receives)) is not Outcome.DEAD:
        fresh = world.when_due(message)
        receives = 1 if fresh.message_id != message.message_id else receives + 1
        message, most = fresh, max(most, receives)
    assert world.found(message).attempts == attempts
    assert most <= RECEIVE_LIMIT + 2 < MAX_RECEIVES


def test_a_doorbell_that_sqs_moved_away_and_an_operator_redrove_runs_its_job() -> None:
    """StartMessageMoveTask gives it a new message id and a receive count from one; body and dispatch stay."""
    world = World()
    message = world.submitted(a_job())
    assert world.deliver(replace(message, message_id="redriven", receives=1)) is Outcome.COMPLETED
    assert world.deliver(message) is Outcome.STALE
