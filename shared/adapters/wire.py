"""Job records in DynamoDB's wire form, as tables return them and streams carry them."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from typing import Any

from shared.domain.job import Effect, Job, Progress, from_ms, to_ms
from shared.domain.states import State
from shared.errors import HoldfastError

Item = dict[str, dict[str, Any]]

RECORD_KEY = "JOB"
_SECONDS = frozenset({"expires_at"})
"""TTL reads epoch seconds and nothing else; every other time is in milliseconds."""


class UnreadableRecordError(HoldfastError, ValueError):
    """An item that is not a job record this version can read. The message names the attribute."""


def job_key(job_id: str) -> Item:
    """The primary key of a job's record."""
    return {"pk": {"S": f"JOB#{job_id}"}, "sk": {"S": RECORD_KEY}}


def encode(field: str, value: Any) -> dict[str, Any]:
    """One attribute value, as the record's `field` stores it."""
    match value:
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": str(value)}
        case int() | float():
            return {"N": repr(value)}
        case bytes():
            return {"B": value}
        case datetime():
            return {"N": str(to_ms(value) // 1000 if field in _SECONDS else to_ms(value))}
        case Progress():
            return {"M": {n: encode(n, getattr(value, n)) for n in ("done", "total", "unit")}}
        case Effect():
            said = {f.name: encode(f.name, getattr(value, f.name)) for f in fields(Effect)}
            return {"M": {name: inner for name, inner in said.items() if "NULL" not in inner}}
        case Mapping():
            return {"M": {str(name): encode("", inner) for name, inner in value.items()}}
        case list() | tuple():
            return {"L": [encode("", inner) for inner in value]}
        case None:
            return {"NULL": True}
    raise TypeError(f"{field}: a job record cannot hold a {type(value).__name__}")


def to_item(job: Job) -> Item:
    """The whole record; fields that are None are absent, zero counters too few bytes to leave out."""
    item = job_key(job.job_id)
    for f in fields(Job):
        value = getattr(job, f.name)
        if f.name != "job_id" and value is not None:
            item[f.name] = encode(f.name, value)
    return item


def from_item(item: Mapping[str, Mapping[str, Any]]) -> Job:
    """The record of an item. Raises UnreadableRecordError naming the attribute that is missing or of another kind."""
    values: dict[str, Any] = {"job_id": _job_id(item)}
    for name, kind, required in _FIELDS:
        if name in item:
            values[name] = _decode(name, kind, item[name])
        elif required:
            raise UnreadableRecordError(f"{values['job_id']}: attribute {name!r} is missing")
    return Job(**values)


def _job_id(item: Mapping[str, Mapping[str, Any]]) -> str:
    pk = item.get("pk", {}).get("S", "")
    if not pk.startswith("JOB#") or item.get("sk", {}).get("S") != RECORD_KEY:
        raise UnreadableRecordError(f"not a job record: pk={pk!r}")
    return str(pk[len("JOB#") :])


def _decode(name: str, kind: type, value: Mapping[str, Any]) -> Any:
    try:
        return _READ[kind](name, value)
    except (KeyError, ValueError, TypeError, AttributeError, ArithmeticError) as e:
        raise UnreadableRecordError(f"attribute {name!r} is no {kind.__name__}: {_found(kind, value)}") from e


def _found(kind: type, value: Any) -> str:
    """A number, a time or a state may be shown; a text may be somebody's."""
    if kind in (int, datetime, State):
        return str(value)[:80]
    return ", ".join(value) if isinstance(value, Mapping) else type(value).__name__


def _time(name: str, value: Mapping[str, Any]) -> datetime:
    return from_ms(int(value["N"]) * (1000 if name in _SECONDS else 1))


def plain(value: Mapping[str, Any]) -> Any:
    """The Python value of one attribute: str, int, float, bool, None, bytes, list or dict."""
    ((kind, inner),) = value.items()
    match kind:
        case "N":
            return int(inner) if inner.lstrip("-").isdigit() else float(inner)
        case "M":
            return {name: plain(v) for name, v in inner.items()}
        case "L":
            return [plain(v) for v in inner]
        case "NULL":
            return None
    return inner


_READ: Mapping[type, typing.Callable[[str, Mapping[str, Any]], Any]] = {
    str: lambda _, v: str(v["S"]),
    int: lambda _, v: int(v["N"]),
    bytes: lambda _, v: bytes(v["B"]),
    State: lambda _, v: State(v["S"]),
    datetime: _time,
    Progress: lambda _, v: Progress(**plain({"M": v["M"]})),
    Effect: lambda _, v: {name: _effect(entry["M"]) for name, entry in v["M"].items()},
    dict: lambda _, v: plain({"M": v["M"]}),
}


def _effect(entry: Mapping[str, Any]) -> Effect:
    outcome = entry["outcome"]["S"] if "outcome" in entry else None
    run, at = int(entry["run"]["N"]), from_ms(int(entry["at"]["N"]))
    return Effect(status=str(entry["status"]["S"]), run=run, at=at, outcome=outcome)


def _kind(hint: Any) -> type:
    inner = [h for h in typing.get_args(hint) if h is not types.NoneType] if _optional(hint) else [hint]
    if Effect in typing.get_args(inner[0]):
        return Effect
    kind = typing.get_origin(inner[0]) or inner[0]
    return kind if kind in _READ else dict


def _optional(hint: Any) -> bool:
    return types.NoneType in typing.get_args(hint)


_HINTS = typing.get_type_hints(Job)
_FIELDS = [
    (f.name, _kind(_HINTS[f.name]), f.default is MISSING and f.default_factory is MISSING)
    for f in fields(Job)
    if f.name != "job_id"
]
