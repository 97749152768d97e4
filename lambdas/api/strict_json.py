"""A JSON body, read more strictly than `json.loads` reads it: whatever another reader would see differently is refused.

Python keeps the last of two equal keys where others keep the first, reads NaN, rounds 1e400 to infinity and takes a
half of a surrogate pair for text. Nesting is measured on the raw text, before any recursive reader sees it.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

from lambdas.api.limits import MAX_DEPTH, MAX_FAULTS, MAX_INTEGER
from lambdas.api.pointer import child, shown
from shared.errors import Fault

# A string that never ends is taken whole (the closing quote is optional): tried again at each of its quotes, a body
# of nothing but \" would cost the square of its length.
_STRINGS_AND_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class NotStrictJson(ValueError):
    """The body cannot be used; `faults` say where and why."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        first = faults[0]
        super().__init__(f"{first.pointer}: {first.detail}" if first.pointer else first.detail)
        self.faults = tuple(faults)


def read_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in these bytes, nothing in it ambiguous. Raises NotStrictJson."""
    text = _decoded(raw)
    _check_depth(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_fraction,
            parse_constant=lambda name: _Unusable(f"{name} is not JSON; send null or leave the field out"),
        )
    except json.JSONDecodeError as e:
        raise NotStrictJson([Fault("", f"not JSON: {e.msg} at line {e.lineno}, column {e.colno}")]) from None
    if faults := list(islice(_faults(value), MAX_FAULTS)):
        raise NotStrictJson(faults)
    if not isinstance(value, dict):
        raise NotStrictJson([Fault("", f"the body must be a JSON object, not {_KINDS[type(value)]}")])
    return value


_KINDS = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean", type(None): "null"}


class _Unusable:
    def __init__(self, why: str) -> None:
        self.why = why


class _Doubled(dict[str, Any]):
    """An object in which `names` stand more than once."""

    names: frozenset[str] = frozenset()


def _decoded(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError as e:
        raise NotStrictJson([Fault("", f"not UTF-8: byte {e.start} is 0x{raw[e.start]:02x}")]) from None
    if not text.strip(" \t\r\n"):
        raise NotStrictJson([Fault("", "the body is empty; send a JSON object")])
    return text


def _check_depth(text: str) -> None:
    depth = 0
    for token in _STRINGS_AND_BRACKETS.finditer(text):
        match text[token.start()]:
            case "[" | "{":
                depth += 1
            case "]" | "}":
                depth -= 1
        if depth > MAX_DEPTH:
            raise NotStrictJson([Fault("", f"nested deeper than {MAX_DEPTH} levels at character {token.start()}")])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    doubled = _Doubled(plain)
    doubled.names = frozenset(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
    return doubled


def _integer(text: str) -> int | _Unusable:
    # By length first: int() of a very long literal raises by itself, with advice meant for programmers.
    if len(text) > len(str(-MAX_INTEGER)) or abs(int(text)) > MAX_INTEGER:
        return _changed(text, "an integer beyond ±2^53")
    return int(text)


def _fraction(text: str) -> float | _Unusable:
    """What every reader gives back as it was sent: the shortest text of its double is the same number."""
    value = float(text)
    if math.isinf(value):
        return _changed(text, "beyond what a double holds")
    if value == 0:
        significand = re.split("[eE]", text)[0]
        return _changed(text, "too close to zero for a double") if re.search("[1-9]", significand) else value
    if Decimal(text) != Decimal(repr(value)):
        return _changed(text, f"read as {value!r}")
    return value


def _changed(text: str, how: str) -> _Unusable:
    return _Unusable(f"the number {shown(text)} is {how}: readers would change its digits; send it as a string")


def _faults(value: object, pointer: str = "") -> Iterator[Fault]:
    match value:
        case _Unusable():
            yield Fault(pointer, value.why)
        case str():
            yield from _text_faults(value, pointer)
        case list():
            for index, element in enumerate(value):
                yield from _faults(element, child(pointer, index))
        case dict():
            if isinstance(value, _Doubled):
                yield from (Fault(child(pointer, name), "stands twice in its object") for name in sorted(value.names))
            for name, member in value.items():
                yield from _text_faults(name, child(pointer, name), "its name")
                yield from _faults(member, child(pointer, name))


def _text_faults(text: str, pointer: str, what: str = "the text") -> Iterator[Fault]:
    if found := _UNSTORABLE.search(text):
        kind = "a NUL character" if found[0] == "\0" else "half of a surrogate pair"
        yield Fault(pointer, f"{what} holds {kind} (\\u{ord(found[0]):04x}), which cannot be stored")
