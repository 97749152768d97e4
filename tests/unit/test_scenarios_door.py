"""The door when the table is busy, when a key comes again, and when it comes again with another body."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from shared.adapters.dynamodb import DynamoJobStore
from shared.adapters.memory import MemoryJobStore
from shared.domain.job import Job
from shared.domain.states import State
from shared.errors import StoreUnavailable
from shared.operations.submit import JobRequest, submit
from tests.api import EXPORT, EXPORT_JOB, Client
from tests.aws import create_jobs_table
from tests.builders import NOW, a_message
from tests.unit.test_submit import Notes
from tests.world import World

KEY = {"Idempotency-Key": "month-end"}
PATHS = [("/jobs", EXPORT_JOB), ("/exports", EXPORT)]
OTHER = {"/jobs": EXPORT_JOB | {"payload": EXPORT | {"month": "2026-04"}}, "/exports": EXPORT | {"month": "2026-04"}}


@dataclass
class Throttling:
    """A real client of a real table that answers some calls with a throttle, before or after it did them."""

    client: Any
    refuses: Any
    after: bool = False
    refused: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        def call(**arguments: Any) -> Any:
            if not self.refuses(name, arguments):
                return getattr(self.client, name)(**arguments)
            if self.after:
                getattr(self.client, name)(**arguments)
            self.refused.append(name)
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow down"}}, name)

        return call


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("dynamodb", region_name="eu-west-1")
        for table in ("jobs", "exports"):
            create_jobs_table(client, table)
        yield client


def items(dynamodb: Any) -> list[str]:
    found = [item for table in ("jobs", "exports") for item in dynamodb.scan(TableName=table)["Items"]]
    return sorted(item["sk"]["S"].partition("#")[0] for item in found)


def writes_a_record(name: str, arguments: dict[str, Any]) -> bool:
    return name == "transact_write_items" or (name == "put_item" and arguments["Item"]["sk"]["S"] == "JOB")


@pytest.mark.parametrize("after", [False, True], ids=["nothing done", "done, answer lost"])
@pytest.mark.parametrize(("path", "body"), PATHS)
def test_a_job_throttled_at_the_door_is_a_503_and_its_repeat_is_the_one_job(
    dynamodb: Any, path: str, body: Any, after: bool
) -> None:
    """SCENARIOS 24. Row and job, or neither; and never a 404 or 409 for what was only busy."""
    table = Throttling(dynamodb, writes_a_record, after)
    client = Client(store=DynamoJobStore(table, "jobs", sleep=lambda _: None))
    busy = client.post(path, body, KEY)
    assert (busy.status, int(busy.headers["retry-after"]) >= 1) == (503, True)
    whole = ["EXPORT", "JOB"] if path == "/exports" else ["JOB"]
    assert items(dynamodb) == (whole if after else [])
    table.refuses = lambda *_: False
    again = client.post(path, body, KEY)
    assert again.status == 202
    assert items(dynamodb) == whole
    assert client.get(again.headers["location"]).status == 200


def test_a_throttle_between_a_large_payload_and_its_record_leaves_no_record_and_the_repeat_has_both(
    dynamodb: Any,
) -> None:
    """SCENARIOS 24. The payload is written first: alone it is an orphan that its time to live removes."""
    table = Throttling(dynamodb, writes_a_record)
    store = DynamoJobStore(table, "jobs")
    request = JobRequest(type="note", payload={"text": "x" * 500}, idempotency_key="k")
    said = {"catalogue": Notes(), "store": store, "now": NOW, "entropy": bytes(10)}
    with pytest.raises(StoreUnavailable, match="Throttling"):
        submit(request, **said)  # type: ignore[arg-type]
    assert items(dynamodb) == ["PAYLOAD"]
    assert "expires_at" in dynamodb.scan(TableName="jobs")["Items"][0]
    table.refuses = lambda *_: False
    job = submit(request, **said).job  # type: ignore[arg-type]
    assert items(dynamodb) == ["JOB", "PAYLOAD"]
    assert "xxx" in str(store.get_payload(job.job_id, job.payload_ref or b""))


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_the_same_post_with_the_same_key_after_twelve_minutes_is_the_same_job(
    dynamodb: Any, path: str, body: Any
) -> None:
    """SCENARIOS 25. A transaction's own token guards for ten; the record guards as long as it lives."""
    client = Client(store=DynamoJobStore(dynamodb, "jobs"))
    first = client.post(path, body, KEY)
    written = items(dynamodb)
    for wait in (timedelta(minutes=12), timedelta(days=13)):
        client.clock.forward(wait)
        again = client.post(path, body, KEY)
        assert (again.status, again.json["jobId"]) == (202, first.json["jobId"])
        assert again.headers["idempotent-replayed"] == "true"
    assert items(dynamodb) == written


@pytest.mark.parametrize("state", sorted(set(State)))
@pytest.mark.parametrize(("path", "body"), PATHS)
def test_a_key_with_another_payload_is_a_422_whatever_became_of_its_job(path: str, body: Any, state: State) -> None:
    """SCENARIOS 28."""
    client = Client()
    assert isinstance(client.store, MemoryJobStore)
    first = client.post(path, body, KEY)
    job = client.store._jobs[first.json["jobId"]]
    client.store._jobs[job.job_id] = moved = replace(job, state=state)
    written = len(client.store.images)
    refused = client.post(path, OTHER[path], KEY)
    assert (refused.status, refused.json["type"]) == (422, "urn:holdfast:problem:idempotency-key-reused")
    assert (client.store.get(job.job_id), len(client.store.images)) == (moved, written)
    assert client.post(path, body, KEY).json["jobId"] == job.job_id


def test_a_key_with_another_payload_is_a_422_while_its_job_runs_in_a_batch_which_goes_on() -> None:
    """SCENARIOS 28. The other body comes from within the batch, for its own key and for its neighbours'."""
    client, answers = Client(), []

    def other(number: int) -> int:
        body = EXPORT_JOB | {"payload": EXPORT | {"month": "2026-04"}}
        return client.post("/jobs", body, {"Idempotency-Key": f"k{number}"}).status

    assert isinstance(client.store, MemoryJobStore)
    world = World(handler=lambda payload, run: answers.extend(other(n) for n in range(4)), store=client.store)
    ids = [client.post("/jobs", EXPORT_JOB, {"Idempotency-Key": f"k{n}"}).json["jobId"] for n in range(4)]
    jobs = [client.store._jobs[job_id] for job_id in ids]
    assert world.run_batch(*[a_message(job) for job in jobs]) == []
    assert answers == [422] * 16
    assert {client.get(f"/jobs/{job_id}").json["status"] for job_id in ids} == {State.COMPLETED}


# ---- digests --------------------------------------------------------------------------------------------------------


def accepted(text: str, **fields: Any) -> Job:
    request = JobRequest(type="note", payload={"text": text}, **fields)
    store = MemoryJobStore()
    return submit(request, catalogue=Notes(), store=store, now=NOW, entropy=bytes(10)).job  # type: ignore[arg-type]


def test_a_stored_payload_is_named_by_sixteen_bytes_of_the_sha_256_of_its_text() -> None:
    """The same text under the same name, another under another: else a repeat would overwrite, or be lost."""
    first, same, other = accepted("x" * 500), accepted("x" * 500, tenant="t"), accepted("x" * 499 + "y")
    stored = f'{{"text":"{"x" * 500}","replyTo":"","priority":0}}'
    assert first.payload_ref == hashlib.sha256(stored.encode()).digest()[:16]
    assert first.payload_ref == same.payload_ref != other.payload_ref


def test_a_request_is_named_by_sixteen_bytes_that_equal_contents_share_and_no_others() -> None:
    fingerprints = [accepted(text, idempotency_key=key).fingerprint for text, key in (("a", "1"), ("a", "2"))]
    assert fingerprints[0] == fingerprints[1], "the key names the job, the fingerprint its content"
    assert {len(mark) for mark in fingerprints} == {16}
    assert len({accepted(f"body {n}").fingerprint for n in range(300)}) == 300
