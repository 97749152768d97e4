"""The jobs table on DynamoDB. Conditions and updates are compiled from the transition table, never written by hand."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shared.adapters.expressions import Expression
from shared.adapters.wire import Item, encode, from_item, job_key, plain, to_item
from shared.domain.job import Job, RunRecord, from_ms, own_runs
from shared.domain.states import SUBMIT, Seen
from shared.domain.writes import Write
from shared.errors import AlreadySubmitted, MoveRefused, StoreUnavailable
from shared.ports import Row

_BUSY = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "RequestLimitExceeded",
        "InternalServerError",
        "InternalFailure",
        "ServiceUnavailable",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
_TRANSACTION_TRIES = 5


class DynamoJobStore:
    """JobStore on one table. `client` is a low-level DynamoDB client with timeouts of its own (thread-safe)."""

    def __init__(self, client: Any, table: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client, self._table, self._sleep = client, table, sleep

    def submit_write(self, job: Job, now: datetime) -> dict[str, Any]:
        """The element of TransactItems that submits this job inside a transaction of the caller's own."""
        expression = Expression()
        condition = expression.all_of(SUBMIT.guards, Seen(now=now))
        put = {"TableName": self._table, "Item": to_item(job), "ConditionExpression": condition, **expression.bound}
        return {"Put": put | {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}}

    def submit(self, job: Job, now: datetime) -> None:
        """See JobStore."""
        try:
            self._call("put_item", **self.submit_write(job, now)["Put"])
        except ClientError as e:
            raise AlreadySubmitted(_found(e, job.job_id)) from e

    def submit_with(self, job: Job, rows: Sequence[Row], now: datetime) -> None:
        """See JobStore. Cancellation reasons come mixed and mean different things (AWS.md): a failed condition is
        read again, a conflict or a throttle is tried again, a validation error is a bug and raised as it is.
        """
        items = [self.submit_write(job, now), *({"Put": _put(row)} for row in rows)]
        for attempt in range(_TRANSACTION_TRIES):
            try:
                self._call("transact_write_items", TransactItems=items)
            except ClientError as e:
                reasons = {r.get("Code") for r in e.response.get("CancellationReasons", ())}
                if not reasons or "ValidationError" in reasons:
                    raise
                if "ConditionalCheckFailed" in reasons and (found := self._taken(job, now)) is not None:
                    raise AlreadySubmitted(found) from e
                self._sleep(random.uniform(0, 0.05 * 2**attempt))
            else:
                return
        raise StoreUnavailable(f"submit of {job.job_id}: {_TRANSACTION_TRIES} transactions in a row were cancelled")

    def apply(self, job_id: str, write: Write) -> Job:
        """See JobStore. One conditional UpdateItem; a refusal brings the record it met in the same answer."""
        return from_item(self._update(job_id, write, "ALL_NEW")["Attributes"])

    def make(self, job_id: str, write: Write) -> None:
        """See JobStore."""
        self._update(job_id, write, "NONE")

    def _update(self, job_id: str, write: Write, brings: str) -> dict[str, Any]:
        move, seen, changes = write.move, write.seen, write.changes
        move.check_changes(changes)
        expression = Expression()
        condition, update = expression.condition(move, seen), expression.update(move, seen, changes)
        try:
            return self._call(
                "update_item",
                TableName=self._table,
                Key=job_key(job_id),
                ConditionExpression=condition,
                UpdateExpression=update,
                ReturnValues=brings,
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **expression.bound,
            )
        except ClientError as e:
            item = _old_item(e)
            raise MoveRefused(job_id, move.name, from_item(item) if item else None) from e

    def get(self, job_id: str) -> Job | None:
        """See JobStore."""
        item = self._item(job_key(job_id))
        return None if item is None else from_item(item)

    def due(self, shard: int, horizon: datetime) -> Iterator[str]:
        """See JobStore. Pages follow the key, so what was promoted or left meanwhile moves nothing under the reader."""
        for item in self._query(
            IndexName="due",
            KeyConditionExpression="due_key = :key AND due_at <= :horizon",
            ExpressionAttributeValues={":key": {"S": f"due#{shard}"}, ":horizon": encode("due_at", horizon)},
        ):
            yield item["pk"]["S"].removeprefix("JOB#")

    def put_payload(self, job_id: str, ref: bytes, payload: str, expires_at: datetime) -> None:
        """See JobStore. Its key names its content, so only the time to live can differ from what stands there."""
        until = encode("expires_at", expires_at)
        try:
            self._call(
                "put_item",
                TableName=self._table,
                Item=_payload_key(job_id, ref) | {"payload": {"S": payload}, "expires_at": until},
                ConditionExpression="attribute_not_exists(pk) OR expires_at < :until",
                ExpressionAttributeValues={":until": until},
            )
        except ClientError as e:
            _old_item(e)  # refused: it is kept as long, or longer

    def renew_payload(self, job_id: str, ref: bytes, expires_at: datetime) -> bool:
        """See JobStore."""
        try:
            self._set_payload_end(job_id, ref, expires_at, "expires_at < :until")
        except ClientError as e:
            _old_item(e)  # refused: it is gone, or kept as long
            return self.get_payload(job_id, ref) is not None
        return True

    def end_payload(self, job_id: str, ref: bytes, expires_at: datetime) -> None:
        """See JobStore. An update and not a delete: both are billed by the item's size, and TTL's delete is free."""
        try:
            self._set_payload_end(job_id, ref, expires_at, "expires_at > :until")
        except ClientError as e:
            _old_item(e)  # refused: it is gone, or ends sooner

    def get_payload(self, job_id: str, ref: bytes) -> str | None:
        """See JobStore."""
        item = self._item(_payload_key(job_id, ref))
        return None if item is None else str(item["payload"]["S"])

    def _set_payload_end(self, job_id: str, ref: bytes, until: datetime, where: str) -> None:
        self._call(
            "update_item",
            TableName=self._table,
            Key=_payload_key(job_id, ref),
            UpdateExpression="SET expires_at = :until",
            ConditionExpression=where,
            ExpressionAttributeValues={":until": encode("expires_at", until)},
        )

    def record_run(self, record: RunRecord) -> None:
        """See JobStore. Unconditional: the guarded write before it proved that the run was this one. An UpdateItem that
        leaves nothing of an older item, and not a put: IAM tells attributes apart, but not the items of one partition
        (it knows `pk`, not `sk`), so a worker that may put history could put jobs too.
        """
        values = {
            "outcome": record.outcome,
            "ended_at": record.ended_at,
            "holder": record.holder,
            "error_class": record.error_class,
            "error_code": record.error_code,
            "error_message": record.error_message,
            "stack_digest": record.stack_digest,
            "expires_at": record.expires_at,
        }
        key = {"pk": {"S": f"JOB#{record.job_id}"}, "sk": {"S": f"RUN#{record.run:010d}"}}
        expression = Expression()
        update = expression.replacement(values)
        self._call("update_item", TableName=self._table, Key=key, UpdateExpression=update, **expression.bound)

    def runs(self, job: Job) -> Sequence[RunRecord]:
        """See JobStore."""
        items = self._query(
            KeyConditionExpression="pk = :pk AND begins_with(sk, :run)",
            ExpressionAttributeValues={":pk": {"S": f"JOB#{job.job_id}"}, ":run": {"S": "RUN#"}},
            ConsistentRead=True,
        )
        return own_runs(job, (_run_record(job.job_id, item) for item in items))

    def _query(self, **arguments: Any) -> Iterator[Item]:
        start: dict[str, Any] = {}
        while True:
            page = self._call("query", TableName=self._table, **arguments, **start)
            yield from page["Items"]
            if "LastEvaluatedKey" not in page:
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def _taken(self, job: Job, now: datetime) -> Job | None:
        found = self.get(job.job_id)
        gone = found is None or (found.expires_at is not None and found.expires_at < now)
        return None if gone else found

    def _item(self, key: Item) -> Item | None:
        found: Item | None = self._call("get_item", TableName=self._table, Key=key, ConsistentRead=True).get("Item")
        return found

    def _call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """One call. Raises StoreUnavailable for what passes by itself; conditions and bugs as ClientError."""
        try:
            answer: dict[str, Any] = getattr(self._client, operation)(**arguments)
        except ClientError as e:
            # A proxy's bare 5xx has no JSON body, and botocore makes a code of its status.
            status = e.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if e.response["Error"]["Code"] in _BUSY or status >= 500:
                raise StoreUnavailable(f"{operation} on {self._table}: {e.response['Error']['Code']}") from e
            raise
        except BotoCoreError as e:
            raise StoreUnavailable(f"{operation} on {self._table}: {type(e).__name__}") from e
        return answer


def _old_item(error: ClientError) -> Item | None:
    """The item a refused condition met; other errors are raised again."""
    if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
        raise error
    item: Item | None = error.response.get("Item")
    return item


def _found(error: ClientError, job_id: str) -> Job:
    item = _old_item(error)
    if item is None:
        raise StoreUnavailable(f"submit of {job_id} was refused by a record that is gone again; try again") from error
    return from_item(item)


def _put(row: Row) -> dict[str, Any]:
    return {"TableName": row.table, "Item": {name: encode(name, value) for name, value in row.values.items()}}


def _payload_key(job_id: str, ref: bytes) -> Item:
    return {"pk": {"S": f"JOB#{job_id}"}, "sk": {"S": f"PAYLOAD#{ref.hex()}"}}


def _run_record(job_id: str, item: Item) -> RunRecord:
    values = {name: plain(value) for name, value in item.items()}
    return RunRecord(
        job_id=job_id,
        run=int(values["sk"].removeprefix("RUN#")),
        ended_at=from_ms(values["ended_at"]),
        outcome=values["outcome"],
        holder=values.get("holder"),
        error_class=values.get("error_class"),
        error_code=values.get("error_code"),
        error_message=values.get("error_message"),
        stack_digest=values.get("stack_digest"),
        expires_at=from_ms(values["expires_at"] * 1000),
    )
