"""Shares: the tenants' accounts of worker time, on both."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.memory import MemoryShares
from shared.adapters.shares import DynamoShares
from shared.ports import Shares
from tests.aws import create_plain_table
from tests.builders import NOW

SECOND = timedelta(seconds=1)
LANE = "webhooks.partner-a"


@pytest.fixture(params=["twin", "dynamodb"])
def shares(request: pytest.FixtureRequest) -> Iterator[Shares]:
    if request.param == "twin":
        yield MemoryShares()
        return
    client: Any = request.getfixturevalue("dynamodb")
    create_plain_table(client, "controls")
    yield DynamoShares(client, "controls")
    client.delete_table(TableName="controls")


def test_an_account_that_nobody_charged_is_unknown(shares: Shares) -> None:
    assert shares.even_at(LANE, "acme-eu") is None


def test_charges_add_up_while_the_account_is_ahead(shares: Shares) -> None:
    shares.charge(LANE, "acme-eu", NOW, 10 * SECOND)
    shares.charge(LANE, "acme-eu", NOW + 4 * SECOND, 5 * SECOND)
    assert shares.even_at(LANE, "acme-eu") == NOW + 15 * SECOND


def test_an_account_that_was_even_is_charged_from_the_start_of_the_runs(shares: Shares) -> None:
    shares.charge(LANE, "acme-eu", NOW, 2 * SECOND)
    shares.charge(LANE, "acme-eu", NOW + 60 * SECOND, 5 * SECOND)
    assert shares.even_at(LANE, "acme-eu") == NOW + 65 * SECOND


@pytest.mark.parametrize("order", list(itertools.permutations([0, 1, 2])))
def test_batches_that_ran_side_by_side_are_all_charged_in_whatever_order_they_end(shares: Shares, order: Any) -> None:
    for place in order:
        shares.charge(LANE, "acme-eu", NOW + place * SECOND, 10 * SECOND)
    even_at = shares.even_at(LANE, "acme-eu")
    assert even_at is not None
    assert NOW + 30 * SECOND <= even_at <= NOW + 32 * SECOND


def test_each_tenant_and_each_lane_has_an_account_of_its_own(shares: Shares) -> None:
    shares.charge(LANE, "acme-eu", NOW, SECOND)
    assert shares.even_at(LANE, "other") is None
    assert shares.even_at("emails.high", "acme-eu") is None
