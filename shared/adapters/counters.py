"""What quotas count, as items of the controls table: one a minute and subject, one a month and tenant."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shared.domain.quota import Standing, forgotten_at
from shared.errors import StoreUnavailable
from shared.quotas import KEYS

MINUTES_KEPT = timedelta(minutes=10)


class DynamoCounters:
    """Counters (see ports). `client` is a low-level DynamoDB client."""

    def __init__(self, client: Any, table: str) -> None:
        self._client, self._table = client, table

    def take(self, subject: str, minute: int, n: int) -> int:
        """See Counters."""
        until = minute * 60 + MINUTES_KEPT // timedelta(seconds=1)
        answer = self._add(subject, f"MINUTE#{minute}", {"submits": n}, until, ReturnValues="UPDATED_NEW")
        return int(answer["Attributes"]["submits"]["N"])

    def standing(self, tenant: str) -> Standing:
        """See Counters. Eventually consistent: half the price, and the counts are seconds old anyhow."""
        jobs = waiting = 0
        start: dict[str, Any] = {}
        while True:
            page = self._call(
                "query",
                KeyConditionExpression="pk = :pk AND begins_with(sk, :open)",
                ExpressionAttributeValues={":pk": {"S": f"{KEYS}tenant#{tenant}"}, ":open": {"S": "OPEN#"}},
                **start,
            )
            for item in page["Items"]:
                jobs += max(int(item["jobs"]["N"]), 0)
                waiting += max(int(item["waiting_bytes"]["N"]), 0)
            if "LastEvaluatedKey" not in page:
                return Standing(jobs, waiting)
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def count(self, tenant: str, month: str, jobs: int, waiting_bytes: int) -> None:
        """See Counters."""
        until = int(forgotten_at(month).timestamp())
        self._add(f"tenant#{tenant}", f"OPEN#{month}", {"jobs": jobs, "waiting_bytes": waiting_bytes}, until)

    def _add(self, subject: str, sk: str, by: dict[str, int], until: int, **more: Any) -> dict[str, Any]:
        return self._call(
            "update_item",
            Key={"pk": {"S": f"{KEYS}{subject}"}, "sk": {"S": sk}},
            UpdateExpression=f"ADD {', '.join(f'{name} :{name}' for name in by)} SET expires_at = :until",
            ExpressionAttributeValues={f":{name}": {"N": str(n)} for name, n in by.items()}
            | {":until": {"N": str(until)}},
            **more,
        )

    def _call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Whatever goes wrong, the counts are not known, and nobody is refused for that."""
        try:
            answer: dict[str, Any] = getattr(self._client, operation)(TableName=self._table, **arguments)
        except (ClientError, BotoCoreError) as e:
            raise StoreUnavailable(f"{operation} on {self._table}: {type(e).__name__}: {e}") from e
        return answer
