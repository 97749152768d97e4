"""The head of a request to the local address: one reading, or a refusal."""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.request_head import BadHead, Head, read_head

GOOD = b"POST /jobs?x=%20 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n"


def read(raw: bytes) -> Head | None:
    return read_head(io.BytesIO(raw).readline)


def with_line(line: bytes) -> bytes:
    return b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n" + line + b"\r\n\r\n"


def test_a_head_is_read_as_it_came() -> None:
    head = read(GOOD)

    assert head is not None
    assert (head.method, head.target, head.length, head.keeps_open) == ("POST", "/jobs?x=%20", 2, True)
    assert head.headers == (("Host", "127.0.0.1"), ("Content-Length", "2"))


def test_a_closed_connection_is_no_request() -> None:
    assert read(b"") is None


def test_an_empty_value_and_one_in_another_script_are_values() -> None:
    head = read(with_line(b"X-Note:\r\nX-Name: caf\xe9  \r\nX-Words: two words"))

    assert head is not None
    assert head.headers[1:] == (("X-Note", ""), ("X-Name", "caf\xe9"), ("X-Words", "two words"))


@pytest.mark.parametrize(
    ("what", "raw"),
    [
        ("two lengths", with_line(b"Content-Length: 2\r\nContent-Length: 40")),
        ("two equal lengths", with_line(b"Content-Length: 2\r\nContent-Length: 2")),
        ("a list of lengths", with_line(b"Content-Length: 2, 2")),
        ("a length of 5,000 digits", with_line(b"Content-Length: " + b"9" * 5000)),
        ("a negative length", with_line(b"Content-Length: -1")),
        ("a signed length", with_line(b"Content-Length: +1")),
        ("a length in hexadecimal", with_line(b"Content-Length: 0x2")),
        ("a length in other digits", with_line("Content-Length: ٣".encode())),
        ("no length", with_line(b"Content-Length:")),
        ("a blank before the colon", with_line(b"Content-Length : 2")),
        ("a tab before the colon", with_line(b"Content-Length\t: 2")),
        ("a folded line", with_line(b"X-A: b\r\n c")),
        ("a line without a colon", with_line(b"X-A b")),
        ("a line without a name", with_line(b": b")),
        ("a name in another script", with_line("X-Ä: b".encode())),
        ("a NUL", with_line(b"X-A: a\0b")),
        ("a bare CR", with_line(b"X-A: a\rContent-Length: 2")),
        ("a bare LF", with_line(b"X-A: a\nContent-Length: 2")),
        ("a bare LF after the request line", b"GET /jobs HTTP/1.1\nHost: 127.0.0.1\r\n\r\n"),
        ("a target in another script", "GET /jöbs HTTP/1.1\r\n\r\n".encode()),
        ("a method in another script", "GÉT /jobs HTTP/1.1\r\n\r\n".encode()),
        ("a blank in the target", b"GET /jobs /x HTTP/1.1\r\n\r\n"),
        ("two blanks", b"GET  /jobs HTTP/1.1\r\n\r\n"),
        ("no method", b" /jobs HTTP/1.1\r\n\r\n"),
        ("another site's address", b"GET http://evil.example/jobs HTTP/1.1\r\n\r\n"),
        ("no version", b"GET /jobs\r\n\r\n"),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("an empty line first", b"\r\n" + GOOD),
        ("an end within the head", GOOD[:-2]),
        ("an end within a line", GOOD[:-9]),
    ],
)
def test_what_two_readers_could_read_differently_is_a_400(what: str, raw: bytes) -> None:
    with pytest.raises(BadHead) as refused:
        read(raw)

    assert refused.value.status == 400, what


def test_chunks_are_refused_because_the_length_must_be_said() -> None:
    with pytest.raises(BadHead) as refused:
        read(with_line(b"Transfer-Encoding: chunked"))

    assert refused.value.status == 411


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (with_line(b"X-A: " + b"a" * 70_000), 431),
        (with_line(b"\r\n".join([b"X-A: a"] * 200)), 431),
        (b"GET /" + b"a" * 70_000, 414),
    ],
)
def test_a_head_without_end_is_refused_before_it_is_held(raw: bytes, status: int) -> None:
    with pytest.raises(BadHead) as refused:
        read(raw)

    assert refused.value.status == status


PIECES = [
    b"GET",
    b" ",
    b"/jobs",
    b"HTTP/1.1",
    b"\r\n",
    b"\n",
    b"\r",
    b":",
    b"\0",
    b"Content-Length",
    b"5",
    b"\xff",
    b"a",
]


@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=8), max_size=40).map(b"".join))
def test_whatever_is_sent_is_read_or_refused(raw: bytes) -> None:
    with contextlib.suppress(BadHead):
        head = read(raw)
        assert head is None or head.target.isascii()
