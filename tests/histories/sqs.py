"""SQS as far as Holdfast leans on it: visibility, receive counts, the move to the DLQ, FIFO groups, de-duplication,
retention; and a client of it with boto3's calls, for the real adapters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ConnectTimeoutError

from shared.domain.doorbell import parse
from shared.queues import DEAD_LETTER_RETENTION, Queue
from tests.histories.threads import Process

PREFIX = "histories"
DEDUPLICATION = timedelta(minutes=5)


@dataclass(eq=False)
class Standing:
    """A message in a queue. `name` tells it apart for people: its job, its dispatch, * where marked, ' per copy;
    `throttled`: receives that reached no worker.
    """

    name: str
    message_id: str
    body: str
    group: str | None
    sequence: int
    sent_at: datetime
    visible_at: datetime
    receives: int = 0
    throttled: int = 0
    receipt: str = ""


@dataclass(eq=False)
class Box:
    """One queue, or one DLQ."""

    queue: Queue
    retention: timedelta
    messages: dict[str, Standing] = field(default_factory=dict)
    taken: dict[str, datetime] = field(default_factory=dict)

    def visible(self, now: datetime) -> list[Standing]:
        """What a receive may return now; of a FIFO group nothing beside one of it that is in flight."""
        if not self.queue.fifo:
            return [one for one in self.messages.values() if one.visible_at <= now]
        held = {one.group for one in self.messages.values() if one.visible_at > now}
        return sorted((one for one in self.messages.values() if one.group not in held), key=lambda one: one.sequence)

    def expire(self, now: datetime) -> list[str]:
        """Forget what is past its retention."""
        gone = [name for name, one in self.messages.items() if now - one.sent_at > self.retention]
        for name in gone:
            del self.messages[name]
        return gone


class Sqs:
    """Every queue and DLQ. `tell` hears of each event; `most_receives`: before it moves a message, None for what the
    lane declares; `old_receipts`: whether SQS still takes those of earlier receives, which it may do on a standard
    queue.
    """

    def __init__(
        self, queues: Iterable[Queue], most_receives: int | None, old_receipts: bool, now: Callable[[], datetime]
    ) -> None:
        self.most_receives, self._old_receipts, self._now = most_receives, old_receipts, now
        self.work = {queue.name: Box(queue, queue.message_retention) for queue in queues}
        self.dead = {queue.name: Box(queue, DEAD_LETTER_RETENTION) for queue in queues}
        self.urls = {box.queue.physical_name(PREFIX): box for box in self.work.values()}
        self.urls |= {box.queue.dead_letter_name(PREFIX): box for box in self.dead.values()}
        self.sent = 0
        self.names: Callable[[str], str] = lambda job_id: job_id
        self._named: set[str] = set()
        self.tell: Callable[[str], None] = lambda text: None
        self.sending: Callable[[Box, str, str | None], None] = lambda box, body, group: None
        self.deleting: Callable[[Box, Standing], None] = lambda box, one: None
        self.hiding: Callable[[Box, Standing, timedelta], None] = lambda box, one, wait: None
        self.moving: Callable[[Box, Standing], None] = lambda box, one: None
        self.moved: set[tuple[str, int]] = set()
        self.rung: set[tuple[str, int]] = set()

    def send(self, box: Box, body: str, group: str | None, deduplication_id: str | None, delay: timedelta) -> None:
        """Store a message, unless a FIFO queue took the same within five minutes."""
        now, bell = self._now(), parse(body)
        self.sending(box, body, group)
        if bell is not None:
            self.rung.add((bell.job_id, bell.dispatch))
        if box.queue.fifo and deduplication_id is not None:
            if now - box.taken.get(deduplication_id, now - timedelta(days=1)) < DEDUPLICATION:
                self.tell(f"swallowed by FIFO de-duplication: {self._base(body)}")
                return
            box.taken[deduplication_id] = now
        self._store(box, body, group, now, now + delay)

    def _store(self, box: Box, body: str, group: str | None, sent_at: datetime, visible_at: datetime) -> Standing:
        self.sent += 1
        name = self._base(body)
        while (
            name in self._named
        ):  # a name of a message that is gone stays its own: an old receipt must not open another
            name += "'"
        self._named.add(name)
        one = Standing(name, f"m{self.sent}", body, group, self.sent, sent_at, visible_at)
        box.messages[name] = one
        self.tell(f"sent {name} to {'the DLQ of ' if box is self.dead[box.queue.name] else ''}{box.queue.name}")
        return one

    def _base(self, body: str) -> str:
        bell = parse(body)
        return "?" if bell is None else f"{self.names(bell.job_id)}.{bell.dispatch}{'*' if bell.dead_letter else ''}"

    def receive(self, box: Box, wanted: Sequence[str], hidden_for: timedelta) -> list[Standing]:
        """Hand these over, where they are visible; one received too often already moves to the DLQ instead."""
        visible = {one.name: one for one in box.visible(self._now())}
        got = []
        for one in [visible[name] for name in wanted if name in visible]:
            one.receives += 1
            if box is self.work[box.queue.name] and one.receives > (self.most_receives or box.queue.max_receives):
                self._move_away(box, one)
                continue
            self.sent += 1
            one.receipt, one.visible_at = f"r{self.sent}", self._now() + hidden_for
            got.append(one)
        return got

    def _move_away(self, box: Box, one: Standing) -> None:
        now, queue = self._now(), box.queue.name
        self.moving(box, one)
        del box.messages[one.name]
        self.tell(f"SQS moves {one.name} to the DLQ after {one.receives - 1} receives")
        bell = parse(one.body)
        if bell is not None:
            self.moved.add((bell.job_id, bell.dispatch))
        self._store(self.dead[queue], one.body, one.group, now if box.queue.fifo else one.sent_at, now)

    def redrive(self, queue: str, name: str) -> None:
        """StartMessageMoveTask for one message: a new id, no receives, the same body."""
        one = self.dead[queue].messages.pop(name)
        self._store(self.work[queue], one.body, one.group, self._now(), self._now())

    def copy(self, box: Box, name: str) -> None:
        """A second copy of a message, visible now: a standard queue delivers at least once."""
        one = box.messages[name]
        twin = self._store(box, one.body, one.group, one.sent_at, self._now())
        twin.message_id, twin.receives, twin.throttled = one.message_id, one.receives, one.throttled

    def delete(self, box: Box, receipt: str) -> bool:
        """As DeleteMessage."""
        one = self.of_receipt(box, receipt)
        if one is None:
            return False
        self.deleting(box, one)
        del box.messages[one.name]
        self.tell(f"deleted {one.name} from {'the DLQ of ' if box in self.dead.values() else ''}{box.queue.name}")
        return True

    def hide(self, box: Box, receipt: str, wait: timedelta) -> bool:
        """As ChangeMessageVisibility."""
        one = self.of_receipt(box, receipt)
        if one is None:
            return False
        self.hiding(box, one, wait)
        one.visible_at = self._now() + wait
        return True

    def of_receipt(self, box: Box, receipt: str) -> Standing | None:
        """The message a receipt still speaks for: "name receipt"."""
        name, _, number = receipt.rpartition(" ")
        one = box.messages.get(name)
        if one is None or (one.receipt != number and (box.queue.fifo or not self._old_receipts)):
            return None
        return None if box.queue.fifo and one.visible_at <= self._now() else one


def event_record(one: Standing) -> dict[str, Any]:
    """The message as Lambda hands it to a worker."""
    attributes: dict[str, Any] = {"ApproximateReceiveCount": str(one.receives)}
    attributes |= {"MessageGroupId": one.group} if one.group is not None else {}
    return {
        "messageId": one.message_id,
        "receiptHandle": f"{one.name} {one.receipt}",
        "body": one.body,
        "attributes": attributes,
    }


class Client:
    """boto3's SQS client, of one process."""

    def __init__(self, process: Process, sqs: Sqs) -> None:
        self._process, self._sqs = process, sqs

    def get_queue_url(self, QueueName: str) -> dict[str, str]:
        return {"QueueUrl": QueueName}

    def send_message_batch(self, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        box = self._sqs.urls[QueueUrl]

        def send() -> dict[str, Any]:
            taken = Entries[: 1 if self._process.strikes("some") else len(Entries)]
            for entry in taken:
                delay = timedelta(seconds=entry.get("DelaySeconds", 0))
                group, unique = entry.get("MessageGroupId"), entry.get("MessageDeduplicationId")
                self._sqs.send(box, entry["MessageBody"], group, unique, delay)
            return {"Failed": [{"Id": entry["Id"], "Code": "InternalError"} for entry in Entries[len(taken) :]]}

        return self._call("send", send)

    def send_message(self, QueueUrl: str, MessageBody: str, **more: Any) -> dict[str, Any]:
        return self.send_message_batch(QueueUrl, [{"Id": "0", "MessageBody": MessageBody, **more}])

    def change_message_visibility_batch(self, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return self._each(
            "hide",
            QueueUrl,
            Entries,
            lambda box, e: self._sqs.hide(box, e["ReceiptHandle"], timedelta(seconds=e["VisibilityTimeout"])),
        )

    def delete_message_batch(self, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return self._each("delete", QueueUrl, Entries, lambda box, e: self._sqs.delete(box, e["ReceiptHandle"]))

    def receive_message(self, QueueUrl: str, VisibilityTimeout: int, **_: Any) -> dict[str, Any]:
        box = self._sqs.urls[QueueUrl]

        def receive() -> dict[str, Any]:
            names = [one.name for one in box.visible(self._sqs._now())][:10]
            got = self._sqs.receive(box, names, timedelta(seconds=VisibilityTimeout))
            return {"Messages": [_received(one) for one in got]}

        return self._call("receive from the DLQ", receive)

    def _each(
        self, verb: str, url: str, entries: Sequence[Mapping[str, Any]], act: Callable[[Box, Mapping[str, Any]], bool]
    ) -> dict[str, Any]:
        box = self._sqs.urls[url]

        def all_of_them() -> dict[str, Any]:
            failed = [entry["Id"] for entry in entries if not act(box, entry)]
            return {"Failed": [{"Id": one, "Code": "InvalidParameterValue"} for one in failed]}

        return self._call(verb, all_of_them)

    def _call(self, verb: str, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        answer: dict[str, Any] = self._process.call(f"sqs {verb}", act, _no_answer)
        return answer


def _no_answer() -> Exception:
    error: Exception = ConnectTimeoutError(endpoint_url="sqs")
    return error


def _received(one: Standing) -> dict[str, Any]:
    record = event_record(one)
    return {
        "MessageId": record["messageId"],
        "ReceiptHandle": record["receiptHandle"],
        "Body": record["body"],
        "Attributes": record["attributes"],
    }
