"""What happens to one job of a batch happens to no other."""

from __future__ import annotations

import asyncio
import base64
import importlib
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import ModuleType
from typing import Any

import boto3
import pytest
from moto import mock_aws

from shared.adapters.dynamodb import DynamoJobStore
from shared.adapters.system import SystemClock
from shared.adapters.wire import to_item
from shared.domain.job import Job
from shared.domain.outcome import Outcome
from shared.domain.states import (
    State,
)
from shared.domain.writes import Write
from shared.errors import (
    StoreUnavailable,
    TransientFailure,
)
from shared.operations.run import Lane
from shared.queues import QUEUES
from shared.settings import RelaySettings, WorkerSettings
from tests.aws import create_jobs_table
from tests.builders import MINUTE, a_job, a_message
from tests.world import OneType, Order, World, raising, refuse_to_run

QUEUE = QUEUES["exports.month-end"]


SAID = {"stage": "test", "prefix": "hf", "jobs_table": "jobs", "code_version": "abc"}


AWS = {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


class Invocation:
    """Lambda's context, what of it is used."""

    aws_request_id = "request-1"

    def get_remaining_time_in_millis(self) -> int:
        return QUEUE.function_timeout.seconds * 1000


@dataclass
class Warm:
    """One warm worker and one warm relay, on moto."""

    worker: ModuleType
    relay: ModuleType
    store: DynamoJobStore
    sqs: Any
    ran: list[str] = field(default_factory=list)

    def handler(self, payload: Order, run: Any) -> None:
        self.ran.append(run.job_id)
        if run.tenant == "bad":
            raise TransientFailure("busy")

    def submitted(self, **fields: Any) -> Job:
        now = SystemClock().now()
        times = {"created_at": now, "run_at": now, "available_at": now, "deadline_at": now + 60 * MINUTE}
        job = a_job(**(times | fields))
        self.store.submit(job, now)
        return job

    def work(self, *jobs: Job) -> list[str]:
        """One invocation with a message each; the ids of the jobs whose messages are kept. A raise is a function
        error, which would bring the whole batch back.
        """
        messages = [a_message(job) for job in jobs]
        records = [
            {
                "messageId": message.message_id,
                "receiptHandle": message.receipt,
                "body": message.body,
                "attributes": {"ApproximateReceiveCount": "1"},
            }
            for message in messages
        ]
        answer = self.worker.handler({"Records": records}, Invocation())
        assert set(answer) == {"batchItemFailures"}
        kept = [one["itemIdentifier"] for one in answer["batchItemFailures"]]
        return [message.job_id for message in messages if message.message_id in kept]

    def state(self, job: Job) -> State:
        found = self.store.get(job.job_id)
        assert found is not None
        return found.state

    def count(self, queue: str) -> int:
        url = self.sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        said = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
        return int(said["Attributes"]["ApproximateNumberOfMessages"])


def imported(name: str) -> ModuleType:
    sys.modules.pop(name, None)
    return importlib.import_module(name)


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Warm]:
    worker = WorkerSettings(**SAID, queue=QUEUE.name, bucket="files", controls_table="controls").to_environment()
    relay = RelaySettings(**SAID, parked_queue="parked").to_environment()
    for name, value in (AWS | worker | relay).items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        dynamodb, sqs = boto3.client("dynamodb"), boto3.client("sqs")
        create_jobs_table(dynamodb, "jobs")
        for name in ("parked", QUEUE.physical_name("hf"), QUEUE.dead_letter_name("hf")):
            sqs.create_queue(QueueName=name)
        modules = imported("lambdas.worker.handler"), imported("lambdas.relay.handler")
        warm = Warm(*modules, DynamoJobStore(dynamodb, "jobs"), sqs)
        # moto is not thread-safe, so one at a time
        monkeypatch.setattr(warm.worker, "LANE", Lane(replace(QUEUE, parallelism=1), OneType(warm.handler)))
        monkeypatch.setattr(warm.relay, "PORTS", replace(warm.relay.PORTS, store=OneByOne(warm.store)))
        yield warm


class OneByOne:
    """The table behind a lock: the relay marks in threads."""

    def __init__(self, store: DynamoJobStore) -> None:
        self._store, self._lock = store, threading.Lock()

    def apply(self, job_id: str, write: Write) -> Job:
        with self._lock:
            return self._store.apply(job_id, write)

    def make(self, job_id: str, write: Write) -> None:
        self.apply(job_id, write)


def streamed(item: dict[str, Any]) -> dict[str, Any]:
    """A stream record as Lambda gives it: binary values are base64 text."""
    image = item | {"fingerprint": {"B": base64.b64encode(item["fingerprint"]["B"]).decode()}}
    return {"eventName": "INSERT", "dynamodb": {"NewImage": image}}


def test_a_handler_that_exits_the_process_fails_its_own_job_only() -> None:
    world = World(handler=raising(SystemExit(3)))
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.RETRYING


def test_a_standard_batch_runs_side_by_side() -> None:
    together = threading.Barrier(4, timeout=10)
    world = World(handler=lambda payload, run: together.wait() and None)
    messages = [world.submitted(a_job()) for _ in range(4)]
    assert world.run_batch(*messages) == []


def test_a_table_that_does_not_answer_leaves_the_message_and_raises_nothing() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_job())

    def down(*_: object, **__: object) -> Job:
        raise StoreUnavailable("throttled")

    world.store.apply = down  # type: ignore[method-assign]
    assert world.run_batch(message) == [message.message_id]
    assert "unavailable" in world.log.names()


def test_a_surprise_in_one_delivery_does_not_fail_its_neighbours() -> None:
    world = World()
    odd, fine = world.submitted(a_job()), world.submitted(a_job())
    plain_apply = world.store.apply

    def surprising(job_id: str, write: Write) -> Job:
        if job_id == odd.job_id:
            raise PermissionError("AccessDenied")
        return plain_apply(job_id, write)

    world.store.apply = surprising  # type: ignore[method-assign]
    assert world.run_batch(odd, fine) == [odd.message_id]
    assert world.found(fine).state is State.COMPLETED


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


def test_a_batch_is_measured_once_with_every_outcome() -> None:
    world = World()
    messages = [
        world.submitted(a_job()),
        world.submitted(a_job(state=State.COMPLETED)),
        world.submitted(a_job(type="x")),
    ]
    world.run_batch(*messages)
    assert len(world.meter.batches) == 1
    assert sorted(world.meter.outcomes()) == ["completed", "deferred", "stale"]
    (run,) = [one for _, ended in world.meter.batches for one in ended if one.outcome == "completed"]
    assert (run.attempt, run.ran, run.since_submit) == (1, timedelta(), timedelta())


def test_a_warm_environment_runs_its_second_batch_after_a_first_that_failed() -> None:
    """SCENARIOS 15."""
    world = World(handler=raising(TransientFailure("x")))
    bad = world.submitted(a_job())
    assert world.run_batch(bad) == [bad.message_id]
    world.handler = lambda payload, run: None
    good = world.submitted(a_job())
    assert world.run_batch(good) == []
    assert world.meter.outcomes() == ["retrying", "completed"]


def test_a_warm_environment_processes_its_second_invocation_after_a_first_with_a_failure(warm: Warm) -> None:
    """SCENARIOS 15."""
    bad, good = warm.submitted(tenant="bad"), warm.submitted()
    assert warm.work(bad, good) == [bad.job_id]
    second = [warm.submitted() for _ in range(3)]
    assert warm.work(*second) == []
    assert warm.ran == [bad.job_id, good.job_id, *(job.job_id for job in second)], "each once, none of the first again"
    assert {warm.state(job) for job in second} == {State.COMPLETED}
    assert warm.work(warm.submitted(tenant="bad"), warm.submitted()) != []


def test_a_batch_of_one_record_that_fails_is_a_partial_answer_and_no_function_error(warm: Warm) -> None:
    """SCENARIOS 16. A raise would count against the function, and its retry is no different from the answer's."""
    bad = warm.submitted(tenant="bad")
    assert warm.work(bad) == [bad.job_id]
    assert warm.state(bad) is State.RETRYING


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("payload", ["{", "", "[]", '{"tenantId":7,"month":"2026-05"}', "null"])
def test_a_payload_that_cannot_be_parsed_is_dead_as_deterministic_and_the_rest_of_its_batch_goes_on(
    warm: Warm, monkeypatch: pytest.MonkeyPatch, payload: str, version: int
) -> None:
    """SCENARIOS 7. Version 2: the worker has to upgrade what it cannot even read."""
    types = OneType(warm.handler, version=version, upgrades={1: lambda old: old | {"month": "2026-05"}})
    monkeypatch.setattr(warm.worker, "LANE", replace(warm.worker.LANE, catalogue=types))
    fine = {"payload_version": version}
    batch = [warm.submitted(**fine), warm.submitted(payload=payload), warm.submitted(**fine)]
    assert warm.work(*batch) == []
    assert [warm.state(job) for job in batch] == [State.COMPLETED, State.DEAD, State.COMPLETED]
    found = warm.store.get(batch[1].job_id)
    assert found is not None
    assert (found.error_class, found.attempts) == ("deterministic", 1)
    assert warm.ran == [batch[0].job_id, batch[2].job_id]


def test_a_record_that_nobody_can_read_fails_its_own_message_only(warm: Warm) -> None:
    """SCENARIOS 7. Its message stays, for the worker that can."""
    batch = [warm.submitted(), warm.submitted(), warm.submitted()]
    table = boto3.client("dynamodb")
    odd = to_item(batch[1]) | {"state": {"S": "archived"}}
    table.put_item(TableName="jobs", Item=odd)
    assert warm.work(*batch) == [batch[1].job_id]
    assert [warm.state(job) for job in (batch[0], batch[2])] == [State.COMPLETED] * 2


def test_one_unreadable_outbox_record_among_ninety_nine_is_parked_and_the_shard_goes_on(warm: Warm) -> None:
    """SCENARIOS 21. The relay's own Lambda returns, so the stream hands over what comes next."""
    jobs = [warm.submitted() for _ in range(99)]
    records = [streamed(to_item(job)) for job in jobs]
    poison = streamed(to_item(a_job()) | {"run": {"S": "seven"}})
    assert warm.relay.handler({"Records": [*records[:50], poison, *records[50:]]}, Invocation()) is None
    assert (warm.count(QUEUE.physical_name("hf")), warm.count("parked")) == (99, 1)
    found = [warm.store.get(job.job_id) for job in jobs]
    assert {job.outbox for job in found if job} == {None}
