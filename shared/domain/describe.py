"""An exception in words: for the record, for a log line, for the stack trace beside it. No word of it leaves without
having been through redaction.py.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from shared.domain.job import MESSAGE_CUT
from shared.domain.redaction import CUT, redacted, without_values
from shared.errors import HoldfastError, JobFailure

STACK_TEXT_CUT = 1000
"""Characters of one exception's text in a stack trace."""

MOST_FRAMES, MOST_IN_CHAIN = 50, 20
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n"
_MEANWHILE = "\nDuring handling of the above exception, another exception occurred:\n"

_FIELD = re.compile(r"[A-Za-z]+(?:[_.-][A-Za-z]+)*")
"""A name of a field or a key, such as code spells out; a value rarely has letters alone."""


def safe_text(text: object) -> str:
    """Redacted, on one line, without what UTF-8 cannot carry."""
    return " ".join(redacted(str(text)).encode(errors="replace").decode().split())


def describe(error: BaseException, most: int = MESSAGE_CUT) -> str:
    """Its message for a person, `most` characters of it; others' exceptions with their kind before it. Never raises."""
    name = type(error).__name__
    try:
        if isinstance(error, HoldfastError) and (text := safe_text(error)):
            return text[:most] if isinstance(error, JobFailure) else f"{name}: {text}"[:most]
        return f"{name}: {_foreign_text(error)}".removesuffix(": ")[:most]
    except Exception as e:
        return f"{name} (whose text raised {type(e).__name__})"[:most]


def stack_of(error: BaseException) -> str:
    """The stack trace as Python prints it, but each exception in the words of `describe`: its own may hold pydantic's
    inputs, the URL of a call, or whatever else it was given. Frames show code and no values.
    """
    return "\n".join(_told(error, set()))


def aws_error(error: BaseException) -> Mapping[str, Any]:
    """ClientError.response["Error"], empty for anything else."""
    response = getattr(error, "response", None)
    return part(response, "Error") if isinstance(response, dict) else {}


def part(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A dictionary inside a dictionary, or an empty one for whatever else stands there."""
    inner = said.get(name)
    return inner if isinstance(inner, dict) else {}


def _foreign_text(error: BaseException) -> str:
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        return repr(error.args[0]) if _FIELD.fullmatch(error.args[0]) else CUT
    # botocore's own text begins with eighty characters of preamble, and the record keeps two hundred.
    text = str(_faults(error) or aws_error(error).get("Message", "") or error)
    return safe_text(without_values(text) if isinstance(error, ValueError | LookupError) else text)


def _faults(error: BaseException) -> str:
    """What is wrong where, of pydantic's ValidationError: its own text quotes the inputs."""
    names = [f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(error).__mro__]
    if "pydantic_core.ValidationError" not in names:
        return ""
    found = error.errors(include_url=False, include_input=False, include_context=False)  # type: ignore[attr-defined]
    return "; ".join(f"{'.'.join(_step(step) for step in fault['loc'])}: {fault['msg']}" for fault in found)


def _step(step: int | str) -> str:
    """A field, an index, or the key of an input's dictionary."""
    return str(step) if isinstance(step, int) or _FIELD.fullmatch(step) else CUT


def _told(error: BaseException, seen: set[int]) -> Iterator[str]:
    """Oldest first. Bounded, since a log line must never fail: a chain may be a ring, or as long as a loop ran."""
    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in seen and len(seen) < MOST_IN_CHAIN:
        yield from _told(before, seen)
        yield _CAUSE if error.__cause__ is not None else _MEANWHILE
    yield "Traceback (most recent call last):"
    yield "".join(traceback.format_tb(error.__traceback__, -MOST_FRAMES)).rstrip("\n")
    yield describe(error, STACK_TEXT_CUT)
    for inner in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        if id(inner) not in seen and len(seen) < MOST_IN_CHAIN:
            yield from _told(inner, seen)
