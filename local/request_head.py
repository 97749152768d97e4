"""The head of an HTTP/1.1 request, read strictly (RFC 9112): what two readers could understand differently is refused.

`http.server` reads on where a header line is broken, and takes the rest of the head for a body; a second request could
then hide in the first one's body.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

MAX_LINE_BYTES = 16 * 1024
MAX_HEADERS = 100
MAX_LENGTH_DIGITS = 12
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rf"({_TOKEN}) (/[!-~]*) HTTP/1\.([01])")
_FIELD = re.compile(rf"({_TOKEN}):[ \t]*((?:[!-~\x80-\xff](?:[ \t!-~\x80-\xff]*[!-~\x80-\xff])?)?)[ \t]*")


class BadHead(ValueError):
    """The request cannot be read; the message says why. Whatever follows on the connection is no request."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class Head:
    """Method, target (path and query) and headers as they came, in Latin-1; `length` is the body's, in bytes."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    length: int
    keeps_open: bool

    def all(self, name: str) -> list[str]:
        """The values of a header, by its lower-case name."""
        return [value for sent, value in self.headers if sent.lower() == name]


def read_head(readline: Callable[[int], bytes]) -> Head | None:
    """The next request's head; None where the client has closed instead. Raises BadHead."""
    first = _line(readline, 414)
    if first is None:
        return None
    request = _REQUEST_LINE.fullmatch(first)
    if request is None:
        raise BadHead(400, "the request line is not: method, path in ASCII, HTTP/1.1")
    headers: list[tuple[str, str]] = []
    while line := _line(readline, 431):
        headers.append(_field(line))
        if len(headers) > MAX_HEADERS:
            raise BadHead(431, f"more than {MAX_HEADERS} header lines")
    if line is None:
        raise BadHead(400, "the connection ended within the head")
    return _head(request[1], request[2], tuple(headers), newer=request[3] == "1")


def _line(readline: Callable[[int], bytes], too_long: int) -> str | None:
    raw = readline(MAX_LINE_BYTES + 1)
    if not raw:
        return None
    if len(raw) > MAX_LINE_BYTES:
        raise BadHead(too_long, f"a line of the head has more than {MAX_LINE_BYTES} bytes")
    if not raw.endswith(b"\r\n"):
        raise BadHead(400, "a line of the head does not end with CR LF")
    return raw[:-2].decode("latin-1")


def _field(line: str) -> tuple[str, str]:
    field = _FIELD.fullmatch(line)
    if field is None:
        raise BadHead(400, "a header line is not: name, colon, value")
    return field[1], field[2]


def _head(method: str, target: str, headers: tuple[tuple[str, str], ...], newer: bool) -> Head:
    head = Head(method, target, headers, 0, keeps_open=newer)
    if head.all("transfer-encoding"):
        raise BadHead(411, "send the body with a Content-Length")
    lengths = head.all("content-length")
    if len(lengths) > 1:
        raise BadHead(400, "more than one Content-Length")
    length = lengths[0] if lengths else "0"
    if not re.fullmatch(rf"[0-9]{{1,{MAX_LENGTH_DIGITS}}}", length):
        raise BadHead(400, f"Content-Length is not a number of at most {MAX_LENGTH_DIGITS} digits")
    closing = any("close" in value.lower() for value in head.all("connection"))
    return Head(method, target, headers, int(length), keeps_open=newer and not closing)
