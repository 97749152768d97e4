"""A job submitted inside a transaction of the caller's own: domain change and job intent, both or neither."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from shared.adapters.dynamodb import DynamoJobStore
from shared.domain.job import Job
from shared.domain.states import State
from shared.operations.submit import JobRequest, transact_items
from tests.aws import create_jobs_table
from tests.builders import NOW
from tests.promises.test_door import Notes

ORDER = {"pk": {"S": "ORDER#1"}, "sk": {"S": "ORDER"}}


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("dynamodb", region_name="eu-west-1")
        create_jobs_table(client, "jobs")
        create_jobs_table(client, "orders")
        yield client


def items(dynamodb: Any, text: str = "hello") -> tuple[Job, list[dict[str, Any]]]:
    request = JobRequest(type="note", payload={"text": text}, tenant="acme-eu", idempotency_key="order-1")
    store = DynamoJobStore(dynamodb, "jobs")
    return transact_items(request, catalogue=Notes(), store=store, now=NOW, entropy=bytes(10))  # type: ignore[arg-type]


def order_if(condition: str) -> dict[str, Any]:
    return {"Put": {"TableName": "orders", "Item": ORDER, "ConditionExpression": condition}}


def test_the_callers_change_and_the_job_commit_together(dynamodb: Any) -> None:
    job, writes = items(dynamodb)
    dynamodb.transact_write_items(TransactItems=[order_if("attribute_not_exists(pk)"), *writes])
    assert DynamoJobStore(dynamodb, "jobs").get(job.job_id) == job
    assert (job.state, job.outbox, job.dispatch) == (State.QUEUED, "open", 1)
    assert "Item" in dynamodb.get_item(TableName="orders", Key=ORDER)


def test_a_callers_change_that_is_refused_leaves_no_job(dynamodb: Any) -> None:
    job, writes = items(dynamodb)
    with pytest.raises(ClientError, match="TransactionCanceled"):
        dynamodb.transact_write_items(TransactItems=[order_if("attribute_exists(pk)"), *writes])
    assert DynamoJobStore(dynamodb, "jobs").get(job.job_id) is None


def test_a_repeated_transaction_is_refused_by_the_jobs_condition_and_the_fingerprint_says_it_is_the_same(
    dynamodb: Any,
) -> None:
    """The request token guards for ten minutes only; the condition guards as long as the record lives."""
    job, writes = items(dynamodb)
    dynamodb.transact_write_items(TransactItems=writes)
    again, writes = items(dynamodb)
    with pytest.raises(ClientError, match="TransactionCanceled") as cancelled:
        dynamodb.transact_write_items(TransactItems=writes)
    assert [r["Code"] for r in cancelled.value.response["CancellationReasons"]] == ["ConditionalCheckFailed"]
    found = DynamoJobStore(dynamodb, "jobs").get(again.job_id)
    assert found is not None
    assert found.fingerprint == again.fingerprint == job.fingerprint


def test_a_large_payload_is_stored_before_the_transaction_that_names_it(dynamodb: Any) -> None:
    job, writes = items(dynamodb, text="x" * 500)
    assert job.payload_ref is not None
    store = DynamoJobStore(dynamodb, "jobs")
    assert "xxx" in str(store.get_payload(job.job_id, job.payload_ref))
    dynamodb.transact_write_items(TransactItems=writes)
    assert store.get(job.job_id) == job
