"""Stream records as Lambda hands them over."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from shared.adapters.wire import from_item
from shared.domain.describe import describe
from shared.operations.relay import OutboxRecord


def outbox_record(record: Mapping[str, Any]) -> OutboxRecord:
    """The job that a stream record shows, or why it shows none."""
    try:
        image = {name: _binary_decoded(value) for name, value in record["dynamodb"]["NewImage"].items()}
        return OutboxRecord(record, from_item(image))
    except Exception as e:  # whatever is wrong with one record, its shard goes on
        return OutboxRecord(record, None, describe(e))


def _binary_decoded(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Lambda hands binary attributes over as base64 text, where the SDK gives bytes."""
    return {"B": base64.b64decode(value["B"], validate=True)} if isinstance(value.get("B"), str) else value
