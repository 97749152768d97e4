"""The tenants' accounts of worker time, one item of the controls table each."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shared.domain.job import from_ms, to_ms
from shared.errors import StoreUnavailable
from shared.queues import SHARE_KEYS

KEPT = timedelta(days=1)
"""An account that nobody charged for so long is even."""

TRIES = 4


class DynamoShares:
    """Shares (see ports). `client` is a low-level DynamoDB client."""

    def __init__(self, client: Any, table: str) -> None:
        self._client, self._table = client, table

    def even_at(self, queue: str, tenant: str) -> datetime | None:
        """See Shares. Eventually consistent: the account is charged after its runs anyhow."""
        item = self._call("get_item", Key=_key(queue, tenant)).get("Item")
        return None if item is None else from_ms(int(item["even_at"]["N"]))

    def charge(self, queue: str, tenant: str, started_at: datetime, by: timedelta) -> None:
        """See Shares. An update cannot take the later of two times, so there are two, each under its condition."""
        step, begun = by // timedelta(milliseconds=1), to_ms(started_at)
        ahead = ("even_at + :by", "even_at > :begun", {":by": step, ":begun": begun})
        even = (
            ":begun_by",
            "attribute_not_exists(even_at) OR even_at <= :begun",
            {":begun": begun, ":begun_by": begun + step},
        )
        for value, condition, numbers in (ahead, even) * (TRIES // 2):
            if self._set(queue, tenant, value, condition, numbers, started_at + by + KEPT):
                return
        raise StoreUnavailable(f"the share of {tenant} on {queue} is written by too many at once")

    def _set(
        self, queue: str, tenant: str, value: str, condition: str, numbers: dict[str, int], until: datetime
    ) -> bool:
        values = {name: {"N": str(n)} for name, n in numbers.items()}
        values[":until"] = {"N": str(int(until.timestamp()))}
        try:
            self._client.update_item(
                TableName=self._table,
                Key=_key(queue, tenant),
                UpdateExpression=f"SET even_at = {value}, expires_at = :until",
                ConditionExpression=condition,
                ExpressionAttributeValues=values,
            )
        except ClientError as e:
            if e.response["Error"]["Code"] == "ConditionalCheckFailedException":
                return False
            raise StoreUnavailable(f"update_item on {self._table}: {e}") from e
        except BotoCoreError as e:
            raise StoreUnavailable(f"update_item on {self._table}: {type(e).__name__}") from e
        return True

    def _call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = getattr(self._client, operation)(TableName=self._table, **arguments)
        except (ClientError, BotoCoreError) as e:
            raise StoreUnavailable(f"{operation} on {self._table}: {type(e).__name__}: {e}") from e
        return answer


def _key(queue: str, tenant: str) -> dict[str, Any]:
    return {"pk": {"S": f"{SHARE_KEYS}{queue}#{tenant}"}, "sk": {"S": "WORKER-TIME"}}
