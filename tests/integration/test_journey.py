"""submit → table → stream → relay → SQS → worker → record, every part real, AWS as moto plays it.

moto has neither event source mappings nor (with this SDK) streams: the test carries records and messages in the form
Lambda would. The stream itself is the end-to-end tests' business.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import boto3
import pytest
from moto import mock_aws

from lambdas.relay.parse import outbox_record
from shared.adapters.dynamodb import DynamoJobStore
from shared.adapters.sqs import SqsDoorbell, SqsMailbox, message_of
from shared.domain.job import Job
from shared.domain.states import State
from shared.errors import DeterministicFailure, RingRefused
from shared.operations.relay import RelayPorts, relay
from shared.operations.run import run_batch
from shared.operations.submit import JobRequest, submit
from shared.queues import QUEUES
from tests.aws import create_jobs_table
from tests.builders import NOW, RecordedLog, TestClock, a_minute_left
from tests.world import OneType, World

QUEUE = QUEUES["exports.month-end"]


@dataclass
class Cloud:
    """One lane in moto, and a clock the test moves (SQS's own is not moved: waits are set to 0 by hand)."""

    handler: Any = lambda payload, run: None
    clock: TestClock = field(default_factory=TestClock)
    log: RecordedLog = field(default_factory=RecordedLog)

    def __post_init__(self) -> None:
        self.sqs = boto3.client("sqs", region_name="eu-west-1")
        self.dynamodb = boto3.client("dynamodb", region_name="eu-west-1")
        create_jobs_table(self.dynamodb, "jobs")
        for name in ("parked", QUEUE.physical_name("hf"), QUEUE.dead_letter_name("hf")):
            self.sqs.create_queue(QueueName=name)
        self.store = DynamoJobStore(self.dynamodb, "jobs")

    def submit(self, **fields: Any) -> Job:
        request = JobRequest(type="invoice-export", payload={"tenantId": "acme-eu", "month": "2026-05"}, **fields)
        return submit(
            request, catalogue=OneType(self.handler), store=self.store, now=self.clock.now(), entropy=bytes(10)
        ).job

    def stream(self) -> list[dict[str, Any]]:
        """What the event source would hand the relay: images that pass its filter, in Lambda's form."""
        items = self.dynamodb.scan(TableName="jobs")["Items"]
        return [as_lambda_would(i) for i in items if i.get("outbox") == {"S": "open"} and i["sk"] == {"S": "JOB"}]

    def relay(self) -> int:
        records = [outbox_record(record) for record in self.stream()]
        relay(
            records,
            RelayPorts(
                store=self.store,
                doorbell=SqsDoorbell(self.sqs, "hf", "parked"),
                clock=self.clock,
                log=self.log,
                queues=QUEUES,
                time_left=a_minute_left,
            ),
        )
        return len(records)

    def receive(self, name: str) -> list[Any]:
        url = self.sqs.get_queue_url(QueueName=name)["QueueUrl"]
        answer = self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"])
        return answer.get("Messages", [])

    def work(self) -> int:
        """One batch, acknowledged as the event source would; what stays is made visible at once."""
        url = self.sqs.get_queue_url(QueueName=QUEUE.physical_name("hf"))["QueueUrl"]
        messages = [
            message_of(
                {
                    "messageId": m["MessageId"],
                    "receiptHandle": m["ReceiptHandle"],
                    "body": m["Body"],
                    "attributes": m["Attributes"],
                }
            )
            for m in self.receive(QUEUE.physical_name("hf"))
        ]
        mailbox = SqsMailbox(self.sqs, "hf", QUEUE, self.log)
        world = World(handler=self.handler, store=self.store, mailbox=mailbox, clock=self.clock, log=self.log)  # type: ignore[arg-type]
        ports = replace(world.ports, token=lambda: f"token-{self.clock.now().timestamp()}")
        lane = replace(world.lane, queue=replace(QUEUE, parallelism=1))  # moto is not thread-safe
        kept = run_batch(messages, ports, lane, lambda: world.time_left)
        for message in messages:
            if message.message_id in kept:
                mailbox.hide([message], [timedelta()])
            else:
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message.receipt)
        return len(messages)

    def job(self, job_id: str) -> Job:
        found = self.store.get(job_id)
        assert found is not None
        return found


def as_lambda_would(image: dict[str, Any]) -> dict[str, Any]:
    """A stream record; binary values are base64 text in Lambda's events."""
    fingerprint = base64.b64encode(image["fingerprint"]["B"]).decode()
    return {"eventName": "MODIFY", "dynamodb": {"NewImage": image | {"fingerprint": {"B": fingerprint}}}}


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with mock_aws():
        yield Cloud()


def test_a_job_travels_from_the_door_to_completed(cloud: Cloud) -> None:
    job = cloud.submit()
    assert cloud.relay() == 1
    assert cloud.job(job.job_id).published_at == NOW
    assert cloud.work() == 1
    assert cloud.job(job.job_id).state is State.COMPLETED
    assert cloud.work() == 0


def test_a_dead_job_leaves_one_marked_copy_in_the_dlq_and_nothing_in_the_queue(cloud: Cloud) -> None:
    def broken(payload: Any, run: Any) -> None:
        raise DeterministicFailure("row 3: net is no number", code="csv-row-invalid")

    cloud.handler = broken
    job = cloud.submit()
    cloud.relay()
    cloud.work()
    assert cloud.job(job.job_id).state is State.DEAD
    assert cloud.relay() == 1
    (copy,) = cloud.receive(QUEUE.dead_letter_name("hf"))
    assert job.job_id in copy["Body"]
    assert cloud.job(job.job_id).outbox is None
    assert cloud.work() == 0


def test_the_aws_native_redrive_of_a_marked_copy_is_a_replay_that_runs(cloud: Cloud) -> None:
    """StartMessageMoveTask gives body and attributes a new message id; here the move is made by hand."""
    failing = [True]

    def handler(payload: Any, run: Any) -> None:
        if failing[0]:
            raise DeterministicFailure("not yet")

    cloud.handler = handler
    job = cloud.submit()
    cloud.relay()
    cloud.work()
    cloud.relay()
    failing[0] = False
    (copy,) = cloud.receive(QUEUE.dead_letter_name("hf"))
    url = cloud.sqs.get_queue_url(QueueName=QUEUE.physical_name("hf"))["QueueUrl"]
    cloud.sqs.send_message(QueueUrl=url, MessageBody=copy["Body"])
    assert cloud.work() == 1
    assert cloud.job(job.job_id).state is State.QUEUED
    assert cloud.relay() == 1
    assert cloud.work() == 1
    assert (cloud.job(job.job_id).state, cloud.job(job.job_id).attempts) == (State.COMPLETED, 1)


def test_a_relay_that_dies_after_sending_makes_a_duplicate_that_runs_nothing(cloud: Cloud) -> None:
    ran = []
    cloud.handler = lambda payload, run: ran.append(run.job_id)
    cloud.submit()
    records = [outbox_record(r) for r in cloud.stream()]
    doorbell = SqsDoorbell(cloud.sqs, "hf", "parked")
    for _ in range(2):
        relay(
            records,
            RelayPorts(
                store=cloud.store,
                doorbell=doorbell,
                clock=cloud.clock,
                log=cloud.log,
                queues=QUEUES,
                time_left=a_minute_left,
            ),
        )
    while cloud.work():
        pass
    assert len(ran) == 1


def test_a_stream_record_that_shows_no_job_is_parked_whole(cloud: Cloud) -> None:
    cloud.submit()
    (record,) = cloud.stream()
    record["dynamodb"]["NewImage"]["run"] = {"S": "seven"}
    doorbell = SqsDoorbell(cloud.sqs, "hf", "parked")
    ports = RelayPorts(
        store=cloud.store, doorbell=doorbell, clock=cloud.clock, log=cloud.log, queues=QUEUES, time_left=a_minute_left
    )
    image = record["dynamodb"]["NewImage"]
    far_off = {"dynamodb": {"NewImage": image | {"run": {"N": "0"}, "run_at": {"N": "9" * 30}}}}
    no_base64 = {"dynamodb": {"NewImage": {"fingerprint": {"B": "%"}}}}
    for poison in (record, far_off, {"eventName": "REMOVE", "dynamodb": {}}, no_base64):
        relay([outbox_record(poison)], ports)
    parked = cloud.receive("parked")
    assert len(parked) == 4
    assert any("attribute 'run' is no int" in m["Body"] for m in parked)
    with pytest.raises(RingRefused):
        relay([outbox_record({})], replace(ports, doorbell=SqsDoorbell(cloud.sqs, "hf", "gone")))
