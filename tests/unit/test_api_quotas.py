"""The quotas at the door: 429 with a time to come back, nothing stored, and only where callers are known."""

from __future__ import annotations

from typing import Any

import pytest

from lambdas.api.gateway import from_event
from lambdas.api.identity import Identity
from shared.adapters.memory import MemoryJobStore
from shared.quotas import Quota
from tests.api import EXPORT, EXPORT_JOB, Client

CLAIMS = {"sub": "user-1", "tenant": "acme-eu"}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(
        "shared.quotas.TENANTS", {"acme-eu": Quota(submits_per_minute=20, open_jobs=3, waiting_bytes=1_000)}
    )
    return Client(identity=Identity("jwt", "tenant"))


@pytest.mark.parametrize(("path", "body"), [("/jobs", EXPORT_JOB), ("/exports", EXPORT)])
def test_beyond_the_quota_it_is_a_429_with_a_time_to_come_back_and_nothing_is_stored(
    client: Client, path: str, body: Any
) -> None:
    assert [client.post(path, body, claims=CLAIMS).status for _ in range(3)] == [202] * 3
    assert isinstance(client.store, MemoryJobStore)
    stored = len(client.store.images)

    refused = client.post(path, body, claims=CLAIMS)

    assert (refused.status, refused.json["type"]) == (429, "urn:holdfast:problem:quota-exceeded")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert "3 jobs are open" in refused.json["detail"]
    assert len(client.store.images) == stored


def test_reading_is_not_counted(client: Client) -> None:
    job = client.post("/jobs", EXPORT_JOB, claims=CLAIMS).json["jobId"]
    assert {client.get(f"/jobs/{job}", claims=CLAIMS).status for _ in range(50)} == {200}


def test_a_caller_that_nobody_was_asked_about_is_not_counted(client: Client) -> None:
    """The local stage."""
    local = Client()
    assert {local.post("/jobs", EXPORT_JOB).status for _ in range(30)} == {202}


@pytest.mark.parametrize(
    ("authorizer", "principal"),
    [
        (None, None),
        ({"jwt": {"claims": {"sub": "user-1"}}}, "user-1"),
        ({"jwt": {"claims": {}}}, ""),
        ({"iam": {"userArn": "arn:aws:sts::1:assumed-role/submit/x"}}, "arn:aws:sts::1:assumed-role/submit"),
        ({"iam": {"userArn": "arn:aws:iam::1:user/op"}}, "arn:aws:iam::1:user/op"),
    ],
)  # fmt: skip
def test_a_caller_is_who_the_authorizer_says_whatever_it_calls_its_session(authorizer: Any, principal: Any) -> None:
    context = {"http": {"method": "GET"}} | ({} if authorizer is None else {"authorizer": authorizer})
    assert from_event({"requestContext": context, "rawPath": "/jobs"}).principal == principal


def test_a_large_payload_may_not_wait_for_a_year() -> None:
    far = Client().post("/jobs", {**_large(), "delaySeconds": 40 * 86_400})
    assert (far.status, far.pointers) == (422, ["/delaySeconds"])
    assert "waits at most 30 days" in far.json["detail"]
    assert Client().post("/jobs", {**_large(), "delaySeconds": 29 * 86_400}).status == 202


def _large() -> dict[str, Any]:
    return {
        "type": "send-email",
        "tenantId": "acme-eu",
        "payload": {"fromAddress": "a@example.com", "to": ["b@example.com"], "subject": "s", "text": "x" * 800},
    }
