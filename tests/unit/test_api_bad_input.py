"""Bad input: a precise 4xx problem document each, nothing stored, no stack trace."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lambdas.api.dispatch import answer
from lambdas.api.limits import MAX_BODY_BYTES, MAX_FAULTS
from shared.adapters.memory import MemoryJobStore
from shared.domain.job import MAX_PAYLOAD_BYTES
from shared.jobs import Catalogue
from tests.api import EXPORT, EXPORT_JOB, Answered, Client

NOTE = '''
from shared.domain.run import Run
from shared.jobs import Payload, job_type

class Note(Payload):
    text: str

@job_type("note", queue="emails.bulk")
def note(payload: Note, run: Run) -> None:
    """Does nothing."""
'''


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    """A catalogue with one job type whose payload may be of any size."""
    package = tmp_path / "note_jobs"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "note.py").write_text(NOTE)
    monkeypatch.syspath_prepend(tmp_path)
    return Catalogue("note_jobs")


def refused(client: Client, answered: Answered, status: int, problem: str) -> Answered:
    assert isinstance(client.store, MemoryJobStore)
    assert (client.store.images, client.store.rows) == ([], [])
    document = answered.json
    assert (answered.status, document["status"]) == (status, status)
    assert document["type"] == f"urn:holdfast:problem:{problem}"
    assert document["title"]
    assert document["detail"]
    assert answered.headers["content-type"] == "application/problem+json"
    assert "Traceback" not in answered.text
    assert ".py" not in answered.text
    return answered


def with_fields(**fields: Any) -> dict[str, Any]:
    return EXPORT_JOB | fields


def with_payload(**fields: Any) -> dict[str, Any]:
    return EXPORT_JOB | {"payload": EXPORT | fields}


@pytest.mark.parametrize("path", ["/jobs", "/exports"])
@pytest.mark.parametrize(
    "body",
    [
        None,
        "",
        "month=2026-05",
        "[]",
        '{"a": 1, "a": 2}',
        b'{"a": "\xff"}',
        '{"a": NaN}',
        '{"a": 9007199254740993}',
        '{"a": "\\u0000"}',
        '{"a": "\\ud800"}',
        '{"a": "\ud800"}',
        '{"a":' * 200 + "1" + "}" * 200,
        "[" * 200_000,
    ],
)
def test_a_body_that_is_not_strict_json_is_a_400(path: str, body: object) -> None:
    client = Client()
    refused(client, client.post(path, body), 400, "malformed-body")


def test_a_body_said_to_be_base64_that_is_not_is_a_400() -> None:
    client = Client()
    event = {
        "rawPath": "/jobs",
        "headers": {"Content-Type": "application/json"},
        "body": "{}!",
        "isBase64Encoded": True,
        "requestContext": {"http": {"method": "POST"}},
    }
    answered = answer(client.app, event)
    refused(client, Answered(answered["statusCode"], answered["headers"], answered["body"]), 400, "malformed-body")


@pytest.mark.parametrize("path", ["/jobs", "/exports"])
@pytest.mark.parametrize("size", [MAX_BODY_BYTES + 1, 2_000_000])
@pytest.mark.parametrize("kind", [str, bytes])
def test_a_body_above_the_doors_limit_is_a_413(path: str, size: int, kind: type) -> None:
    client = Client()
    text = "[" * (size - 2) + "é"
    refused(client, client.post(path, text if kind is str else text.encode()), 413, "body-too-large")


def test_a_payload_above_what_a_job_carries_is_a_413_that_says_what_to_do(notes: Catalogue) -> None:
    client = Client(catalogue=notes)
    body = {"type": "note", "payload": {"text": "x" * MAX_PAYLOAD_BYTES}}
    answered = refused(client, client.post("/jobs", body), 413, "payload-too-large")
    assert "pointer" in answered.json["detail"]


def test_a_payload_just_below_the_limit_passes_the_door(notes: Catalogue) -> None:
    body = {"type": "note", "payload": {"text": "x" * (MAX_PAYLOAD_BYTES - 100)}}
    assert Client(catalogue=notes).post("/jobs", body).status == 202


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": ""},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": "application/json, text/plain"},
        {"content-type": "application/problem+json"},
        {"content-encoding": "gzip"},
    ],
)
def test_a_body_not_sent_as_json_in_utf8_is_a_415(headers: dict[str, str]) -> None:
    client = Client()
    refused(client, client.post("/jobs", EXPORT_JOB, headers), 415, "unsupported-media-type")


@pytest.mark.parametrize(
    "sent", ['application/json; charset="UTF-8"', "Application/JSON;charset=utf-8", "application/json"]
)
def test_every_spelling_of_json_in_utf8_is_accepted(sent: str) -> None:
    assert Client().post("/jobs", EXPORT_JOB, {"content-type": sent}).status == 202


@pytest.mark.parametrize("key", ["", "  ", "k" * 256, "é", "a\nb", "\x7f"])
def test_an_unusable_idempotency_key_is_a_400(key: str) -> None:
    client = Client()
    refused(client, client.post("/jobs", EXPORT_JOB, {"Idempotency-Key": key}), 400, "invalid-idempotency-key")


@pytest.mark.parametrize("name", ["nope", "invoice_export", "__init__", "", "a" * 100_000, "../x", "retry\n"])
def test_an_unknown_type_is_a_422_that_lists_the_known_ones(name: str) -> None:
    client = Client()
    answered = refused(client, client.post("/jobs", with_fields(type=name)), 422, "unknown-job-type")
    assert answered.pointers == ["/type"]
    assert "invoice-export" in answered.json["detail"]


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, ["/type", "/payload"]),
        ({"type": "invoice-export", "payload": {}}, ["/payload/tenantId", "/payload/month"]),
        ({"type": 1, "payload": []}, ["/type", "/payload"]),
        (with_fields(surprise=1), ["/surprise"]),
        (with_payload(surprise=1), ["/payload/surprise"]),
        (with_payload(month="2026-13"), ["/payload/month"]),
        (with_payload(month=202605), ["/payload/month"]),
        (with_fields(tenantId="acme\u0007"), ["/tenantId"]),
        (with_fields(tenantId="acme\n"), ["/tenantId"]),
        (with_fields(tenantId="x" * 65), ["/tenantId"]),
        (with_fields(runAt="tomorrow"), ["/runAt"]),
        (with_fields(runAt="2026-05-31T12:00:00"), ["/runAt"]),
        (with_fields(runAt="2026-W01-1"), ["/runAt"]),
        (with_fields(runAt="0001-01-01T00:00:00+14:00"), ["/runAt"]),
        (with_fields(runAt="2026-02-30T00:00:00Z"), ["/runAt"]),
        (with_fields(runAt=1780000000), ["/runAt"]),
        (with_fields(runAt="9999-12-31T23:59:59Z"), ["/runAt"]),
        (with_fields(delaySeconds=-1), ["/delaySeconds"]),
        (with_fields(delaySeconds=1.5), ["/delaySeconds"]),
        (with_fields(delaySeconds="5"), ["/delaySeconds"]),
        (with_fields(delaySeconds=True), ["/delaySeconds"]),
        (with_fields(delaySeconds=2**53), ["/delaySeconds"]),
        (with_fields(maxAgeSeconds=0), ["/maxAgeSeconds"]),
        (with_fields(maxAgeSeconds=2**53), ["/maxAgeSeconds"]),
        (with_fields(orderingKey="a b"), ["/orderingKey"]),
        (with_fields(tags={"a": 1}), ["/tags/a"]),
        (with_fields(tags={str(n): "x" for n in range(11)}), ["/tags"]),
        (
            {"type": "invoice-export", "payload": {"month": "2026-13"}, "tenantId": "", "delaySeconds": -1, "x": 1},
            ["/tenantId", "/delaySeconds", "/x", "/payload/tenantId", "/payload/month"],
        ),
    ],
)
def test_invalid_fields_of_a_job_are_a_422_that_names_every_one(body: dict[str, Any], pointers: list[str]) -> None:
    client = Client()
    assert refused(client, client.post("/jobs", body), 422, "invalid-request").pointers == pointers


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, ["/tenantId", "/month"]),
        ({"tenantId": "acme-eu", "month": "2026-13"}, ["/month"]),
        ({"tenantId": "acme\u0001", "month": "2026-13", "x": 1}, ["/tenantId", "/month", "/x"]),
        ({"tenantId": None, "month": "2026-05"}, ["/tenantId"]),
        ({"tenantId": "acme-eu", "month": "2026-05\n"}, ["/month"]),
    ],
)
def test_invalid_fields_of_an_export_are_a_422_that_names_every_one(body: dict[str, Any], pointers: list[str]) -> None:
    client = Client()
    assert refused(client, client.post("/exports", body), 422, "invalid-request").pointers == pointers


def test_a_thousand_faults_make_a_short_answer() -> None:
    client = Client()
    names = {"x" * 1000 + str(n): 1 for n in range(200)}
    answered = refused(client, client.post("/jobs", EXPORT_JOB | names), 422, "invalid-request")
    assert len(answered.pointers) == MAX_FAULTS
    assert len(answered.text) < 40_000


def test_a_key_reused_with_another_content_is_a_422_and_the_first_job_stays() -> None:
    client = Client()
    first = client.post("/jobs", EXPORT_JOB, {"Idempotency-Key": "k"})
    second = client.post("/jobs", with_payload(month="2026-04"), {"Idempotency-Key": "k"})
    assert (second.status, second.json["type"]) == (422, "urn:holdfast:problem:idempotency-key-reused")
    kept = client.store.get(first.json["jobId"])
    assert kept is not None
    assert json.loads(kept.payload or "")["month"] == "2026-05"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/jobs", "POST"),
        ("PUT", "/exports", "POST"),
        ("POST", "/jobs/job_1", "GET"),
        ("DELETE", "/jobs/job_1/result", "GET"),
        ("HEAD", "/openapi.json", "GET"),
    ],
)
def test_a_wrong_method_is_a_405_that_names_the_right_ones(method: str, path: str, allow: str) -> None:
    client = Client()
    assert refused(client, client.call(method, path), 405, "method-not-allowed").headers["allow"] == allow


@pytest.mark.parametrize("path", ["/", "", "/job", "/jobs/", "/jobs/a/b", "/jobs/a/result/", "//jobs", "/\ud800"])
def test_an_unknown_path_is_a_404(path: str) -> None:
    client = Client()
    refused(client, client.get(path), 404, "no-such-resource")


PYTHON = re.compile(
    r"[Vv]alue error|Input should|Assertion|dictionary|instance|NoneType|\bNone\b|\bstr\b|<class|pydantic|\(type="
)
WRONG: tuple[Any, ...] = (None, True, -1, 1.5, 10**12, "", "a\u2028b", "x" * 70_000, [], [1] * 2000, {}, {"a": None})


@pytest.mark.parametrize("name", Catalogue().all())
def test_whatever_is_wrong_with_a_payload_is_said_in_plain_words(name: str) -> None:
    job_type = Catalogue().all()[name]
    fields = [field.alias for field in job_type.payload.model_fields.values() if field.alias]
    said = {fault.detail for field in fields for wrong in WRONG for fault in job_type.accept({field: wrong})[1]}

    assert said
    assert not [detail for detail in said if PYTHON.search(detail) or detail[0].isupper()]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: repr(wrong)[:20])
def test_whatever_is_wrong_around_a_payload_is_said_in_plain_words(wrong: Any) -> None:
    fields = ["type", "payload", "tenantId", "runAt", "delaySeconds", "orderingKey", "maxAgeSeconds", "tags"]
    answers = [Client().post("/jobs", EXPORT_JOB | {field: wrong}) for field in fields]
    said = {error["detail"] for answer in answers for error in answer.json.get("errors", [])}

    assert not [detail for detail in said if PYTHON.search(detail)]


def test_a_whole_number_is_one_however_it_is_written() -> None:
    picture = {"tenantId": "acme-eu", "sourceKey": "uploads/acme-eu/a.png", "width": 32.0, "height": 3.2e1}
    client = Client()
    answered = client.post("/jobs", {"type": "thumbnail", "payload": picture, "delaySeconds": 6e1})

    assert answered.status == 202
    assert json.loads(str(client.store.get(answered.json["jobId"]).payload))["width"] == 32


@pytest.mark.parametrize(
    ("body", "pointer", "says"),
    [
        (with_payload(month="May"), "/payload/month", "such as '2026-05'"),
        (with_payload(month=5), "/payload/month", "must be text"),
        (with_fields(maxAgeSeconds=1), "/maxAgeSeconds", "must be at least 60"),
        (with_fields(maxAgeSeconds=10**9), "/maxAgeSeconds", "must be at most 1209600"),
        (with_fields(delaySeconds=1.5), "/delaySeconds", "must be a whole number"),
        (with_fields(tags={"a": "x" * 65}), "/tags/a", "must have at most 64 characters"),
        (with_fields(tags={str(n): "x" for n in range(11)}), "/tags", "must have at most 10 entries"),
        (with_fields(tags={"a": "x\u2028"}), "/tags/a", "cannot hold U+2028, a line separator"),
        (with_fields(tags=[]), "/tags", "must be an object"),
        (with_fields(orderingKey="a b"), "/orderingKey", "must be 1 to 64 printable ASCII characters without blanks"),
        (with_fields(tenantId=".a"), "/tenantId", "must be 1 to 64 letters, digits"),
        (with_fields(runAt="tomorrow"), "/runAt", "must be an RFC 3339 time with its offset, such as"),
    ],
)
def test_a_refusal_names_what_is_expected_and_the_limit(body: dict[str, Any], pointer: str, says: str) -> None:
    errors = Client().post("/jobs", body).json["errors"]

    assert [error["detail"] for error in errors if error["pointer"] == pointer and says in error["detail"]], errors
