"""What is wrong with a field, in plain sentences that follow its pointer: what is expected, and the limit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

_SENTENCES: Mapping[str, str] = {
    "missing": "is required",
    "extra_forbidden": "is not a field of this request",
    "none_required": "must be null, or left out",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "list_type": "must be an array",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "value_error": "{error}",
    "assertion_error": "{error}",
}
"""By pydantic's types of errors. What a job file raises itself (ValueError) is its own sentence."""


def in_words(found: Mapping[str, Any], model: type[BaseModel] | None = None) -> str:
    """One of pydantic's `errors()`; with an example where its field in `model` has one."""
    kind, context = found["type"], found.get("ctx", {})
    # Unknown kinds (URLs, dates, unions …) say "Input should be a valid …".
    said = (
        _SENTENCES[kind].format_map(context) if kind in _SENTENCES else re.sub("^Input should ", "must ", found["msg"])
    )
    example = _example(found["loc"], model) if kind == "string_pattern_mismatch" else None
    return said if example is None else f"{said}, such as {example!r}"


def _example(loc: tuple[int | str, ...], model: type[BaseModel] | None) -> Any:
    for name, field in model.model_fields.items() if model else ():
        if loc == (field.validation_alias or name,) and field.examples:
            return field.examples[0]
    return None
