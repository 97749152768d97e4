"""Doorbells and mailboxes on SQS."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from shared.domain.doorbell import parse
from shared.errors import RingRefused
from shared.ports import Log, Message, Ring, Unsent
from shared.queues import Queue

LONGEST_HIDE = timedelta(hours=12) - timedelta(minutes=16)
"""SQS counts 12 hours from the receive, which may lie a whole invocation back, and refuses more instead of clamping."""

LOOKED_AT = timedelta(minutes=5)
"""A sweep's look at a DLQ message hides it this long, so that each message is seen once per look."""

HOPELESS = frozenset(
    {
        "InvalidMessageContents",
        "InvalidParameterValue",
        "InvalidAttributeValue",
        "InvalidAttributeName",
        "AWS.SimpleQueueService.BatchRequestTooLong",
        "BatchRequestTooLong",
        "MissingParameter",
    }
)
"""Codes that say a message will never be taken. SenderFault does not: SQS blames the sender for being throttled too."""

T = TypeVar("T")


class QueueUrls:
    """URLs by queue name, asked for once: deriving them would tie the code to one partition and to no emulator."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Raises RingRefused when SQS knows no such queue or does not answer."""
        if name not in self._known:
            self._known[name] = _or_refused(lambda: str(self._client.get_queue_url(QueueName=name)["QueueUrl"]))
        return self._known[name]


class SqsDoorbell:
    """Doorbell on SQS. `parked`: name of the queue for records that no relay can read."""

    def __init__(self, client: Any, prefix: str, parked: str) -> None:
        self._client, self._prefix, self._parked = client, prefix, parked
        self._urls = QueueUrls(client)

    def ring(self, queue: Queue, rings: Sequence[Ring]) -> Sequence[Unsent]:
        """See Doorbell. A call that fails as a whole leaves every entry unsent."""
        name = queue.dead_letter_name if rings[0].bell.dead_letter else queue.physical_name
        entries = [{"Id": str(n), **_entry(queue, ring)} for n, ring in enumerate(rings)]
        try:
            url = self._urls.of(name(self._prefix))
            answer = _or_refused(lambda: self._client.send_message_batch(QueueUrl=url, Entries=entries))
        except RingRefused as e:
            alone = len(rings) == 1  # beside others, one of which may be at fault, each gets its try alone first
            return [Unsent(ring, str(e), hopeless=alone and e.code in HOPELESS) for ring in rings]
        return [
            Unsent(rings[int(f["Id"])], f"{f['Code']}: {f.get('Message', '')}", f["Code"] in HOPELESS)
            for f in answer.get("Failed", ())
        ]

    def park(self, record: Mapping[str, Any], why: str) -> None:
        """See Doorbell."""
        url = self._urls.of(self._parked)
        body = json.dumps({"why": why, "record": record}, default=repr)
        _or_refused(lambda: self._client.send_message(QueueUrl=url, MessageBody=body))


class SqsMailbox:
    """Mailbox of one lane's worker."""

    def __init__(self, client: Any, prefix: str, queue: Queue, log: Log) -> None:
        self._client, self._queue, self._log = client, queue, log
        self._name, self._dead_letters = queue.physical_name(prefix), queue.dead_letter_name(prefix)
        self._urls = QueueUrls(client)

    def hide(self, messages: Sequence[Message], for_: Sequence[timedelta]) -> Sequence[Message]:
        """See Mailbox. Rounded up to whole seconds: a message that comes back early costs a receive."""
        pairs, unset = list(zip(messages, for_, strict=True)), list[Message]()
        for start in range(0, len(pairs), 10):
            entries = [
                {"Id": str(n), "ReceiptHandle": message.receipt, "VisibilityTimeout": _seconds(wait)}
                for n, (message, wait) in enumerate(pairs[start : start + 10])
            ]
            failed = self._best_effort("change_message_visibility_batch", "visibility-not-set", entries)
            unset += [messages[start + int(n)] for n in failed]
        return unset

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """See Mailbox."""
        for start in range(0, len(messages), 10):
            entries = [{"Id": str(n), "ReceiptHandle": m.receipt} for n, m in enumerate(messages[start : start + 10])]
            self._best_effort("delete_message_batch", "not-deleted", entries)

    def set_aside(self, message: Message, why: str) -> None:
        """See Mailbox."""
        url = self._urls.of(self._dead_letters)
        # A group of its own: ten orphans of one group, looked at and kept by a sweep, would hide what lies behind them.
        ordered = {"MessageGroupId": message.message_id, "MessageDeduplicationId": message.message_id}
        attributes = {"why": {"DataType": "String", "StringValue": why}}
        _or_refused(
            lambda: self._client.send_message(
                QueueUrl=url,
                MessageBody=message.body,
                MessageAttributes=attributes,
                **(ordered if self._queue.fifo else {}),
            )
        )

    def _best_effort(self, operation: str, said: str, entries: list[dict[str, Any]]) -> list[str]:
        url = lambda: self._urls.of(self._name)  # noqa: E731
        return _best_effort(getattr(self._client, operation), url, entries, said, self._log)


class SqsDeadLetters:
    """DeadLetters on SQS: the DLQ of every lane under one stage's prefix."""

    def __init__(self, client: Any, prefix: str, log: Log) -> None:
        self._client, self._prefix, self._log = client, prefix, log
        self._urls = QueueUrls(client)

    def receive(self, queue: Queue) -> Sequence[Message]:
        """See DeadLetters. Short polling asks some of SQS's servers only, and may miss what is there."""
        url = self._urls.of(queue.dead_letter_name(self._prefix))
        answer = _or_refused(
            lambda: self._client.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=10,
                WaitTimeSeconds=1,
                VisibilityTimeout=_seconds(LOOKED_AT),
                MessageSystemAttributeNames=["All"],
            )
        )
        return [_message(m["MessageId"], m["ReceiptHandle"], m["Body"], m) for m in answer.get("Messages", ())]

    def delete(self, queue: Queue, messages: Sequence[Message]) -> None:
        """See DeadLetters."""
        entries = [{"Id": str(n), "ReceiptHandle": message.receipt} for n, message in enumerate(messages)]
        url = lambda: self._urls.of(queue.dead_letter_name(self._prefix))  # noqa: E731
        _best_effort(self._client.delete_message_batch, url, entries, "not-deleted", self._log)


def _best_effort(
    call: Callable[..., Any], url: Callable[[], str], entries: list[dict[str, Any]], said: str, log: Log
) -> list[str]:
    """One batch call; ids of the entries that SQS did not take."""
    try:
        queue_url = url()
        refused = _or_refused(lambda: call(QueueUrl=queue_url, Entries=entries)).get("Failed", ())
        failed = [f["Id"] for f in refused]
        why = "; ".join(f"{f['Code']}: {f.get('Message', '')}" for f in refused)
    except RingRefused as e:
        failed, why = [entry["Id"] for entry in entries], str(e)
    if why:
        log.event(said, level="warning", why=why)
    return failed


def message_of(record: Mapping[str, Any]) -> Message:
    """The message in one record of an SQS event."""
    attributes = {"Attributes": record.get("attributes", {})}
    return _message(record["messageId"], record["receiptHandle"], record["body"], attributes)


def _message(message_id: str, receipt: str, body: str, said: Mapping[str, Any]) -> Message:
    attributes = said.get("Attributes", {})
    return Message(
        message_id=message_id,
        receipt=receipt,
        body=body,
        bell=parse(body),
        group=attributes.get("MessageGroupId"),
        receives=int(attributes.get("ApproximateReceiveCount", 1)),
    )


def _entry(queue: Queue, ring: Ring) -> dict[str, Any]:
    attributes = {name: {"DataType": "String", "StringValue": value} for name, value in ring.attributes.items()}
    entry: dict[str, Any] = {"MessageBody": ring.bell.body(), "MessageAttributes": attributes}
    if ring.group is not None:  # on a standard queue the tenant: SQS then keeps a noisy one from starving the others
        entry["MessageGroupId"] = ring.group
    if queue.fifo:
        entry["MessageDeduplicationId"] = ring.bell.deduplication_id(ring.rung_at)
    elif ring.delay:
        entry["DelaySeconds"] = _seconds(ring.delay)
    return entry


def _seconds(duration: timedelta) -> int:
    return math.ceil(min(max(duration, timedelta()), LONGEST_HIDE).total_seconds())


def _or_refused(call: Callable[[], T]) -> T:
    try:
        return call()
    except ClientError as e:
        error = e.response["Error"]
        raise RingRefused(
            f"{e.operation_name}: {error['Code']}: {error.get('Message', '')}"[:300], error["Code"]
        ) from e
    except BotoCoreError as e:
        raise RingRefused(f"{type(e).__name__}: {e}"[:300]) from e
