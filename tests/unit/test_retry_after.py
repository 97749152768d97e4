"""Retry-After, in every form that RFC 9110 obliges its reader to take, from every library that hands it on."""

from __future__ import annotations

import urllib.error
from datetime import UTC, datetime, timedelta
from email.message import Message
from typing import Any

import pytest
import urllib3

from shared.domain.failures import classify
from shared.domain.retry_after import parse_retry_after, retry_after_of
from tests.builders import NOW

MOMENT = datetime(1994, 11, 6, 8, 48, 37, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    "value",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",  # RFC 9110's own three
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun, 06 Nov 1994 08:49:37 -0000",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 10:49:37 +0200",
        "60",
        " 60 ",
    ],
)
def test_every_form_is_read_and_a_date_without_a_zone_is_utc(value: str) -> None:
    assert parse_retry_after(value, MOMENT) == MINUTE


@pytest.mark.parametrize(("value", "seconds"), [("45.5", 46), ("45.0", 45), ("0.1", 1), ("45.", 45), ("0", 0)])
def test_a_fraction_is_rounded_up(value: str, seconds: int) -> None:
    assert parse_retry_after(value, NOW) == timedelta(seconds=seconds)


def test_a_date_within_the_second_is_rounded_up_too() -> None:
    begun = MOMENT + timedelta(milliseconds=300)
    assert parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", begun) == MINUTE


@pytest.mark.parametrize(
    "value",
    [
        "5, 60, 30",
        "60,soon",
        "5, Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:00 GMT",
        "Sun Nov  6 08:49:37 1994, Sunday, 06-Nov-94 08:49:07 GMT",
    ],
)
def test_of_a_header_that_was_sent_twice_the_longest_wait_counts(value: str) -> None:
    assert parse_retry_after(value, MOMENT) == MINUTE


def _message(*values: str) -> Message:
    said = Message()
    for value in values:
        said["Retry-After"] = value
    return said


class LikeAiohttp(dict[str, str]):
    """A multidict: `get` is the first of several."""

    def getall(self, name: str, default: Any = None) -> Any:
        return ["5", "60"] if name == "retry-after" else default


@pytest.mark.parametrize(
    "headers",
    [
        _message("5", "60"),
        urllib3.HTTPHeaderDict([("Retry-After", "5"), ("Retry-After", "60")]),
        LikeAiohttp({"retry-after": "5"}),
        {"retry-after": "5, 60"},  # requests and httpx join them
        {"Retry-After": 60},
    ],
    ids=["urllib", "urllib3", "aiohttp", "requests", "a number"],
)
def test_a_repeated_header_is_found_wherever_a_library_keeps_it(headers: Any) -> None:
    assert retry_after_of(headers, NOW) == MINUTE


def test_urllibs_error_with_two_of_them_waits_for_the_longer() -> None:
    error = urllib.error.HTTPError("https://partner.example", 503, "no", _message("5", "60"), None)
    assert classify(error, NOW).retry_after == MINUTE


@pytest.mark.parametrize("headers", [None, {}, [], "text", _message(), 7])
def test_headers_that_ask_for_nothing_ask_for_nothing(headers: Any) -> None:
    assert retry_after_of(headers, NOW) is None


@pytest.mark.parametrize(
    "value", ["", "soon", "-5", "1e400", "Wed, 99 Foo 2026", "٣", ",", "9" * 400, "inf", "nan", "5;6"]
)
def test_a_retry_after_that_says_nothing_sensible_never_raises(value: str) -> None:
    wait = parse_retry_after(value, NOW)
    assert wait is None or timedelta() <= wait <= timedelta(days=30)


def test_a_retry_after_of_years_is_cut() -> None:
    assert parse_retry_after("999999999999", NOW) == timedelta(days=30)


def test_an_epoch_second_is_cut_like_any_wait_of_years() -> None:
    assert parse_retry_after("1783000000", NOW) == timedelta(days=30)
