"""GET: what a job's owner sees, how often to ask, and what nobody is told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lambdas.api.gateway import from_event
from shared.domain.job import Job, Progress
from shared.domain.states import State
from shared.domain.told import told_digest
from tests.api import Answered, Client
from tests.builders import MINUTE, NOW, a_job, a_running_job

STORED = {"file": {"key": "exports/acme-eu/2026-05/invoice-export.pdf", "size": 9, "contentType": "application/pdf"}}
SAID = {"error_message": "row 7: no amount", "error_told": told_digest("row 7: no amount")}
DONE = {"state": State.COMPLETED, "completed_at": NOW, "expires_at": NOW + timedelta(days=14), "attempts": 1}


def holding(job: Job) -> Client:
    client = Client()
    client.store.submit(job, NOW)
    return client


def seen(job: Job, headers: dict[str, str] | None = None) -> Answered:
    return holding(job).get(f"/jobs/{job.job_id}", headers)


def test_a_fresh_job_shows_what_is_known_and_no_nulls() -> None:
    job = a_job(tags={"team": "billing"})
    assert seen(job).json == {
        "jobId": job.job_id,
        "type": "invoice-export",
        "queue": "exports.month-end",
        "status": "queued",
        "payloadVersion": 1,
        "tenantId": "acme-eu",
        "tags": {"team": "billing"},
        "attempts": 0,
        "maxAttempts": 6,
        "createdAt": "2026-05-31T12:00:00.000Z",
        "runAt": "2026-05-31T12:00:00.000Z",
        "deadlineAt": "2026-06-01T12:00:00.000Z",
    }


def test_a_running_job_shows_its_progress() -> None:
    found = seen(a_running_job(progress=Progress(3, 24, "pages"))).json
    assert (found["status"], found["attempts"]) == ("running", 1)
    assert found["progress"] == {"done": 3, "total": 24, "unit": "pages"}


def test_a_dead_job_shows_why() -> None:
    job = a_job(
        state=State.DEAD,
        dead_at=NOW + timedelta(milliseconds=1),
        error_class="deterministic",
        error_code="csv-row-invalid",
        **SAID,
        first_error_at=NOW,
        last_error_at=NOW,
    )
    found = seen(job).json
    assert (found["status"], found["deadAt"]) == ("dead", "2026-05-31T12:00:00.001Z")
    assert found["error"] == {
        "class": "deterministic",
        "code": "csv-row-invalid",
        "message": "row 7: no amount",
        "firstAt": "2026-05-31T12:00:00.000Z",
        "lastAt": "2026-05-31T12:00:00.000Z",
    }


FOREIGN = "ConnectionError: no route to db.internal"


@pytest.mark.parametrize(
    "mark", [{}, {"error_told": told_digest("row 7: no amount")}], ids=["never marked", "marked by an older attempt"]
)
def test_a_foreign_exceptions_words_are_not_the_callers(mark: dict[str, Any]) -> None:
    """Older versions marked no message; in a rolling deployment one of them writes another below our mark."""
    failed = {"error_class": "transient", "error_code": "ConnectionError", "error_message": FOREIGN} | mark
    waits = seen(a_job(state=State.RETRYING, reason=f"ConnectionError: {FOREIGN}", next_attempt_at=NOW, **failed))
    assert waits.json["error"] == {"class": "transient", "code": "ConnectionError"}
    assert waits.json["reason"] == "ConnectionError"
    dead = a_job(state=State.DEAD, dead_at=NOW, **failed)
    assert "transient ConnectionError" in holding(dead).get(f"/jobs/{dead.job_id}/result").json["detail"]
    for path in (f"/jobs/{dead.job_id}", f"/jobs/{dead.job_id}/result"):
        assert "db.internal" not in waits.text + holding(dead).get(path).text


def test_a_completed_job_leads_to_its_result() -> None:
    job = a_job(**DONE, result=STORED)
    found = seen(job)
    assert found.json["resultUrl"] == f"/jobs/{job.job_id}/result"
    assert "key" not in found.text


def test_what_belongs_to_the_system_is_not_shown() -> None:
    shown = seen(a_running_job(trace_id="1-67891233-abcdef012345678912345678")).text
    assert not [secret for secret in ("holder", "fingerprint", 'payload"', "outbox", "1-6789") if secret in shown]


@pytest.mark.parametrize(
    ("job", "age", "seconds"),
    [
        (a_job(), timedelta(), "1"),
        (a_job(), timedelta(seconds=12), "3"),
        (a_running_job(), timedelta(hours=1), "5"),
        (a_job(run_at=NOW + MINUTE, available_at=NOW + MINUTE), timedelta(), "60"),
        (a_job(state=State.RETRYING, next_attempt_at=NOW + timedelta(seconds=29, milliseconds=1)), timedelta(), "30"),
        (a_job(state=State.RETRYING, next_attempt_at=NOW), timedelta(seconds=8), "2"),
    ],
)
def test_an_unfinished_job_says_when_to_ask_again(job: Job, age: timedelta, seconds: str) -> None:
    client = holding(job)
    client.clock.forward(age)
    assert client.get(f"/jobs/{job.job_id}").headers["retry-after"] == seconds


def test_a_final_job_need_not_be_asked_again() -> None:
    assert "retry-after" not in seen(a_job(**DONE)).headers


@pytest.mark.parametrize("asked", ["{}", "W/{}", '"other", {}', "*", '"a,b" ,{}'])
def test_what_the_caller_has_already_is_a_304_without_a_body(asked: str) -> None:
    job = a_job()
    etag = seen(job).headers["etag"]
    again = seen(job, {"If-None-Match": asked.format(etag)})
    assert (again.status, again.text, again.headers["etag"]) == (304, "", etag)
    assert again.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("asked", ['"other"', "", "etag", '"'])
def test_what_the_caller_has_not_yet_is_a_200(asked: str) -> None:
    assert seen(a_job(), {"If-None-Match": asked}).status == 200


def test_the_etag_changes_with_what_is_shown_and_with_nothing_else() -> None:
    job_id = "job_" + "0" * 26
    first, same, moved = (
        seen(a_running_job(job_id=job_id, **fields)).headers["etag"]
        for fields in ({}, {"holder": "other"}, {"progress": Progress(1, 2, "pages")})
    )
    assert first == same != moved
    assert not first.startswith("W/")


def test_a_job_that_is_not_there_and_one_that_never_could_be_look_the_same() -> None:
    past, ahead = {"expires_at": NOW - MINUTE}, {"expires_at": NOW + MINUTE}
    expired, live = a_job(**DONE | past), a_job(**DONE | ahead)
    bodies = {
        holding(expired).get(path).text
        for path in (f"/jobs/{expired.job_id}", "/jobs/job_" + "0" * 26, "/jobs/1", "/jobs/job_%00", "/jobs/ü/result")
    }
    (body,) = bodies
    assert '"status":404' in body
    assert seen(live).status == 200


def test_a_result_is_a_redirect_to_a_link_of_five_minutes() -> None:
    job = a_job(**DONE, result=STORED)
    answered = holding(job).get(f"/jobs/{job.job_id}/result")
    link = urlsplit(answered.headers["location"])
    assert (answered.status, answered.headers["cache-control"]) == (303, "no-store")
    assert link.path == "/" + STORED["file"]["key"]
    assert parse_qs(link.query)["X-Amz-Expires"] == ["300"]


def test_a_result_link_shows_the_version_that_its_job_recorded_and_older_records_the_latest() -> None:
    versions = []
    for more in ({"version": "3sL4kqtJlcpXroDTDmJ.rmSpXd3dIbrHY"}, {}):
        job = a_job(**DONE, result={"file": STORED["file"] | more})
        link = urlsplit(holding(job).get(f"/jobs/{job.job_id}/result").headers["location"])
        versions.append(parse_qs(link.query).get("versionId"))
    assert versions == [["3sL4kqtJlcpXroDTDmJ.rmSpXd3dIbrHY"], None]


@pytest.mark.parametrize(
    ("fields", "says", "ask_again"),
    [
        ({}, "queued; ask again", True),
        ({"state": State.RUNNING}, "running; ask again", True),
        ({"state": State.DEAD, "dead_at": NOW, **SAID}, "row 7: no amount", False),
        ({"state": State.CANCELLED, "ended_at": NOW, "reason": "ordered twice"}, "ordered twice", False),
        ({"state": State.EXPIRED, "ended_at": NOW, "reason": "deadline passed"}, "deadline passed", False),
        (DONE, "leave no file", False),
    ],
)
def test_while_there_is_no_result_a_409_says_why(fields: dict[str, Any], says: str, ask_again: bool) -> None:
    job = a_job(**fields)
    answered = holding(job).get(f"/jobs/{job.job_id}/result")
    assert (answered.status, answered.json["type"]) == (409, "urn:holdfast:problem:no-result")
    assert says in answered.json["detail"]
    assert ("retry-after" in answered.headers) == ask_again


def test_a_stage_of_another_name_is_not_part_of_the_path() -> None:
    http = {"method": "get"}
    event = {"rawPath": "/live/jobs/1", "requestContext": {"stage": "live", "http": http}}
    assert from_event(event).path == "/jobs/1"
    event = {"rawPath": "/jobs/1", "requestContext": {"stage": "$default", "http": http}}
    assert from_event(event).path == "/jobs/1"
