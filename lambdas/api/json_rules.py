"""The rules of strict_json.py as JSON Schema can say them, and in prose where it cannot."""

from __future__ import annotations

from typing import Any

from lambdas.api.limits import MAX_BODY_BYTES, MAX_DEPTH, MAX_INTEGER

Schema = dict[str, Any]

PROSE = (
    f"Bodies are JSON in UTF-8, of at most {MAX_BODY_BYTES // 1024} KB and {MAX_DEPTH} levels. A name stands once in "
    "its object. Integers lie within ±2^53; other numbers have no more digits than a double gives back. No text and no "
    "name holds NUL or half of a surrogate pair."
)
_STORABLE = r"^[^\u0000]*$"
_WITHIN = {"minimum": -MAX_INTEGER, "maximum": MAX_INTEGER}
_SELF_SAID = ("pattern", "format", "enum", "const", "anyOf")


def any_json(ref: str) -> Schema:
    """Any JSON value that the door takes; `ref` is where this schema itself stands."""
    return {
        "anyOf": [
            {"type": ["null", "boolean"]},
            {"type": "string", "pattern": _STORABLE},
            {"type": "number", **_WITHIN},
            {"type": "array", "items": {"$ref": ref}},
            {"type": "object", "propertyNames": {"pattern": _STORABLE}, "additionalProperties": {"$ref": ref}},
        ]
    }


def as_the_door_reads(schema: Any) -> Any:
    """The schema of a request, with what the door asks of every text, name and number."""
    if isinstance(schema, list):
        return [as_the_door_reads(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain_text = schema.get("type") == "string" and not any(word in schema for word in _SELF_SAID)
    free_names = schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict)
    said = {
        **({"pattern": _STORABLE} if plain_text else {}),
        **({"propertyNames": {"pattern": _STORABLE}} if free_names else {}),
        **(_WITHIN if schema.get("type") == "integer" else {}),
    }
    inner = {
        name: part if name in ("examples", "default") else as_the_door_reads(part) for name, part in schema.items()
    }
    return said | inner
