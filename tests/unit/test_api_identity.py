"""Under JWT the tenant is the token's: the body cannot choose it, and other tenants' jobs do not exist."""

from __future__ import annotations

from typing import Any

import pytest

from lambdas.api.identity import Identity
from shared.adapters.memory import MemoryJobStore
from shared.errors import SettingsError
from tests.api import EXPORT, EXPORT_JOB, Client

ACME, OTHER = {"sub": "u1", "org": "acme-eu"}, {"sub": "u2", "org": "other"}


@pytest.fixture
def client() -> Client:
    return Client(identity=Identity("jwt", "org"))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/jobs", EXPORT_JOB),
        ("/jobs", {"type": "invoice-export", "payload": EXPORT}),
        ("/exports", EXPORT),
        ("/exports", {"month": "2026-05"}),
    ],
)
def test_the_tokens_tenant_owns_the_job_named_in_the_body_or_not(
    client: Client, path: str, body: dict[str, Any]
) -> None:
    answered = client.post(path, body, claims=ACME)
    job = client.store.get(answered.json["jobId"])
    assert (answered.status, job and job.tenant) == (202, "acme-eu")


@pytest.mark.parametrize(("path", "body"), [("/jobs", EXPORT_JOB), ("/exports", EXPORT)])
def test_another_tenant_in_the_body_is_a_403_and_nothing_is_stored(
    client: Client, path: str, body: dict[str, Any]
) -> None:
    answered = client.post(path, body, claims=OTHER)
    assert (answered.status, answered.pointers) == (403, ["/tenantId"])
    assert isinstance(client.store, MemoryJobStore)
    assert client.store.images == []


def test_the_fields_python_name_is_no_way_around_the_token(client: Client) -> None:
    answered = client.post("/exports", {"month": "2026-05", "tenant_id": "acme-eu"}, claims=OTHER)
    assert (answered.status, answered.pointers) == (422, ["/tenant_id"])


@pytest.mark.parametrize(
    "claims",
    [None, {}, {"sub": "u1"}, {"org": ""}, {"org": "[a b]"}, {"org": "a\u0001"}, {"org": ["acme-eu"]}, {"org": 7}],
)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/jobs"), ("POST", "/exports"), ("GET", "/jobs/job_" + "0" * 26)]
)
def test_a_token_without_a_usable_tenant_is_a_403(client: Client, claims: Any, method: str, path: str) -> None:
    assert client.call(method, path, EXPORT_JOB, claims=claims).status == 403


@pytest.mark.parametrize("rest", ["", "/result"])
def test_another_tenants_job_is_the_same_404_as_no_job_at_all(client: Client, rest: str) -> None:
    url = client.post("/exports", EXPORT, claims=ACME).json["statusUrl"]
    assert client.get(url, claims=ACME).status == 200
    theirs, nobodys = client.get(url + rest, claims=OTHER), client.get("/jobs/job_" + "0" * 26 + rest, claims=OTHER)
    assert (theirs.status, theirs.text, theirs.headers) == (404, nobodys.text, nobodys.headers)


def test_one_key_of_two_tokens_is_two_jobs(client: Client) -> None:
    body, key = {"month": "2026-05"}, {"Idempotency-Key": "k"}
    ids = {client.post("/exports", body, key, claims=claims).json["jobId"] for claims in (ACME, OTHER)}
    assert len(ids) == 2


@pytest.mark.parametrize("auth", ["none", "iam"])
def test_a_trusted_caller_sees_every_job_and_names_the_tenant_in_the_body(auth: str) -> None:
    client = Client(identity=Identity(auth, "-"))
    url = client.post("/exports", EXPORT, claims=OTHER).json["statusUrl"]
    assert client.get(url, claims=OTHER).json["tenantId"] == "acme-eu"


def test_an_unknown_way_to_authenticate_stops_the_function_at_cold_start() -> None:
    with pytest.raises(SettingsError, match="basic"):
        Identity("basic", "-")


def test_the_line_of_a_call_names_who_made_it(client: Client) -> None:
    """The access log cannot name a claim whose name is no word; a refused token is named as well."""
    client.post("/exports", EXPORT, claims=ACME | {"sub": "user-7"})
    client.get("/jobs/job_" + "0" * 26, claims={"sub": "user-8"})
    lines = [line for name, line in client.log.lines if name == "answered"]
    assert [(line.get("subject"), line.get("tenant")) for line in lines] == [("user-7", "acme-eu"), ("user-8", None)]
    trusted = Client()
    trusted.post("/exports", EXPORT)
    assert not {"subject", "tenant"} & set(trusted.log.lines[-1][1])
