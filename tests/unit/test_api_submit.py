"""POST: a 202 is a committed record, and a repeat converges on it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.adapters.memory import MemoryJobStore
from shared.domain.job import RETENTION
from shared.domain.states import FINAL, State
from shared.errors import StoreUnavailable
from tests.api import EXPORT, EXPORT_JOB, Client
from tests.builders import NOW


def test_a_202_names_a_record_that_is_there_already() -> None:
    client = Client()
    answered = client.post("/jobs", EXPORT_JOB)
    job_id = answered.json["jobId"]
    assert answered.status == 202
    assert answered.json == {"jobId": job_id, "status": "queued", "statusUrl": f"/jobs/{job_id}"}
    assert answered.headers["location"] == f"/jobs/{job_id}"
    assert "idempotent-replayed" not in answered.headers
    assert client.get(answered.json["statusUrl"]).json["jobId"] == job_id


def test_every_field_of_the_request_reaches_the_record() -> None:
    client = Client()
    body = EXPORT_JOB | {"runAt": "2026-05-31T14:05:00.250+02:00", "maxAgeSeconds": 600, "tags": {"team": "billing"}}
    trace = "Root=1-67891233-abcdef012345678912345678;Sampled=1"
    job = client.store.get(client.post("/jobs", body, {"X-Amzn-Trace-Id": trace}).json["jobId"])
    assert job is not None
    run_at = NOW + timedelta(minutes=5, milliseconds=250)
    assert (job.tenant, job.run_at, job.deadline_at) == ("acme-eu", run_at, run_at + timedelta(minutes=10))
    assert (job.tags, job.trace_id) == ({"team": "billing"}, "1-67891233-abcdef012345678912345678")
    assert json.loads(job.payload or "") == EXPORT


def test_an_export_is_a_row_and_a_job() -> None:
    client = Client()
    job_id = client.post("/exports", EXPORT).json["jobId"]
    assert isinstance(client.store, MemoryJobStore)
    (row,) = client.store.rows
    assert (row.table, row.values["job_id"], row.values["month"]) == ("exports", job_id, "2026-05")


@pytest.mark.parametrize(("path", "body"), [("/jobs", EXPORT_JOB), ("/exports", EXPORT)])
def test_a_repeat_with_the_same_key_is_the_same_job_and_says_so(path: str, body: dict[str, Any]) -> None:
    client = Client()
    first = client.post(path, body, {"Idempotency-Key": "month-end"})
    again = client.post(path, body, {"idempotency-key": " month-end "})
    assert (again.status, again.json) == (202, first.json)
    assert again.headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_key_whose_job_has_ended_answers_how_and_starts_nothing_until_its_time_is_over(state: State) -> None:
    client, key = Client(), {"Idempotency-Key": "month-end"}
    first = client.post("/jobs", EXPORT_JOB, key).json
    job = client.store.get(first["jobId"])
    assert job is not None
    assert isinstance(client.store, MemoryJobStore)
    ended = replace(job, state=state, outbox=None, expires_at=NOW + RETENTION[state])
    client.store._write(ended)
    client.clock.forward(RETENTION[state])
    again = client.post("/jobs", EXPORT_JOB, key)
    assert (again.status, again.json) == (202, {**first, "status": state.value})
    assert again.headers["idempotent-replayed"] == "true"
    assert client.store.get(job.job_id) == ended
    client.clock.forward(timedelta(seconds=1))
    anew = client.post("/jobs", EXPORT_JOB, key)
    assert (anew.status, anew.json) == (202, first)
    assert "idempotent-replayed" not in anew.headers


def test_the_times_for_which_an_ended_jobs_key_answers_stand_in_the_guide() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    for state, kept in RETENTION.items():
        (line,) = [line for line in guide.splitlines() if line.strip().startswith(f"| `{state}` |")]
        assert f"{kept.days} days" in line


def test_without_a_key_every_post_is_a_job_of_its_own() -> None:
    client = Client()
    assert len({client.post("/jobs", EXPORT_JOB).json["jobId"] for _ in range(3)}) == 3


def test_one_key_of_two_tenants_is_two_jobs() -> None:
    client = Client()
    ids = {
        client.post("/exports", EXPORT | {"tenantId": t}, {"Idempotency-Key": "k"}).json["jobId"] for t in ("a", "b")
    }
    assert len(ids) == 2


def test_fifty_parallel_posts_with_one_key_make_one_job_and_fifty_202s() -> None:
    client = Client()
    with ThreadPoolExecutor(50) as pool:
        posts = [pool.submit(client.post, "/jobs", EXPORT_JOB, {"Idempotency-Key": "k"}) for _ in range(50)]
        answers = [post.result() for post in posts]
    assert [a.status for a in answers] == [202] * 50
    assert len({a.json["jobId"] for a in answers}) == 1
    assert [a.headers.get("idempotent-replayed") for a in answers].count(None) == 1
    assert isinstance(client.store, MemoryJobStore)
    assert len(client.store.images) == 1


class SilentStore(MemoryJobStore):
    """A table that does not answer."""

    def submit(self, *_: object) -> None:
        raise StoreUnavailable("put_item on jobs: ThrottlingException")

    submit_with = get = submit  # type: ignore[assignment]


@pytest.mark.parametrize(("path", "body"), [("/jobs", EXPORT_JOB), ("/exports", EXPORT)])
def test_a_store_that_does_not_answer_is_a_503_that_says_how_to_repeat_safely(path: str, body: dict[str, Any]) -> None:
    client = Client(store=SilentStore())
    answered = client.post(path, body)
    assert (answered.status, int(answered.headers["retry-after"]) > 0) == (503, True)
    assert "Nothing is known to be stored" in answered.json["detail"]
    assert "same Idempotency-Key" in answered.json["detail"]


def test_a_store_that_does_not_answer_a_get_is_a_503() -> None:
    answered = Client(store=SilentStore()).get("/jobs/job_" + "0" * 26)
    assert (answered.status, answered.json["title"]) == (503, "The job store does not answer")


class BrokenStore(MemoryJobStore):
    """A bug."""

    def submit(self, *_: object) -> None:
        raise ZeroDivisionError("secret detail")


def test_a_surprise_is_a_500_whose_stack_is_in_the_log_and_nowhere_else() -> None:
    client = Client(store=BrokenStore())
    answered = client.post("/jobs", EXPORT_JOB)
    assert (answered.status, answered.headers["content-type"]) == (500, "application/problem+json")
    assert "secret" not in answered.text
    assert "request-1" in answered.json["detail"]
    ((_, line),) = client.log.lines
    assert (line["level"], line["request"]) == ("error", "request-1")
    assert isinstance(line["error"], ZeroDivisionError)


def test_every_request_is_one_log_line_with_its_job() -> None:
    client = Client()
    job_id = client.post("/jobs", EXPORT_JOB).json["jobId"]
    client.get(f"/jobs/{job_id}")
    client.post("/jobs", "no json")
    lines = [line for _, line in client.log.lines]
    assert [line.get("job") for line in lines] == [job_id, job_id, None]
    assert [line["status"] for line in lines] == [202, 200, 400]
    assert all(line["state"] not in FINAL and line["state"] is State.QUEUED for line in lines[:2])
