"""Declarations that cannot work are refused by name, at import, so at synthesis."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.retry import DEFAULT_POLICY
from shared.errors import DeclarationError
from shared.queues import LAMBDA_LIMIT, MAX_RECEIVES, QUEUES, Queue, declare


def a_queue(**fields: Any) -> Queue:
    values = {
        "name": "exports.month-end",
        "deadline": timedelta(minutes=10),
        "parallelism": 4,
        "max_concurrency": 10,
        "memory_mb": 2048,
        "oldest_age_alarm": timedelta(minutes=15),
    }
    return Queue(**(values | fields))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"deadline": timedelta(minutes=15)},
            r"queue 'exports.month-end': a deadline of 15 min leaves no room in Lambda",
        ),
        ({"deadline": timedelta(minutes=4), "fifo": True}, "4 jobs of one key in a row"),
        ({"deadline": timedelta()}, "no time to run"),
        ({"deadline": timedelta(seconds=1.5)}, "whole number of seconds"),
        ({"parallelism": 0}, "parallelism 0"),
        ({"parallelism": 65}, "parallelism 65"),
        ({"max_concurrency": 1}, "max_concurrency 1 is outside the 2..1000"),
        ({"max_concurrency": 1001}, "max_concurrency 1001"),
        ({"memory_mb": 64}, "64 MB"),
        ({"oldest_age_alarm": timedelta(minutes=10)}, "rings for healthy jobs"),
        ({"reads": ("",)}, "a prefix is one lower-case name and a slash"),
        ({"reads": ("*/",)}, "files under '\\*/'"),
        ({"writes": ("exports",)}, "files under 'exports'"),
        ({"writes": ("exports/acme-eu/",)}, "files under 'exports/acme-eu/'"),
        ({"name": "Exports"}, "lower-case"),
        ({"name": "a..b"}, "lower-case"),
        ({"name": "x" * 41}, "at most 40"),
    ],
)
def test_an_impossible_queue_is_refused_by_name(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(DeclarationError, match=why):
        a_queue(**fields)


def test_two_queues_that_sqs_would_call_the_same_are_refused() -> None:
    with pytest.raises(DeclarationError, match=r"'a-b'.*like 'a\.b'"):
        declare(a_queue(name="a.b"), a_queue(name="a-b"))


def test_a_physical_name_longer_than_sqs_takes_is_refused() -> None:
    with pytest.raises(DeclarationError, match="80 characters"):
        a_queue(name="x" * 40).dead_letter_name("holdfast-" + "y" * 40)


def check(queue: Queue) -> None:
    assert queue.visibility_timeout >= 6 * queue.function_timeout
    assert queue.visibility_timeout <= timedelta(hours=12)
    assert queue.function_timeout <= LAMBDA_LIMIT
    in_a_row = queue.batch_size if queue.fifo else 1
    assert queue.function_timeout >= in_a_row * queue.deadline + timedelta(seconds=30)
    assert queue.batch_size <= min(queue.parallelism, 10)


@pytest.mark.parametrize("queue", QUEUES.values(), ids=lambda q: q.name)
def test_every_declared_queue_has_room_for_a_full_batch_and_hides_messages_long_enough(queue: Queue) -> None:
    check(queue)
    assert 5 * DEFAULT_POLICY.max_attempts < MAX_RECEIVES
    assert queue.physical_name("holdfast-dev").endswith(".fifo") == queue.fifo
    assert "." not in queue.physical_name("holdfast-dev").removesuffix(".fifo")


@given(
    seconds=st.integers(1, 2000),
    parallelism=st.integers(1, 64),
    fifo=st.booleans(),
)
def test_whatever_can_be_declared_has_room_and_the_rest_is_refused(seconds: int, parallelism: int, fifo: bool) -> None:
    try:
        deadline = timedelta(seconds=seconds)
        queue = a_queue(deadline=deadline, parallelism=parallelism, fifo=fifo, oldest_age_alarm=2 * deadline)
    except DeclarationError:
        return
    check(queue)


def test_the_five_lanes_are_declared() -> None:
    assert list(QUEUES) == ["emails.high", "emails.bulk", "webhooks.partner-a", "exports.month-end", "thumbnails"]
    assert [q.name for q in QUEUES.values() if q.fifo] == ["webhooks.partner-a"]
