"""Counters: what quotas count, on both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shared.adapters.counters import DynamoCounters
from shared.adapters.memory import MemoryCounters
from shared.domain.quota import Standing
from shared.ports import Counters
from tests.aws import create_plain_table


@pytest.fixture(params=["twin", "dynamodb"])
def counters(request: pytest.FixtureRequest) -> Iterator[Counters]:
    if request.param == "twin":
        yield MemoryCounters()
        return
    client: Any = request.getfixturevalue("dynamodb")
    create_plain_table(client, "controls")
    yield DynamoCounters(client, "controls")
    client.delete_table(TableName="controls")


def test_a_minute_is_counted_up_for_each_subject_apart(counters: Counters) -> None:
    assert [counters.take("tenant#a", 1, 30), counters.take("tenant#a", 1, 30)] == [30, 60]
    assert counters.take("tenant#b", 1, 1) == 1
    assert counters.take("tenant#a", 2, 5) == 5


def test_what_is_open_is_the_sum_of_the_months(counters: Counters) -> None:
    counters.count("a", "2026-05", 3, 700)
    counters.count("a", "2026-06", 2, 0)
    counters.count("a", "2026-05", -1, -200)
    counters.count("ab", "2026-05", 9, 9)
    assert counters.standing("a") == Standing(4, 500)


def test_a_month_that_drifted_below_nothing_takes_nothing_from_the_others(counters: Counters) -> None:
    counters.count("a", "2026-05", -4, -100)
    counters.count("a", "2026-06", 2, 50)
    assert counters.standing("a") == Standing(2, 50)


def test_of_a_tenant_nobody_counted_nothing_is_open(counters: Counters) -> None:
    assert counters.standing("a") == Standing(0, 0)
