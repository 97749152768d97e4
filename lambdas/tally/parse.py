"""Stream records as Lambda hands them over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.domain.job import from_ms
from shared.domain.states import State
from shared.operations.tally import Image


def change(record: Mapping[str, Any]) -> tuple[Image | None, Image | None]:
    """(before, after) of one write, each None where there is no tenant's job to see: a record nobody can read counts
    for nothing, here as everywhere.
    """
    seen = record.get("dynamodb", {})
    return _image(seen.get("OldImage")), _image(seen.get("NewImage"))


def _image(item: Mapping[str, Any] | None) -> Image | None:
    try:
        return (
            Image(
                tenant=item["tenant"]["S"],
                state=State(item["state"]["S"]),
                created_at=from_ms(int(item["created_at"]["N"])),
                payload_bytes=int(item.get("payload_bytes", {"N": "0"})["N"]),
            )
            if item is not None
            else None
        )
    except (KeyError, ValueError, TypeError):
        return None
