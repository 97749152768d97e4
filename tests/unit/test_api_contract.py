"""GET /openapi.json is valid, complete, and what the API really answers."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from openapi_spec_validator import validate

from lambdas.api.identity import Identity
from lambdas.api.problems import KINDS
from lambdas.api.routes import ROUTES
from shared.domain.job import JOB_ID, Progress
from shared.domain.states import State
from shared.jobs import Catalogue
from tests.api import EXPORT, EXPORT_JOB, Client
from tests.builders import NOW, a_job


@cache
def contract() -> dict[str, Any]:
    found: dict[str, Any] = Client().get("/openapi.json").json
    return found


def check(schema: str, instance: object) -> None:
    described = {"$ref": f"#/components/schemas/{schema}", "components": contract()["components"]}
    Draft202012Validator(described).validate(instance)


@pytest.mark.parametrize("auth", ["none", "iam", "jwt"])
def test_the_contract_is_valid_openapi_on_every_stage(auth: str) -> None:
    document = Client(identity=Identity(auth, "org")).get("/openapi.json").json
    validate(document)
    assert document["openapi"].startswith("3.1")
    assert set(document["components"]["securitySchemes"]) == {auth} - {"none"}


def test_every_route_is_in_the_contract_and_nothing_else() -> None:
    described = {(method.upper(), path) for path, calls in contract()["paths"].items() for method in calls}
    assert described == {(route.method, route.path) for route in ROUTES}


def test_every_job_type_is_in_the_contract_with_its_payload() -> None:
    schemas = contract()["components"]["schemas"]
    mapping = schemas["JobSubmission"]["discriminator"]["mapping"]
    assert set(mapping) == set(Catalogue().all())
    assert set(schemas["invoice-export.payload"]["properties"]) == {"tenantId", "month"}
    for name, ref in mapping.items():
        assert schemas[ref.rpartition("/")[2]]["properties"]["type"] == {"const": name}


def test_the_contract_for_tenants_shows_what_a_tenant_may_submit_and_not_who_it_is() -> None:
    schemas = Client(identity=Identity("jwt", "org")).get("/openapi.json").json["components"]["schemas"]
    mapping = schemas["JobSubmission"]["discriminator"]["mapping"]
    assert set(mapping) == {name for name, found in Catalogue().all().items() if found.open_to_tenants}
    assert "send-email" not in str(schemas)
    for name, required in (("invoice-export.payload", ["month"]), ("ExportSubmission", ["month"])):
        assert schemas[name]["required"] == required
        assert "token" in schemas[name]["properties"]["tenantId"]["description"]


def test_every_status_a_route_can_answer_has_its_problem_described() -> None:
    statuses = {
        status for calls in contract()["paths"].values() for call in calls.values() for status in call["responses"]
    }
    # 404 for a path and 405 for a method belong to no call of the contract.
    assert {str(kind.status) for kind in KINDS} - statuses == {"405"}


def test_the_contract_takes_what_the_api_takes_and_refuses_what_it_refuses() -> None:
    check("JobSubmission", EXPORT_JOB)
    check("ExportSubmission", EXPORT)
    for wrong in ({}, EXPORT_JOB | {"type": "nope"}, EXPORT_JOB | {"x": 1}, EXPORT_JOB | {"payload": {}}):
        with pytest.raises(ValidationError):
            check("JobSubmission", wrong)


def test_what_the_api_answers_is_what_the_contract_says() -> None:
    client = Client()
    accepted = client.post("/jobs", EXPORT_JOB)
    check("AcceptedJob", accepted.json)
    full = a_job(
        state=State.DEAD,
        dead_at=NOW,
        error_class="deterministic",
        error_code="c",
        error_message="m",
        last_error_at=NOW,
        progress=Progress(1, 2, "pages"),
        tags={"a": "b"},
    )
    client.store.submit(full, NOW)
    for url in (accepted.json["statusUrl"], f"/jobs/{full.job_id}"):
        check("Job", client.get(url).json)
    for refused in (client.get("/jobs/1"), client.post("/jobs", "x"), client.post("/jobs", {})):
        check("Problem", refused.json)


def test_an_answer_has_no_field_the_contract_forgot() -> None:
    schema = contract()["components"]["schemas"]["Job"]["properties"]
    client = Client()
    url = client.post("/exports", EXPORT).json["statusUrl"]
    assert set(client.get(url).json) <= set(schema)
    assert "null" not in str(schema)


def test_the_pattern_of_a_job_id_is_said_once_in_effect() -> None:
    (parameter, *_) = contract()["paths"]["/jobs/{id}"]["get"]["parameters"]
    assert parameter["schema"]["pattern"] == f"^{JOB_ID.pattern}$"


def test_the_contract_is_cached_by_etag() -> None:
    client = Client()
    etag = client.get("/openapi.json").headers["etag"]
    assert re.fullmatch('"[0-9a-f]{32}"', etag)
    assert client.get("/openapi.json", {"if-none-match": etag}).status == 304


def test_every_problem_is_explained_in_the_documentation() -> None:
    rows = re.findall(
        r"^\| `(urn:\S+)` \| (\d+) \|", (Path(__file__).parents[2] / "docs/api.md").read_text(), re.MULTILINE
    )
    assert sorted(rows) == sorted((kind.uri, str(kind.status)) for kind in KINDS)


MAIL = {"to": ["ada@example.com"], "subject": "Ready", "fromAddress": "jobs@example.com"}
PICTURE = {"tenantId": "acme-eu", "sourceKey": "uploads/acme-eu/a.png", "width": 32, "height": 32}
HOOK = {"url": "https://partner.example.com/hooks", "body": {}, "secretName": "partner-a"}


def job(name: str, payload: dict[str, Any], **around: Any) -> dict[str, Any]:
    return {"type": name, "payload": payload, **around}


@pytest.mark.parametrize(
    "body",
    [
        job("send-email", MAIL | {"text": None, "html": None}),
        job("send-email", MAIL),
        job("send-email", MAIL | {"text": "hello", "subject": " \u00a0 "}),
        job("send-email", MAIL | {"text": "hello", "subject": "two\nlines"}),
        job("send-email", MAIL | {"text": "NUL \0"}),
        job("thumbnail", PICTURE | {"sourceKey": "uploads/acme-eu/../a.png"}),
        job("thumbnail", PICTURE | {"sourceKey": "uploads/acme-eu/a\u2028.png"}),
        job("thumbnail", PICTURE | {"sourceKey": "elsewhere/acme-eu/a.png"}),
        job("thumbnail", PICTURE | {"width": 32.5}),
        job("thumbnail", PICTURE, orderingKey="a"),
        job("deliver-webhook", HOOK | {"url": "ftp://partner.example.com/"}),
        job("deliver-webhook", HOOK | {"url": "https://user@partner.example.com/"}),
        job("deliver-webhook", HOOK | {"url": "https://partner.example.com:0/"}),
        job("deliver-webhook", HOOK | {"body": {"a": 2**53 + 2}}),
        job("deliver-webhook", HOOK | {"body": {"a": [{"b": "\0"}]}}),
        job("deliver-webhook", HOOK | {"body": {"a\0": 1}}),
        EXPORT_JOB | {"delaySeconds": 1, "runAt": "2026-06-01T09:30:00Z"},
        EXPORT_JOB | {"delaySeconds": 367 * 86_400},
        EXPORT_JOB | {"tags": {"a\tb": "c"}},
        EXPORT_JOB | {"tags": {"a": "b\u2029"}},
        EXPORT_JOB | {"tags": {str(n): "x" for n in range(11)}},
    ],
    ids=lambda body: str(body)[:100],
)
def test_what_the_door_refuses_the_contract_does_not_allow(body: dict[str, Any]) -> None:
    assert Client().post("/jobs", body).status in (400, 422)
    with pytest.raises(ValidationError):
        check("JobSubmission", body)


@pytest.mark.parametrize(
    "body",
    [
        job("send-email", MAIL | {"text": "hello", "html": None}, tenantId="acme-eu"),
        job(
            "send-email",
            MAIL | {"html": "<p>hello", "text": None, "subject": "Crème\u202fbrûlée"},
            tenantId="acme-eu",
        ),
        job("thumbnail", PICTURE | {"sourceKey": "uploads/acme-eu/Screenshot 9.41.07\u202fAM.png", "width": 32.0}),
        job("thumbnail", PICTURE, orderingKey=None),
        job("deliver-webhook", HOOK | {"url": "https://a.example:65535?x=/"}, orderingKey="a"),
        job("deliver-webhook", HOOK | {"body": {"a": [{"b": None}, 1.5, -(2**53), ""]}}),
        EXPORT_JOB | {"delaySeconds": 1, "runAt": None, "tenantId": None, "tags": {"名前": "東京\u3000"}},
        EXPORT_JOB | {"runAt": "2026-05-31t23:59:60.123456789012+05:30"},
    ],
    ids=lambda body: str(body)[:100],
)
def test_what_the_contract_allows_the_door_accepts(body: dict[str, Any]) -> None:
    check("JobSubmission", body)
    answered = Client().post("/jobs", body)
    assert answered.status == 202, answered.text


def test_the_contract_speaks_of_fields_as_requests_spell_them() -> None:
    for name, job_type in Catalogue().all().items():
        described = contract()["components"]["schemas"][f"{name}.payload"]["description"]
        inside = [field for field in job_type.payload.model_fields if "_" in field]
        assert not [field for field in inside if re.search(rf"\b{field}\b", described)]
