"""What the door calls JSON."""

from __future__ import annotations

import json
import math
import time
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lambdas.api.limits import MAX_BODY_BYTES, MAX_DEPTH, MAX_FAULTS
from lambdas.api.strict_json import NotStrictJson, read_object


def _refusal(raw: bytes) -> NotStrictJson:
    with pytest.raises(NotStrictJson) as caught:
        read_object(raw)
    return caught.value


def test_ordinary_json_is_read_as_json_reads_it() -> None:
    raw = '{"a": [1, -2.5, true, null, "é\\u00e9\\ud83d\\ude00"], "b": {"": -0.0}}'.encode()
    assert read_object(raw) == {"a": [1, -2.5, True, None, "éé😀"], "b": {"": -0.0}}


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "empty"),
        (b" \r\n", "empty"),
        (b"{", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": 1} x', "not JSON"),
        (b'{"a": 01}', "not JSON"),
        (b'{"a": "line\nbreak"}', "not JSON"),
        (b'\xef\xbb\xbf{"a": 1}', "not JSON"),
        (b'{"a": "\xff"}', "byte 7 is 0xff"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        (b"[1]", "not an array"),
        (b'"text"', "not a string"),
        (b"12", "not a number"),
        (b"null", "not null"),
        (b"true", "not a boolean"),
    ],
)
def test_what_is_no_json_object_in_utf8_is_refused_by_name(raw: bytes, says: str) -> None:
    assert says in str(_refusal(raw))


@pytest.mark.parametrize(
    ("raw", "pointer", "says"),
    [
        (b'{"type": "a", "type": "b"}', "/type", "twice"),
        (b'{"a": {"b~/c": 1, "b~\\/c": 2}}', "/a/b~0~1c", "twice"),
        (b'{"a": [0, NaN]}', "/a/1", "NaN"),
        (b'{"a": -Infinity}', "/a", "-Infinity"),
        (b'{"a": 1e400}', "/a", "beyond what a double holds"),
        (b'{"a": -1e999999999999999999999}', "/a", "beyond what a double holds"),
        (b'{"a": 0.1234567890123456789}', "/a", "read as 0.12345678901234568"),
        (b'{"a": 12345678901234567.5}', "/a", "read as 1.2345678901234568e+16"),
        (b'{"a": 3e-324}', "/a", "read as 5e-324"),
        (b'{"a": 9007199254740993}', "/a", "2^53"),
        (b'{"a": -9007199254740993}', "/a", "2^53"),
        (b'{"a": 9007199254740993.0}', "/a", "read as 9007199254740992.0"),
        (b'{"a": 1e-400}', "/a", "zero"),
        (b'{"a": 1e-999999999999999999999}', "/a", "zero"),
        (b'{"a": ' + b"9" * 5000 + b"}", "/a", "2^53"),
        (b'{"a": ["x\\u0000"]}', "/a/0", "NUL"),
        (b'{"a": "\\ud800"}', "/a", "surrogate"),
        (b'{"a": "\\udc00\\ud800"}', "/a", "surrogate"),
        (b'{"a\\u0000": 1}', "/a\xef\xbf\xbd", "its name holds a NUL"),
    ],
)
def test_what_another_reader_would_see_differently_is_refused_where_it_stands(
    raw: bytes, pointer: str, says: str
) -> None:
    (fault,) = _refusal(raw).faults
    assert (fault.pointer, says in fault.detail) == (pointer.encode("latin-1").decode(), True)


@pytest.mark.parametrize("text", ["9007199254740992", "-9007199254740992", "0", "0.50", "1E+2", "0e9999999999", "-0.0"])
def test_numbers_every_reader_agrees_on_pass(text: str) -> None:
    assert read_object(f'{{"a": {text}}}'.encode()) == {"a": json.loads(text)}


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(1e300)
@example(5e-324)
def test_every_double_passes_as_any_language_writes_it(number: float) -> None:
    for text in (repr(number), repr(number).replace("e", "E"), json.dumps(number)):
        assert read_object(f'{{"a": {text}}}'.encode()) == {"a": number}


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,30})\.[0-9]{1,30}([eE][-+]?[0-9]{1,3})?", fullmatch=True))
def test_a_number_with_a_fraction_survives_text_to_double_to_text_or_is_refused(text: str) -> None:
    survives = math.isfinite(float(text)) and Decimal(repr(float(text))) == Decimal(text)
    try:
        read_object(f'{{"a": {text}}}'.encode())
    except NotStrictJson:
        assert not survives
    else:
        assert survives


def test_every_fault_is_named_at_once_up_to_a_limit() -> None:
    assert [f.pointer for f in _refusal(b'{"a": NaN, "b": [1e999], "a": 1}').faults] == ["/a", "/b/0"]
    assert len(_refusal(b'{"a": [' + b"NaN," * 1000 + b"NaN]}").faults) == MAX_FAULTS


def test_nesting_is_allowed_to_its_limit_and_not_beyond() -> None:
    def nested(levels: int) -> bytes:
        return b'{"a": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"

    assert read_object(nested(MAX_DEPTH))
    assert f"deeper than {MAX_DEPTH}" in str(_refusal(nested(MAX_DEPTH + 1)))


def test_brackets_inside_strings_do_not_nest() -> None:
    text = "[{" * 200 + '\\"['
    assert read_object(f'{{"a": "{text}"}}'.encode())["a"] == "[{" * 200 + '"['


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 200_000,
        b'{"a":' * 50_000,
        b'"' + b'\\"' * (MAX_BODY_BYTES // 2),
        b'"\\' * (MAX_BODY_BYTES // 2),
        b'{"a": ' + b"1" * MAX_BODY_BYTES,
        b'{"a": 0.' + b"1" * MAX_BODY_BYTES,
        b'{"' + b"a" * MAX_BODY_BYTES,
    ],
    ids=["brackets", "objects", "escaped quotes", "quotes", "digits", "decimals", "name"],
)
def test_a_bomb_is_refused_in_less_than_a_second(raw: bytes) -> None:
    began = time.process_time()
    _refusal(raw)
    assert time.process_time() - began < 1
