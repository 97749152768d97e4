"""The head of an HTTP/1 answer, read as far as it is acted on: the status line decides, whatever follows it.

Not http.client's reader: it takes 102 and 103 for the last word, and loses a yes over a header it cannot hold.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.client import BadStatusLine

LONGEST_LINE = 64 * 1024
HEAD_BYTES = 1024 * 1024
"""Of all heads together, interim ones too: beyond, a receiver only keeps us busy."""

BODY_BYTES = 64 * 1024

_STATUS_LINE = re.compile(rb"HTTP/1\.[0-9] ([1-9][0-9][0-9])\s")  # the reason may be missing, or anything
_SWITCHING_PROTOCOLS = 101


@dataclass(frozen=True, slots=True)
class Answer:
    """Of the answer only what is acted on: its body may be anything, so it is never kept."""

    status: int
    retry_after: str | None
    location: str | None


def read_answer(stream: io.BufferedIOBase, *, decided: Callable[[], None]) -> Answer:
    """The final answer. Interim ones (1xx) are skipped, except 101: we asked for no other protocol, so nothing that
    we could read comes after it (RFC 9110 §15.2).

    decided  called once the status is known; whatever cuts the rest off from then on (time, length, a reset) changes
             nothing but the headers that came too late
    Raises BadStatusLine for what is no HTTP, OSError for what ends before a final status.
    """
    lines = _lines(stream)
    status = _status(lines)
    while status < 200 and status != _SWITCHING_PROTOCOLS:
        _headers(lines)
        status = _status(lines)
    decided()
    headers: dict[bytes, str] = {}
    # Some of the body is taken so that an ordinary receiver sees an orderly end; one that drips or floods is cut off.
    with suppress(OSError):
        _headers(lines, headers)
        length = headers.get(b"content-length", "")
        stream.read(min(int(length), BODY_BYTES) if re.fullmatch("[0-9]{1,18}", length) else BODY_BYTES)
    return Answer(status, headers.get(b"retry-after"), headers.get(b"location"))


def _lines(stream: io.BufferedIOBase) -> Iterator[bytes]:
    """Each with its end; of one that is too long only the first part. Raises ConnectionError where they end."""
    left = HEAD_BYTES
    whole = True
    while left > 0:
        line = stream.readline(LONGEST_LINE)
        if not line:
            raise ConnectionResetError("the connection was closed before the answer was whole")
        left -= len(line)
        if whole:
            yield line
        whole = line.endswith(b"\n")
    raise ConnectionAbortedError(f"an answer whose head is longer than {HEAD_BYTES} bytes")


def _status(lines: Iterator[bytes]) -> int:
    line = next(lines)
    if not (found := _STATUS_LINE.match(line)):
        raise BadStatusLine(repr(line[:80]))
    return int(found[1])


def _headers(lines: Iterator[bytes], kept: dict[bytes, str] | None = None) -> None:
    """Up to the empty line; `kept` gets them as they come, names in lower case, the first of each."""
    while (line := next(lines)).strip():
        name, _, value = line.partition(b":")
        if kept is not None:
            kept.setdefault(name.lower(), value.strip().decode("latin-1"))
