"""The jobs table for tests, as the storage stack declares it."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")

INDEXES = {
    "open": ("open_key", "available_at"),
    "due": ("due_key", "due_at"),
    "dead": ("dead_key", "dead_at"),
    "tenant": ("tenant_key", "created_at"),
}


def create_jobs_table(client: Any, name: str) -> None:
    """pk, sk and the four sparse indexes (their projections do not matter to these tests)."""
    strings = ["pk", "sk", *(key for key, _ in INDEXES.values())]
    numbers = [key for _, key in INDEXES.values()]
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            *({"AttributeName": n, "AttributeType": "S"} for n in strings),
            *({"AttributeName": n, "AttributeType": "N"} for n in numbers),
        ],
        KeySchema=_keys("pk", "sk"),
        GlobalSecondaryIndexes=[
            {"IndexName": index, "KeySchema": _keys(*keys), "Projection": {"ProjectionType": "KEYS_ONLY"}}
            for index, keys in INDEXES.items()
        ],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )


def create_plain_table(client: Any, name: str) -> None:
    """pk and sk and nothing else, as `controls` and `exports` are."""
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": n, "AttributeType": "S"} for n in ("pk", "sk")],
        KeySchema=_keys("pk", "sk"),
    )


def _keys(hash_key: str, range_key: str) -> list[dict[str, str]]:
    return [{"AttributeName": hash_key, "KeyType": "HASH"}, {"AttributeName": range_key, "KeyType": "RANGE"}]
