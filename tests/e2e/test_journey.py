"""The journey: HTTP in, the real stacks behind it, a result out."""

from __future__ import annotations

import filecmp
import io
from pathlib import Path

import pytest
from pypdf import PdfReader

from local import samples
from local.place import PROJECT
from shared.domain.states import State
from tests.e2e.cloud import Answer, Cloud, fetch


def invoices_of(month: bytes) -> int:
    return len(month.decode().strip().splitlines()) - 1


def result_of(cloud: Cloud, job_id: str) -> Answer:
    """The file behind the job's result link."""
    redirect = cloud.ask("GET", f"/jobs/{job_id}/result")
    assert redirect.status == 303, redirect.body
    return fetch(redirect.headers["Location"])


def test_an_export_asked_for_over_http_ends_as_a_pdf_with_one_page_per_invoice(cloud: Cloud) -> None:
    accepted = cloud.ask("POST", "/exports", {"tenantId": "acme-eu", "month": "2026-05"})
    assert accepted.status == 202
    assert {"jobId", "status", "statusUrl"} <= accepted.json.keys()
    assert accepted.json["status"] == State.QUEUED
    assert accepted.headers["Location"] == accepted.json["statusUrl"] == f"/jobs/{accepted.json['jobId']}"

    ended = cloud.wait(accepted.json["jobId"])

    sample = cloud.s3.get_object(Bucket=cloud.up.outputs["Bucket"], Key="invoices/acme-eu/2026-05.csv")["Body"].read()
    pages = invoices_of(sample)
    assert ended["status"] == State.COMPLETED
    assert ended["progress"] == {"done": pages, "total": pages, "unit": "pages"}
    pdf = result_of(cloud, ended["jobId"])
    assert pdf.headers["Content-Type"] == "application/pdf"
    assert len(PdfReader(io.BytesIO(pdf.body)).pages) == pages > 1


def test_an_export_keeps_its_file_when_the_month_is_corrected_and_exported_again(cloud: Cloud) -> None:
    def exported(rows: int) -> str:
        cloud.put_month("2026-02", samples.write_month(rows=rows, month="2026-02"))
        return str(cloud.wait(cloud.export("2026-02"))["jobId"])

    first, second = exported(2), exported(3)

    shown = [result_of(cloud, job_id).body for job_id in (first, second)]
    assert [len(PdfReader(io.BytesIO(pdf)).pages) for pdf in shown] == [2, 3]
    records = [cloud.record(job_id).result for job_id in (first, second)]
    assert [len(pdf) for pdf in shown] == [record["file"]["size"] for record in records if record]
    assert len({record["file"]["key"] for record in records if record}) == 1, "both under the one name of the month"


def test_a_get_right_after_the_202_finds_the_job(cloud: Cloud) -> None:
    for text in "abc":
        accepted = cloud.ask("POST", "/jobs", {"type": "note", "payload": {"text": text}})
        assert cloud.ask("GET", accepted.json["statusUrl"]).status == 200


def test_one_idempotency_key_makes_one_job_that_runs_once(cloud: Cloud) -> None:
    key = {"Idempotency-Key": "close-of-may"}
    first = cloud.export("2026-05", key)
    again = cloud.ask("POST", "/exports", {"tenantId": "acme-eu", "month": "2026-05"}, key)
    ended = cloud.wait(first)
    later = cloud.ask("POST", "/exports", {"tenantId": "acme-eu", "month": "2026-05"}, key)

    for replayed in (again, later):
        assert replayed.status == 202
        assert replayed.json["jobId"] == first
        assert replayed.headers["Idempotent-Replayed"] == "true"
    assert later.json["status"] == ended["status"] == State.COMPLETED
    assert (cloud.record(first).run, cloud.record(first).dispatch) == (1, 1)


def test_an_unchanged_job_costs_its_poller_no_body(cloud: Cloud) -> None:
    job_id = cloud.submit("/jobs", {"type": "note", "payload": {"text": "poll me"}})
    cloud.wait(job_id)
    etag = cloud.ask("GET", f"/jobs/{job_id}").headers["ETag"]

    unchanged = cloud.ask("GET", f"/jobs/{job_id}", headers={"If-None-Match": etag})

    assert (unchanged.status, unchanged.body) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/jobs/job_00000000000000000000000000", "/jobs/job_00000000000000000000000000/result"]
)
def test_an_unknown_job_is_not_found(cloud: Cloud, path: str) -> None:
    assert cloud.ask("GET", path).status == 404


def test_a_job_type_added_as_one_file_is_submitted_run_and_listed(
    cloud: Cloud, project_with_a_new_job_type: Path
) -> None:
    added = [Path("shared/jobs/mishap.py"), Path("shared/jobs/note.py")]  # a file each
    assert differing(project_with_a_new_job_type, PROJECT) == added

    job_id = cloud.submit("/jobs", {"type": "note", "payload": {"text": "hello"}, "tenantId": "acme-eu"})

    assert cloud.wait(job_id)["status"] == State.COMPLETED
    assert cloud.wait(job_id)["progress"]["done"] == len("hello")
    assert b'"note"' in cloud.ask("GET", "/openapi.json").body


def differing(copy: Path, original: Path) -> list[Path]:
    """Files of the copy that the original lacks or has otherwise."""
    files = (f.relative_to(copy) for f in copy.rglob("*") if f.is_file() and not {"__pycache__"} & set(f.parts))
    return sorted(f for f in files if not (original / f).is_file() or not filecmp.cmp(copy / f, original / f, False))


def test_a_month_as_large_as_customers_have_them_is_exported(cloud: Cloud) -> None:
    cloud.put_month("2025-12", samples.write_month(rows=300))

    ended = cloud.wait(cloud.export("2025-12"))

    assert ended["progress"]["done"] == 300
    assert len(PdfReader(io.BytesIO(result_of(cloud, ended["jobId"]).body)).pages) == 300
