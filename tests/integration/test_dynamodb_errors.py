"""What DynamoDB answers when it does not do what it was asked; the real client parses the answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from shared.adapters.dynamodb import DynamoJobStore
from shared.adapters.wire import to_item
from shared.domain.job import to_ms
from shared.domain.states import MARK, Seen, State
from shared.domain.writes import Write
from shared.errors import AlreadySubmitted, StoreUnavailable
from shared.ports import Row
from tests.builders import NOW, a_job

ROW = Row("exports", {"pk": "EXPORT#1", "sk": "EXPORT"})


class Answers:
    """A real client whose answers are queued; `pauses` counts the waits between tries."""

    def __init__(self) -> None:
        client = boto3.client(
            "dynamodb", region_name="eu-west-1", aws_access_key_id="test", aws_secret_access_key="test"
        )
        self.stub = Stubber(client)
        self.stub.activate()
        self.pauses: list[float] = []
        self.store = DynamoJobStore(client, "jobs", sleep=self.pauses.append)

    def cancelled(self, *codes: str) -> None:
        self.stub.add_client_error(
            "transact_write_items",
            "TransactionCanceledException",
            modeled_fields={"CancellationReasons": [{"Code": code} for code in codes]},
        )


@pytest.fixture
def answers() -> Answers:
    return Answers()


def test_a_transaction_in_conflict_is_tried_again(answers: Answers) -> None:
    answers.cancelled("TransactionConflict", "None")
    answers.stub.add_response("transact_write_items", {})
    answers.store.submit_with(a_job(), [ROW], NOW)
    assert len(answers.pauses) == 1


def test_a_failed_condition_beside_a_conflict_is_read_again_before_it_is_believed(answers: Answers) -> None:
    job = a_job()
    answers.cancelled("ConditionalCheckFailed", "TransactionConflict")
    answers.stub.add_response("get_item", {"Item": to_item(job)})
    with pytest.raises(AlreadySubmitted) as taken:
        answers.store.submit_with(job, [ROW], NOW)
    assert taken.value.found == job


def test_a_failed_condition_whose_record_is_gone_when_read_is_tried_again(answers: Answers) -> None:
    answers.cancelled("ConditionalCheckFailed", "None")
    answers.stub.add_response("get_item", {})
    answers.stub.add_response("transact_write_items", {})
    answers.store.submit_with(a_job(), [ROW], NOW)


def test_a_conflict_beside_a_throttle_backs_off_and_in_the_end_says_unavailable(answers: Answers) -> None:
    for _ in range(5):
        answers.cancelled("TransactionConflict", "ThrottlingError")
    with pytest.raises(StoreUnavailable):
        answers.store.submit_with(a_job(), [ROW], NOW)
    assert len(answers.pauses) == 5


def test_a_transaction_that_is_wrong_is_raised_as_it_is(answers: Answers) -> None:
    answers.cancelled("ValidationError", "None")
    with pytest.raises(ClientError, match="TransactionCanceledException"):
        answers.store.submit_with(a_job(), [ROW], NOW)
    assert answers.pauses == []


CALLS: list[tuple[str, Callable[[DynamoJobStore], Any]]] = [
    ("put_item", lambda store: store.submit(a_job(), NOW)),
    ("update_item", lambda store: store.apply(a_job().job_id, Write(MARK, Seen(dispatch=1), {"published_at": NOW}))),
    ("get_item", lambda store: store.get(a_job().job_id)),
    ("query", lambda store: store.runs(a_job())),
]


@pytest.mark.parametrize(
    "code", ["ThrottlingException", "ProvisionedThroughputExceededException", "InternalServerError"]
)
@pytest.mark.parametrize(("operation", "call"), CALLS, ids=[name for name, _ in CALLS])
def test_what_passes_by_itself_is_unavailable_on_every_call(
    answers: Answers, operation: str, call: Callable[[DynamoJobStore], Any], code: str
) -> None:
    answers.stub.add_client_error(operation, code)
    with pytest.raises(StoreUnavailable, match=code):
        call(answers.store)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize(("operation", "call"), CALLS, ids=[name for name, _ in CALLS])
def test_a_bare_5xx_without_a_body_is_unavailable_too(
    answers: Answers, operation: str, call: Callable[[DynamoJobStore], Any], status: int
) -> None:
    answers.stub.add_client_error(operation, str(status), http_status_code=status)
    with pytest.raises(StoreUnavailable):
        call(answers.store)


def test_records_and_payloads_are_read_strongly_a_get_right_after_the_202_finds_the_job(answers: Answers) -> None:
    job = a_job()
    key = {"pk": {"S": f"JOB#{job.job_id}"}, "sk": {"S": "JOB"}}
    answers.stub.add_response("get_item", {}, {"TableName": "jobs", "Key": key, "ConsistentRead": True})
    assert answers.store.get(job.job_id) is None
    key = key | {"sk": {"S": f"PAYLOAD#{(b'k' * 16).hex()}"}}
    answers.stub.add_response("get_item", {}, {"TableName": "jobs", "Key": key, "ConsistentRead": True})
    assert answers.store.get_payload(job.job_id, b"k" * 16) is None


def test_a_long_history_is_read_to_its_end(answers: Answers) -> None:
    job = a_job()
    item = {"ended_at": {"N": str(to_ms(NOW))}, "outcome": {"S": "retrying"}, "expires_at": {"N": "1"}}
    pages = [[{"sk": {"S": "RUN#0000000001"}, **item}], [{"sk": {"S": "RUN#0000000002"}, **item}]]
    last = {"pk": {"S": "x"}}
    answers.stub.add_response("query", {"Items": pages[0], "LastEvaluatedKey": last})
    answers.stub.add_response("query", {"Items": pages[1]})
    assert [run.run for run in answers.store.runs(job)] == [1, 2]


@pytest.mark.parametrize(("operation", "call"), CALLS, ids=[name for name, _ in CALLS])
def test_a_right_that_is_missing_is_no_outage(
    answers: Answers, operation: str, call: Callable[[DynamoJobStore], Any]
) -> None:
    answers.stub.add_client_error(operation, "AccessDeniedException")
    with pytest.raises(ClientError, match="AccessDenied"):
        call(answers.store)


def test_a_table_that_cannot_be_reached_is_unavailable() -> None:
    client = boto3.client(
        "dynamodb",
        region_name="eu-west-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        endpoint_url="http://127.0.0.1:9",
        config=boto3.session.Config(retries={"total_max_attempts": 1}, connect_timeout=1),
    )
    with pytest.raises(StoreUnavailable, match="EndpointConnectionError"):
        DynamoJobStore(client, "jobs").submit(a_job(), NOW)


def test_an_expired_record_that_refuses_is_never_taken_for_the_same_job(answers: Answers) -> None:
    """TTL may delete between the refusal and the read: then the submit is tried again, not answered with a ghost."""
    old = a_job(state=State.COMPLETED, expires_at=NOW.replace(year=2025))
    answers.cancelled("ConditionalCheckFailed", "None")
    answers.stub.add_response("get_item", {"Item": to_item(old)})
    answers.stub.add_response("transact_write_items", {})
    answers.store.submit_with(a_job(job_id=old.job_id), [ROW], NOW)
