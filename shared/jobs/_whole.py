"""19.0 is an integer: JSON and JSON Schema tell numbers by value, pydantic's strict mode by how they are written."""

from __future__ import annotations

from typing import Any

_EXACT = 2**53


def whole(value: Any) -> Any:
    """The JSON value with its whole numbers as int, whatever it holds."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    if isinstance(value, dict):
        return {name: whole(member) for name, member in value.items()}
    return [whole(element) for element in value] if isinstance(value, list) else value
