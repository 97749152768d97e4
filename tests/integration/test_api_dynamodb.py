"""The API on the real table adapter: moto for what is stored, a server of our own for how a table fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws

from shared.adapters.dynamodb import DynamoJobStore
from shared.domain.job import MAX_PAYLOAD_BYTES
from tests.api import EXPORT, EXPORT_JOB, Client
from tests.aws import create_jobs_table
from tests.builders import NOW

KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "eu-west-1"}


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("dynamodb", **KEYS)


@pytest.fixture
def client(dynamodb: Any) -> Iterator[Client]:
    create_jobs_table(dynamodb, "jobs")
    dynamodb.create_table(
        TableName="exports",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": n, "AttributeType": "S"} for n in ("pk", "sk")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    )
    yield Client(store=DynamoJobStore(dynamodb, "jobs"))
    dynamodb.delete_table(TableName="jobs")
    dynamodb.delete_table(TableName="exports")


def stored(dynamodb: Any) -> tuple[int, int]:
    return tuple(dynamodb.scan(TableName=table)["Count"] for table in ("jobs", "exports"))  # type: ignore[return-value]


def test_a_get_right_after_the_202_finds_the_job(client: Client, dynamodb: Any) -> None:
    for path, body in (("/jobs", EXPORT_JOB), ("/exports", EXPORT)):
        accepted = client.post(path, body)
        found = client.get(accepted.headers["location"])
        assert (accepted.status, found.status, found.json["tenantId"]) == (202, 200, "acme-eu")
    assert stored(dynamodb) == (2, 1)


def test_an_export_sent_twice_with_one_key_is_one_row_and_one_job(client: Client, dynamodb: Any) -> None:
    answers = [client.post("/exports", EXPORT, {"Idempotency-Key": "k"}) for _ in range(2)]
    assert answers[0].json == answers[1].json
    assert answers[1].headers["idempotent-replayed"] == "true"
    assert stored(dynamodb) == (1, 1)


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/jobs", "[" * 200_000, {}, 400),
        ("/jobs", '{"type": "invoice-export", "type": "invoice-export"}', {}, 400),
        ("/jobs", json.dumps(EXPORT_JOB | {"tenantId": "acme\0"}), {}, 400),
        ("/jobs", EXPORT_JOB | {"delaySeconds": 2**53 + 2}, {}, 400),
        ("/jobs", " " * 2_000_000, {}, 413),
        ("/jobs", EXPORT_JOB, {"content-type": "text/plain"}, 415),
        ("/jobs", EXPORT_JOB, {"Idempotency-Key": ""}, 400),
        ("/jobs", EXPORT_JOB | {"type": "nope"}, {}, 422),
        ("/jobs", EXPORT_JOB | {"tenantId": "acme\u0007"}, {}, 422),
        ("/jobs", EXPORT_JOB | {"payload": EXPORT | {"month": "2026-13"}}, {}, 422),
        ("/jobs", EXPORT_JOB | {"payload": EXPORT | {"note": "x" * MAX_PAYLOAD_BYTES}}, {}, 422),
        ("/exports", EXPORT | {"month": "2026-13"}, {}, 422),
        ("/exports", {"tenantId": "acme-eu"}, {}, 422),
        ("/exports", "", {}, 400),
    ],
)
def test_nothing_is_stored_of_what_is_refused(
    client: Client, dynamodb: Any, path: str, body: object, headers: dict[str, str], status: int
) -> None:
    assert client.post(path, body, headers).status == status
    assert stored(dynamodb) == (0, 0)


def test_a_key_reused_with_another_content_leaves_the_first_job_alone(client: Client, dynamodb: Any) -> None:
    key = {"Idempotency-Key": "k"}
    first = client.post("/exports", EXPORT, key)
    assert client.post("/exports", EXPORT | {"month": "2026-04"}, key).status == 422
    assert stored(dynamodb) == (1, 1)
    assert client.get(first.headers["location"]).status == 200


def test_a_record_past_its_time_to_live_is_gone_though_the_table_still_has_it(client: Client, dynamodb: Any) -> None:
    url = client.post("/jobs", EXPORT_JOB).headers["location"]
    dynamodb.update_item(
        TableName="jobs",
        Key={"pk": {"S": "JOB#" + url.removeprefix("/jobs/")}, "sk": {"S": "JOB"}},
        UpdateExpression="SET expires_at = :at",
        ExpressionAttributeValues={":at": {"N": str(int(NOW.timestamp()) + 60)}},
    )
    assert client.get(url).status == 200
    client.clock.forward(timedelta(seconds=60))
    assert client.get(url).status == 404


@pytest.mark.parametrize(("path", "body"), [("/jobs", EXPORT_JOB), ("/exports", EXPORT)])
def test_a_missing_table_never_becomes_a_202_nor_shows_its_stack(dynamodb: Any, path: str, body: Any) -> None:
    client = Client(store=DynamoJobStore(dynamodb, "absent"))
    answered = client.post(path, body)
    assert answered.status in (500, 503)
    assert answered.headers["content-type"] == "application/problem+json"
    assert "same Idempotency-Key" in answered.json["detail"]
    assert "ResourceNotFound" not in answered.text
    ((_, line),) = client.log.lines
    assert line["error"] is not None


@contextmanager
def table_answering(status: int, error: str) -> Iterator[Client]:
    """A DynamoDB that answers every call with this error."""

    class Refuse(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{error}", "message": "no"}).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), Refuse) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield client_at(server.server_port)
        server.shutdown()
        thread.join()


def client_at(port: int) -> Client:
    once = Config(connect_timeout=1, read_timeout=1, retries={"mode": "standard", "total_max_attempts": 1})
    table = boto3.client("dynamodb", endpoint_url=f"http://127.0.0.1:{port}", config=once, **KEYS)
    return Client(store=DynamoJobStore(table, "jobs", sleep=lambda _: None))


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, "ProvisionedThroughputExceededException"),
        (400, "ThrottlingException"),
        (500, "InternalServerError"),
        (503, "ServiceUnavailable"),
    ],
)
def test_a_table_that_throttles_or_fails_is_a_503_with_retry_after(status: int, error: str) -> None:
    with table_answering(status, error) as client:
        answers = [
            client.post("/jobs", EXPORT_JOB),
            client.post("/exports", EXPORT),
            client.get("/jobs/job_" + "0" * 26),
        ]
    assert [answered.status for answered in answers] == [503] * 3
    assert all(int(answered.headers["retry-after"]) >= 1 for answered in answers)
    assert not [answered for answered in answers if error in answered.text]
    assert all(error in str(line["error"]) for _, line in client.log.lines)


def test_a_table_nobody_answers_for_is_a_503() -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        port = closed.server_port
    answered = client_at(port).post("/jobs", EXPORT_JOB)
    assert (answered.status, "Nothing is known to be stored" in answered.text) == (503, True)
