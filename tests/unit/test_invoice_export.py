"""The job type invoice-export: what it writes, and how it refuses what it cannot export."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pypdf import PdfReader

from local.samples import write_month
from shared.adapters.memory_files import MemoryFiles
from shared.domain.run import Files, StoredFile
from shared.errors import DeterministicFailure, LeaseLost
from shared.jobs import Catalogue
from shared.jobs.invoice_export import InvoiceExport, export_invoices
from tests.unit.test_invoice_csv import GOOD_ROW, SOURCE, csv_of, invoices_in
from tests.unit.test_pdf_text import document_for

TARGET = "exports/acme-eu/2026-05/invoice-export.pdf"
PAYLOAD = InvoiceExport(tenant_id="acme-eu", month="2026-05")


@dataclass
class RecordedRun:
    """A run that keeps what the handler reported."""

    job_id: str = "job_00000000000000000000000000"
    attempt: int = 1
    tenant: str | None = "acme-eu"
    idempotency_key: str = "key"
    files: Files = field(default_factory=MemoryFiles)
    checkpoint: Mapping[str, Any] | None = None
    stage: str = "test"
    time_left: timedelta = timedelta(minutes=10)
    reports: list[tuple[int, int, str]] = field(default_factory=list)

    def progress(self, done: int, total: int, unit: str) -> None:
        self.reports.append((done, total, unit))


def exported(data: bytes) -> bytes:
    run = RecordedRun()
    run.files.write(SOURCE, data, "text/csv")
    export_invoices(PAYLOAD, run)
    return run.files.read(TARGET)


def pages(pdf: bytes) -> list[str]:
    return [page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages]


# What it writes


def test_the_pdf_has_one_page_per_invoice_with_its_number_and_amounts() -> None:
    data = write_month(rows=24)
    invoices = invoices_in(data)

    found = pages(exported(data))

    assert len(found) == len(invoices) == 24
    for invoice, page in zip(invoices, found, strict=True):
        assert f"Number: {invoice.invoice_number}\n" in page
        assert invoice.customer in page
        assert f"{invoice.gross:,} {invoice.currency}" in page
        assert str(invoice.due_on) in page


def test_the_result_names_the_stored_file() -> None:
    run = RecordedRun()
    run.files.write(SOURCE, write_month(rows=3), "text/csv")

    stored = export_invoices(PAYLOAD, run)

    assert isinstance(stored, StoredFile)
    assert (stored.key, stored.size) == (TARGET, len(run.files.read(TARGET)))
    assert stored.version


def test_progress_is_the_bytes_that_were_checked_and_then_each_page() -> None:
    run = RecordedRun()
    data = write_month(rows=7)
    run.files.write(SOURCE, data, "text/csv")

    export_invoices(PAYLOAD, run)

    assert run.reports == [(len(data), len(data), "bytes read"), *((done, 7, "pages") for done in range(1, 8))]


def test_a_repeated_export_gives_the_same_bytes_in_another_process_too() -> None:
    here = exported(write_month(rows=5))
    code = (
        "import sys; from local.samples import write_month; from shared.jobs._invoice_csv import read_invoices\n"
        "from shared.jobs._invoice_pdf import InvoicePdf\n"
        "pdf = InvoicePdf('acme-eu', '2026-05')\n"
        "for _, invoice in read_invoices([write_month(rows=5)], 'f'): pdf.add_page(invoice)\n"
        "sys.stdout.buffer.write(pdf.finish())\n"
    )
    root = Path(__file__).parents[2]
    there = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=True).stdout

    assert exported(write_month(rows=5)) == here == there


def test_exports_side_by_side_do_not_damage_each_other() -> None:
    months = [write_month(rows=20, seed=seed) for seed in range(8)]
    alone = [exported(month) for month in months]

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(exported, months * 2))

    assert together == alone * 2


def test_a_document_closed_while_another_closes_leaves_it_intact(monkeypatch: pytest.MonkeyPatch) -> None:
    from reportlab.pdfbase.ttfonts import TTFontFile

    alone = document_for("Žluťoučký kůň")
    seek = TTFontFile.seek
    others: list[bytes] = []

    def interrupted(self: TTFontFile, position: int) -> None:
        # What another thread may do between the moving of the font's read position and the read.
        seek(self, position)
        if others[-1:] != [b""]:
            others.append(b"")
            others[-1] = document_for("Plain")

    monkeypatch.setattr(TTFontFile, "seek", interrupted)

    assert document_for("Žluťoučký kůň") == alone
    assert len(others) > 50
    assert set(others) == {document_for("Plain")}


def test_an_export_that_lost_its_job_writes_nothing() -> None:
    class Overtaken(RecordedRun):
        def progress(self, done: int, total: int, unit: str) -> None:
            super().progress(done, total, unit)
            if (done, unit) == (3, "pages"):
                raise LeaseLost(self.job_id, "renew", None)

    run = Overtaken()
    run.files.write(SOURCE, write_month(rows=5), "text/csv")

    with pytest.raises(LeaseLost):
        export_invoices(PAYLOAD, run)

    with pytest.raises(DeterministicFailure, match="missing"):
        run.files.read(TARGET)


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 40), seed=st.integers(0, 2**32))
def test_whatever_month_is_made_every_invoice_is_on_its_page(rows: int, seed: int) -> None:
    data = write_month(rows, seed=seed)

    found = pages(exported(data))

    assert [i.invoice_number in page for i, page in zip(invoices_in(data), found, strict=True)] == [True] * rows


def test_a_broken_row_leaves_no_pdf_behind() -> None:
    run = RecordedRun()
    run.files.write(SOURCE, csv_of(GOOD_ROW, "broken"), "text/csv")

    with pytest.raises(DeterministicFailure, match="row 3"):
        export_invoices(PAYLOAD, run)

    assert not [report for report in run.reports if report[2] == "pages"]
    with pytest.raises(DeterministicFailure, match="missing"):
        run.files.read(TARGET)


def test_a_missing_month_is_named_and_final() -> None:
    with pytest.raises(DeterministicFailure, match=SOURCE) as raised:
        export_invoices(PAYLOAD, RecordedRun())

    assert raised.value.code == "file-missing"


# The declaration


def test_the_catalogue_finds_the_job_type_by_its_file() -> None:
    found = Catalogue().get("invoice-export")

    assert found is not None
    assert (found.queue.name, found.version, found.lease, found.requires_result) == (
        "exports.month-end",
        1,
        timedelta(seconds=30),
        True,
    )


def test_the_helpers_beside_it_are_no_job_types() -> None:
    assert not any("csv" in name or "pdf" in name for name in Catalogue().all())


@pytest.mark.parametrize(
    "month", ["2026-13", "2026-00", "2026-5", "1999-12", "2100-01", "2026-05\n", "２０２６-05", ""]
)
def test_a_month_that_does_not_exist_is_refused_at_the_door(month: str) -> None:
    with pytest.raises(ValidationError, match="month"):
        InvoiceExport(tenant_id="acme-eu", month=month)


@pytest.mark.parametrize("tenant", ["", "a/b", "..", "a\0", "-a", "t" * 65, "acme\n", "é"])
def test_a_tenant_that_could_leave_its_folder_is_refused_at_the_door(tenant: str) -> None:
    with pytest.raises(ValidationError, match="tenant"):
        InvoiceExport(tenant_id=tenant, month="2026-05")


def test_importing_the_job_type_does_not_load_the_pdf_library() -> None:
    heavy = {"reportlab", "bidi", "arabic_reshaper"}
    code = f"import sys, shared.jobs.invoice_export; sys.exit(bool({heavy} & set(sys.modules)))"

    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)
