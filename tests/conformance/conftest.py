"""The jobs table twice: DynamoDB as moto plays it, and the in-memory twin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from shared.adapters.dynamodb import DynamoJobStore
from shared.adapters.memory import MemoryJobStore
from shared.ports import JobStore
from tests.aws import create_jobs_table, create_plain_table


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("dynamodb", region_name="eu-west-1")


@pytest.fixture(params=["twin", "dynamodb"])
def store(request: pytest.FixtureRequest) -> Iterator[JobStore]:
    if request.param == "twin":
        yield MemoryJobStore()
        return
    client = request.getfixturevalue("dynamodb")
    create_jobs_table(client, "jobs")
    create_plain_table(client, "exports")
    yield DynamoJobStore(client, "jobs", sleep=lambda _: None)
    client.delete_table(TableName="jobs")
    client.delete_table(TableName="exports")
