"""Doorbell and mailbox on SQS as moto plays it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from shared.adapters.sqs import SqsDeadLetters, SqsDoorbell, SqsMailbox, message_of
from shared.domain.doorbell import Bell
from shared.errors import RingRefused
from shared.ports import Ring
from shared.queues import QUEUES, Queue
from tests.builders import BELL, NOW, RecordedLog, a_job, a_message

STANDARD, FIFO = QUEUES["exports.month-end"], QUEUES["webhooks.partner-a"]


@pytest.fixture
def sqs() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("sqs", region_name="eu-west-1")
        client.create_queue(QueueName="parked")
        for queue in (STANDARD, FIFO):
            for name in (queue.physical_name("hf"), queue.dead_letter_name("hf")):
                client.create_queue(QueueName=name, Attributes={"FifoQueue": "true"} if queue.fifo else {})
        yield client


def a_ring(**fields: Any) -> Ring:
    """Fields of its bell or of the ring."""
    said = {"job_id": a_job().job_id, "dispatch": 1, "type": "invoice-export", "payload_version": 1}
    bell = Bell(**(said | {name: fields.pop(name) for name in list(fields) if name in BELL}))
    return Ring(**({"bell": bell, "group": "acme-eu"} | fields))


def received(sqs: Any, name: str) -> list[Any]:
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    answer = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"], MessageAttributeNames=["All"]
    )
    return answer.get("Messages", [])


def as_event(message: Any) -> dict[str, Any]:
    """The record an event source mapping makes of a received message."""
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
    }


@pytest.mark.parametrize("queue", [STANDARD, FIFO], ids=lambda q: q.name)
def test_what_the_relay_rings_the_worker_reads(sqs: Any, queue: Queue) -> None:
    ring = a_ring()
    assert SqsDoorbell(sqs, "hf", "parked").ring(queue, [ring]) == []
    (message,) = [message_of(as_event(m)) for m in received(sqs, queue.physical_name("hf"))]
    assert (message.bell, message.receives) == (ring.bell, 1)
    assert message.group == "acme-eu"


def test_a_dead_letter_is_a_marked_copy_in_the_dlq_with_its_story_in_the_attributes(sqs: Any) -> None:
    ring = a_ring(dead_letter=True, attributes={"error_code": "csv-row-invalid", "attempts": "1"})
    SqsDoorbell(sqs, "hf", "parked").ring(STANDARD, [ring])
    (copy,) = received(sqs, STANDARD.dead_letter_name("hf"))
    bell = message_of(as_event(copy)).bell
    assert bell is not None
    assert bell.dead_letter
    assert copy["MessageAttributes"]["error_code"]["StringValue"] == "csv-row-invalid"
    assert received(sqs, STANDARD.physical_name("hf")) == []


def test_a_delay_is_given_to_sqs_on_a_standard_lane(sqs: Any) -> None:
    SqsDoorbell(sqs, "hf", "parked").ring(STANDARD, [a_ring(delay=timedelta(minutes=2))])
    assert received(sqs, STANDARD.physical_name("hf")) == []


def test_a_repeated_ring_of_a_fifo_lane_is_swallowed_and_a_repair_is_not(sqs: Any) -> None:
    doorbell, ring = SqsDoorbell(sqs, "hf", "parked"), a_ring()
    for again in (ring, ring, replace(ring, rung_at=NOW)):
        doorbell.ring(FIFO, [again])
    url = sqs.get_queue_url(QueueName=FIFO.physical_name("hf"))["QueueUrl"]
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])["Attributes"]
    assert counts["ApproximateNumberOfMessages"] == "2"


def test_entries_that_a_batch_refuses_are_returned_each_with_its_reason() -> None:
    client = boto3.client("sqs", region_name="eu-west-1", aws_access_key_id="t", aws_secret_access_key="t")
    rings = [a_ring(), a_ring(), a_ring(), a_ring()]
    with Stubber(client) as stub:
        stub.add_response("get_queue_url", {"QueueUrl": "http://127.0.0.1/q"})
        failed = [
            {"Id": "1", "SenderFault": False, "Code": "InternalError", "Message": "again"},
            {"Id": "2", "SenderFault": True, "Code": "InvalidMessageContents"},
            {"Id": "3", "SenderFault": True, "Code": "RequestThrottled"},
        ]
        stub.add_response("send_message_batch", {"Successful": [], "Failed": failed})
        unsent = SqsDoorbell(client, "hf", "parked").ring(STANDARD, rings)
    assert [(u.ring, u.hopeless) for u in unsent] == [(rings[1], False), (rings[2], True), (rings[3], False)]


@pytest.mark.parametrize(("entries", "hopeless"), [(1, True), (2, False)])
def test_a_call_refused_for_its_content_is_hopeless_once_the_entry_stood_alone(entries: int, hopeless: bool) -> None:
    client = boto3.client("sqs", region_name="eu-west-1", aws_access_key_id="t", aws_secret_access_key="t")
    with Stubber(client) as stub:
        stub.add_response("get_queue_url", {"QueueUrl": "http://127.0.0.1/q"})
        stub.add_client_error("send_message_batch", "InvalidParameterValue")
        unsent = SqsDoorbell(client, "hf", "parked").ring(STANDARD, [a_ring() for _ in range(entries)])
    assert {u.hopeless for u in unsent} == {hopeless}


def test_a_call_that_fails_as_a_whole_leaves_every_entry_unsent(sqs: Any) -> None:
    unsent = SqsDoorbell(sqs, "no-such-stage", "parked").ring(STANDARD, [a_ring(), a_ring()])
    assert len(unsent) == 2
    assert not any(u.hopeless for u in unsent)
    assert "NonExistentQueue" in unsent[0].why or "QueueDoesNotExist" in unsent[0].why


def test_a_parked_record_is_kept_whole_with_the_reason(sqs: Any) -> None:
    SqsDoorbell(sqs, "hf", "parked").park({"eventID": "1", "dynamodb": {"NewImage": {"x": {"B": b"1"}}}}, "no image")
    (message,) = received(sqs, "parked")
    assert json.loads(message["Body"])["why"] == "no image"
    assert json.loads(message["Body"])["record"]["eventID"] == "1"
    with pytest.raises(RingRefused):
        SqsDoorbell(sqs, "hf", "gone").park({}, "x")


def test_a_hidden_message_comes_back_when_told_and_not_before(sqs: Any) -> None:
    log = RecordedLog()
    mailbox = SqsMailbox(sqs, "hf", STANDARD, log)
    SqsDoorbell(sqs, "hf", "parked").ring(STANDARD, [a_ring()])
    (message,) = [message_of(as_event(m)) for m in received(sqs, STANDARD.physical_name("hf"))]
    mailbox.hide([message], [timedelta(minutes=5)])
    assert received(sqs, STANDARD.physical_name("hf")) == []
    mailbox.hide([message], [timedelta()])
    (again,) = [message_of(as_event(m)) for m in received(sqs, STANDARD.physical_name("hf"))]
    assert again.receives == 2
    assert log.lines == []


def test_a_visibility_beyond_what_sqs_grants_is_cut_before_sqs_refuses_it() -> None:
    client = boto3.client("sqs", region_name="eu-west-1", aws_access_key_id="t", aws_secret_access_key="t")
    message = a_message(a_job())
    with Stubber(client) as stub:
        stub.add_response("get_queue_url", {"QueueUrl": "http://127.0.0.1/q"})
        entries = [{"Id": "0", "ReceiptHandle": message.receipt, "VisibilityTimeout": 12 * 3600 - 960}]
        expected = {"QueueUrl": "http://127.0.0.1/q", "Entries": entries}
        stub.add_response("change_message_visibility_batch", {"Successful": [], "Failed": []}, expected)
        SqsMailbox(client, "hf", STANDARD, RecordedLog()).hide([message], [timedelta(days=2)])


def test_a_wait_is_rounded_up_and_more_than_ten_go_in_batches_of_ten() -> None:
    client = boto3.client("sqs", region_name="eu-west-1", aws_access_key_id="t", aws_secret_access_key="t")
    messages = [a_message(a_job()) for _ in range(11)]
    with Stubber(client) as stub:
        stub.add_response("get_queue_url", {"QueueUrl": "http://127.0.0.1/q"})
        for some in (messages[:10], messages[10:]):
            entries = [{"Id": str(n), "ReceiptHandle": m.receipt, "VisibilityTimeout": 2} for n, m in enumerate(some)]
            expected = {"QueueUrl": "http://127.0.0.1/q", "Entries": entries}
            stub.add_response("change_message_visibility_batch", {"Successful": [], "Failed": []}, expected)
        SqsMailbox(client, "hf", STANDARD, RecordedLog()).hide(messages, [timedelta(seconds=1.001)] * 11)
        stub.assert_no_pending_responses()


def test_acknowledged_messages_are_gone(sqs: Any) -> None:
    SqsDoorbell(sqs, "hf", "parked").ring(STANDARD, [a_ring(), a_ring()])
    messages = [message_of(as_event(m)) for m in received(sqs, STANDARD.physical_name("hf"))]
    log = RecordedLog()
    mailbox = SqsMailbox(sqs, "hf", STANDARD, log)
    mailbox.acknowledge(messages)
    mailbox.hide(messages, [timedelta()] * 2)
    assert received(sqs, STANDARD.physical_name("hf")) == []


def test_a_visibility_that_cannot_be_set_is_said_and_costs_nothing_else(sqs: Any) -> None:
    log = RecordedLog()
    SqsMailbox(sqs, "no-such-stage", STANDARD, log).hide([a_message(a_job())], [timedelta()])
    assert log.names() == ["visibility-not-set"]


@pytest.mark.parametrize("queue", [STANDARD, FIFO], ids=lambda q: q.name)
def test_an_orphan_is_copied_to_the_dlq_with_the_reason(sqs: Any, queue: Queue) -> None:
    message = a_message(a_job(), body="hello", group="g")
    SqsMailbox(sqs, "hf", queue, RecordedLog()).set_aside(message, "its body is no doorbell")
    (copy,) = received(sqs, queue.dead_letter_name("hf"))
    assert copy["Body"] == "hello"
    assert copy["MessageAttributes"]["why"]["StringValue"] == "its body is no doorbell"


@pytest.mark.parametrize("queue", [STANDARD, FIFO], ids=["standard", "fifo"])
def test_a_sweep_sees_each_dlq_message_once_and_what_it_deletes_is_gone(sqs: Any, queue: Queue) -> None:
    doorbell, letters = SqsDoorbell(sqs, "hf", "parked"), SqsDeadLetters(sqs, "hf", RecordedLog())
    assert letters.receive(queue) == []
    rings = [a_ring(dead_letter=True, dispatch=n, group=f"g{n}" if queue.fifo else None) for n in (1, 2)]
    assert doorbell.ring(queue, rings) == []
    seen = letters.receive(queue)
    assert sorted((m.bell.dispatch, m.bell.dead_letter) for m in seen if m.bell is not None) == [(1, True), (2, True)]
    assert letters.receive(queue) == [], "hidden from the rest of this look"
    letters.delete(queue, [m for m in seen if m.bell is not None and m.bell.dispatch == 1])
    for message in seen:
        if message.bell.dispatch == 2:
            url = sqs.get_queue_url(QueueName=queue.dead_letter_name("hf"))["QueueUrl"]
            sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message.receipt, VisibilityTimeout=0)
    assert [m.bell.dispatch for m in letters.receive(queue)] == [2]


def test_a_suspects_doorbell_arrives_as_one(sqs: Any) -> None:
    assert SqsDoorbell(sqs, "hf", "parked").ring(STANDARD, [a_ring(suspect=True)]) == []
    (message,) = received(sqs, STANDARD.physical_name("hf"))
    bell = message_of(as_event(message)).bell
    assert bell is not None
    assert bell.suspect


def test_what_sqs_did_not_hide_is_named_beyond_the_first_ten_too() -> None:
    client = boto3.client("sqs", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x")
    messages = [a_message(a_job()) for _ in range(12)]
    with Stubber(client) as stub:
        stub.add_response("get_queue_url", {"QueueUrl": "https://sqs/q"})
        done = [{"Id": str(n)} for n in range(10)]
        stub.add_response("change_message_visibility_batch", {"Successful": done, "Failed": []})
        failed = [{"Id": "1", "Code": "InternalError", "SenderFault": False}]
        stub.add_response("change_message_visibility_batch", {"Successful": [{"Id": "0"}], "Failed": failed})
        mailbox = SqsMailbox(client, "hf", STANDARD, RecordedLog())
        assert mailbox.hide(messages, [timedelta(seconds=33)] * 12) == [messages[11]]


def test_orphans_in_a_fifo_dlq_stand_in_groups_of_their_own(sqs: Any) -> None:
    """Ten of one group, looked at and kept by a sweep, would hide what lies behind them."""
    mailbox = SqsMailbox(sqs, "hf", FIFO, RecordedLog())
    for n in range(2):
        mailbox.set_aside(a_message(a_job(), group="k", message_id=f"m{n}"), "no job has this id")
    lying = received(sqs, FIFO.dead_letter_name("hf"))
    assert len({m["Attributes"]["MessageGroupId"] for m in lying}) == 2
