"""Retry-After (RFC 9110 §10.2.3): how long a server asks to be left alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from shared.errors import LONGEST_RETRY_AFTER

_SECONDS = re.compile(r"[0-9]+(\.[0-9]*)?")
_BETWEEN_VALUES = re.compile(r"(?<=[0-9A-Z]),")
"""A header sent twice is one line to most readers. The comma inside a date follows a weekday, in a small letter."""


def parse_retry_after(value: str, now: datetime) -> timedelta | None:
    """The longest wait that the header asks for, in whole seconds rounded up, cut to 30 days; None where it says
    nothing that can be read.
    """
    waits = [wait for one in _BETWEEN_VALUES.split(value) if (wait := _wait(one.strip(), now)) is not None]
    return timedelta(seconds=math.ceil(min(max(*waits, 0.0), LONGEST_RETRY_AFTER.total_seconds()))) if waits else None


def retry_after_of(headers: Any, now: datetime) -> timedelta | None:
    """The wait in the headers of any library's response: a mapping, or one of those that hold a name several times."""
    return parse_retry_after(", ".join(_values(headers)), now)


def _values(headers: Any) -> Iterable[str]:
    for every in ("get_all", "getall"):  # email.message and urllib3; aiohttp. `get` gives the first of several
        if hasattr(headers, every):
            return [str(value) for value in getattr(headers, every)("retry-after", None) or ()]
    value = headers.get("retry-after") or headers.get("Retry-After") if hasattr(headers, "get") else None
    return () if value is None else [str(value)]


def _wait(value: str, now: datetime) -> float | None:
    """In seconds. All three forms of a date are read, and all mean UTC: asctime's, which names no zone, and "-0000",
    by which Python leaves it open.
    """
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        at = parsedate_to_datetime(value)
        return ((at if at.tzinfo is not None else at.replace(tzinfo=UTC)) - now).total_seconds()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
