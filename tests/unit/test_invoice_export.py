"""The job type invoice-export: what it writes, and how it refuses what it cannot export."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pypdf import PdfReader

from local.samples import write_month
from shared.adapters.memory_files import MemoryFiles
from shared.domain.job import MESSAGE_CUT
from shared.domain.run import Continue, Files, StoredFile
from shared.errors import DeterministicFailure, LeaseLost
from shared.jobs import Catalogue
from shared.jobs import _invoice_csv as invoice_csv
from shared.jobs._invoice_csv import HEADER, Invoice, read_invoices
from shared.jobs._invoice_pdf import InvoicePdf
from shared.jobs.invoice_export import InvoiceExport, export_invoices

SOURCE = "invoices/acme-eu/2026-05.csv"
TARGET = "exports/acme-eu/2026-05/invoice-export.pdf"
PAYLOAD = InvoiceExport(tenant_id="acme-eu", month="2026-05")
GOOD_ROW = "A-1,2026-05-01,2026-05-31,Greyfen Paper Mills Ltd,GBP,100.00,20,20.00,120.00"


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


def csv_of(*rows: str, header: str = ",".join(HEADER)) -> bytes:
    return "\n".join([header, *rows]).encode()


def exported(data: bytes) -> bytes:
    run = RecordedRun()
    run.files.write(SOURCE, data, "text/csv")
    export_invoices(PAYLOAD, run)
    return run.files.read(TARGET)


def pages(pdf: bytes) -> list[str]:
    return [page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages]


def refusal(data: bytes, file: str = SOURCE) -> DeterministicFailure:
    with pytest.raises(DeterministicFailure) as raised:
        read_invoices(data, file)
    return raised.value


# What it writes


def test_the_pdf_has_one_page_per_invoice_with_its_number_and_amounts() -> None:
    data = write_month(rows=24)
    invoices = read_invoices(data, SOURCE)

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

    assert stored == StoredFile(TARGET, len(run.files.read(TARGET)), "application/pdf")


def test_progress_is_reported_once_per_page_with_the_total() -> None:
    run = RecordedRun()
    run.files.write(SOURCE, write_month(rows=7), "text/csv")

    export_invoices(PAYLOAD, run)

    assert run.reports == [(done, 7, "pages") for done in range(1, 8)]


def test_a_repeated_export_gives_the_same_bytes_in_another_process_too() -> None:
    here = exported(write_month(rows=5))
    code = (
        "import sys; from local.samples import write_month; from shared.jobs._invoice_csv import read_invoices\n"
        "from shared.jobs._invoice_pdf import InvoicePdf\n"
        "pdf = InvoicePdf('acme-eu', '2026-05')\n"
        "for invoice in read_invoices(write_month(rows=5), 'f'): pdf.add_page(invoice)\n"
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
            if done == 3:
                raise LeaseLost(self.job_id, "renew", None)

    run = Overtaken()
    run.files.write(SOURCE, write_month(rows=5), "text/csv")

    with pytest.raises(LeaseLost):
        export_invoices(PAYLOAD, run)

    with pytest.raises(DeterministicFailure, match="missing"):
        run.files.read(TARGET)


# Long months


def test_an_export_of_5_000_pages_runs_over_several_runs_and_resumes_where_it_was() -> None:
    run = RecordedRun()
    run.files.write(SOURCE, write_month(rows=5_000), "text/csv")
    reached = []
    while isinstance(ending := export_invoices(PAYLOAD, run), Continue):
        run.checkpoint = dict(ending.checkpoint)
        reached.append(run.checkpoint["ends"][-1])
    assert reached == [1_000, 2_000, 3_000, 4_000]
    assert [done for done, _, _ in run.reports] == list(range(1, 5_001)), "no page is drawn twice, none left out"
    reader = PdfReader(io.BytesIO(run.files.read(TARGET)))
    assert len(reader.pages) == 5_000
    for n in (0, 999, 1_000, 4_999):
        assert f"Number: {invoice_numbers(5_000)[n]}" in reader.pages[n].extract_text()


def test_a_run_that_died_in_the_middle_repeats_its_part_and_the_document_is_the_same() -> None:
    documents = []
    for dies in (False, True):
        run = RecordedRun()
        run.files.write(SOURCE, write_month(rows=2_500), "text/csv")
        while isinstance(ending := export_invoices(PAYLOAD, run), Continue):
            if dies:
                export_invoices(PAYLOAD, run)  # the same part once more, from the same checkpoint
            run.checkpoint = dict(ending.checkpoint)
        documents.append(run.files.read(TARGET))
    assert documents[0] == documents[1]


def test_invoices_that_change_between_two_runs_begin_anew_instead_of_mixing_two_states() -> None:
    run = RecordedRun()
    run.files.write(SOURCE, write_month(rows=1_500), "text/csv")
    ending = export_invoices(PAYLOAD, run)
    assert isinstance(ending, Continue)
    run.checkpoint = dict(ending.checkpoint)
    run.files.write(SOURCE, write_month(rows=30, seed=7), "text/csv")
    assert isinstance(export_invoices(PAYLOAD, run), StoredFile)
    assert len(PdfReader(io.BytesIO(run.files.read(TARGET))).pages) == 30


def test_no_page_is_missing_when_a_deployment_changes_how_many_a_run_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    run = RecordedRun()
    run.files.write(SOURCE, write_month(rows=25), "text/csv")
    for pages_per_run in (10, 7, 20):
        monkeypatch.setattr("shared.jobs.invoice_export.PAGES_PER_RUN", pages_per_run)
        ending = export_invoices(PAYLOAD, run)
        if isinstance(ending, Continue):
            run.checkpoint = dict(ending.checkpoint)
    assert len(PdfReader(io.BytesIO(run.files.read(TARGET))).pages) == 25


def test_a_part_of_another_length_is_refused_rather_than_a_document_with_pages_missing() -> None:
    run = RecordedRun()
    run.files.write(SOURCE, write_month(rows=1_010), "text/csv")
    ending = export_invoices(PAYLOAD, run)
    assert isinstance(ending, Continue)
    run.checkpoint = dict(ending.checkpoint)
    run.files.write(f"work/{run.job_id}/pages-001000.pdf", exported(write_month(rows=3)), "application/pdf")
    with pytest.raises(DeterministicFailure, match="have 13 pages, the month has 1010"):
        export_invoices(PAYLOAD, run)


def invoice_numbers(rows: int) -> list[str]:
    return [invoice.invoice_number for invoice in read_invoices(write_month(rows=rows), SOURCE)]


def test_a_file_that_would_outgrow_the_worker_is_refused_before_it_is_read() -> None:
    refused = refusal(b"\n" * (16 * 1024 * 1024 + 1))
    assert refused.code == "csv-too-large"
    assert "split the file" in str(refused)


# Customers' names

INVOICE = Invoice(
    "A-1",
    date(2026, 5, 1),
    date(2026, 5, 31),
    "x",
    "EUR",
    Decimal("1.00"),
    Decimal(19),
    Decimal("0.19"),
    Decimal("1.19"),
)


def document_for(customer: str) -> bytes:
    pdf = InvoicePdf("acme-eu", "2026-05")
    pdf.add_page(replace(INVOICE, customer=customer))
    return pdf.finish()


def page_of(customer: str) -> str:
    return pages(document_for(customer))[0]


@pytest.mark.parametrize(
    "name",
    [
        "Žluťoučký kůň s.r.o.",
        "Ørsted & Ærø A/S",
        "Łąka i Źródło",
        "Ελιά Α.Ε.",
        "Пекарна Синя Гора",
        "株式会社髙島",
        "中国电信",
        "주식회사 한국",
        "<b>&amp; %s {0} \\n (x) [y] /Type /Page >>",
    ],
)
def test_a_customer_of_any_script_is_on_the_page(name: str) -> None:
    assert name in page_of(name)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Amulet \U0001f9ff Ltd", "Amulet [U+1F9FF] Ltd"),
        ("𠮷野家", "[U+20BB7]野家"),
        ("Safe\u202egnp.exe", "Safe[U+202E]gnp.exe"),
        ("Zero\u200bWidth", "Zero[U+200B]Width"),
        ("Private \ue000", "Private [U+E000]"),
        ("E\u0301cole", "École"),
    ],
)
def test_what_no_font_can_show_is_spelled_out_never_dropped(name: str, shown: str) -> None:
    assert shown in page_of(name)


@pytest.mark.parametrize("name", ["W" * 200, "long words " * 18, "\U0001f9ff" * 200])
def test_the_longest_name_is_wrapped_inside_the_page(name: str) -> None:
    boxes: list[float] = []
    page = PdfReader(io.BytesIO(document_for(name.strip()))).pages[0]
    text = page.extract_text(visitor_text=lambda text, _cm, tm, *_: boxes.append(tm[5]) if text.strip() else None)

    spelled = name.replace("\U0001f9ff", "[U+1F9FF]")
    assert "".join(spelled.split()) in "".join(text.split())
    assert max(len(line) for line in text.splitlines()) < 100
    assert "Gross" in text
    assert min(boxes) > 50


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 40), seed=st.integers(0, 2**32))
def test_whatever_month_is_made_every_invoice_is_on_its_page(rows: int, seed: int) -> None:
    data = write_month(rows, seed=seed)

    found = pages(exported(data))

    assert [i.invoice_number in page for i, page in zip(read_invoices(data, "f"), found, strict=True)] == [True] * rows


@settings(max_examples=60, deadline=None)
@given(customer=st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=200))
def test_no_name_that_the_csv_accepts_crashes_the_pdf(customer: str) -> None:
    assert "Gross" in page_of(customer)


# What it refuses


@pytest.mark.parametrize(
    ("row", "column", "found", "expected"),
    [
        (GOOD_ROW.replace("2026-05-01", "2026-02-30"), "issued_on", "'2026-02-30'", "a real date"),
        (GOOD_ROW.replace("2026-05-31", "20260531"), "due_on", "'20260531'", "YYYY-MM-DD"),
        (GOOD_ROW.replace("2026-05-31", "2026-04-30"), "due_on", "'2026-04-30'", "no day before 2026-05-01"),
        (GOOD_ROW.replace("100.00", "NaN"), "net", "'NaN'", "1234.50"),
        (GOOD_ROW.replace("100.00", "1e2"), "net", "'1e2'", "1234.50"),
        (GOOD_ROW.replace("100.00", "１００"), "net", "'１００'", "1234.50"),
        (GOOD_ROW.replace("100.00", "Infinity"), "net", "'Infinity'", "1234.50"),
        (GOOD_ROW.replace("100.00", '"100,00"'), "net", "'100,00'", "1234.50"),
        (GOOD_ROW.replace(",20,", ",101,"), "vat_rate", "'101'", "a percentage"),
        (GOOD_ROW.replace("120.00", "120.01"), "gross", "'120.01'", "net + vat = 120.00"),
        (GOOD_ROW.replace("GBP", "gbp"), "currency", "'gbp'", "three capital letters"),
        (GOOD_ROW.replace("A-1", ""), "invoice_number", "''", "1 to 40 characters"),
        (GOOD_ROW.replace("Greyfen Paper Mills Ltd", '"Grey\nfen"'), "customer", r"'Grey\nfen", "one line"),
        (GOOD_ROW.replace("Greyfen", "Grey\0fen"), "customer", r"'Grey\x00fen", "one line"),
        (GOOD_ROW.replace(",GBP", ""), "gross", "nothing", "9 cells, not 8"),
        (GOOD_ROW + ",extra", "10", "'extra'", "9 cells, not 10"),
        (GOOD_ROW.replace("A-1", "ok-2"), "invoice_number", "'ok-2'", "not used in row 3"),
    ],
)
def test_a_broken_row_is_named_with_what_was_found_and_what_was_expected(
    row: str, column: str, found: str, expected: str
) -> None:
    failure = refusal(csv_of(GOOD_ROW.replace("A-1", "ok-1"), GOOD_ROW.replace("A-1", "ok-2"), row, GOOD_ROW))

    assert failure.code == "csv-row-invalid"
    assert f"{SOURCE} row 4, column {column}: found {found}" in str(failure)
    assert expected in str(failure)


def test_rows_are_counted_as_a_spreadsheet_counts_them() -> None:
    two_lines_in_one_row = '"A\n-1"' + GOOD_ROW.removeprefix("A-1")
    assert "row 2, column invoice_number" in str(refusal(csv_of(two_lines_in_one_row)))

    assert "row 5, column net" in str(refusal(csv_of("", GOOD_ROW, ",,,,,,,,", GOOD_ROW.replace("100.00", "x"))))


@pytest.mark.parametrize("row", ['A-1,"2026-05-01', 'A-1,"x"y', "A-1," + "x" * 200_000])
def test_a_row_that_is_not_csv_is_named(row: str) -> None:
    failure = refusal(csv_of(GOOD_ROW, row, GOOD_ROW))

    assert failure.code == "csv-row-invalid"
    assert f"{SOURCE} row 3" in str(failure)


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\r\n\r\n", csv_of(), csv_of("", ",,,,,,,,")])
def test_a_month_without_invoices_is_refused_as_empty(data: bytes) -> None:
    assert refusal(data).code == "csv-empty"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (";".join(HEADER), "column 1: found 'invoice_number;issued_o…, expected invoice_number"),
        (",".join(HEADER[:-1]), "column 9: found nothing, expected gross"),
        (",".join([*HEADER, "note"]), "column 10: found 'note', expected no further column"),
        (",".join(HEADER).replace("net", "Net"), "column 6: found 'Net', expected net"),
    ],
)
def test_another_header_is_refused_at_its_first_difference(header: str, said: str) -> None:
    failure = refusal(csv_of(GOOD_ROW, header=header))

    assert failure.code == "csv-header-invalid"
    assert f"{SOURCE} row 1, {said}" in str(failure)


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_text_that_is_not_utf8_is_refused_at_its_byte(bom: bytes) -> None:
    data = bom + csv_of(GOOD_ROW.replace("Greyfen", "Caf?")).replace(b"?", b"\xe9")

    failure = refusal(data)

    assert failure.code == "csv-not-utf8"
    assert f"{SOURCE}: not UTF-8 at byte {data.index(0xE9)} (0xe9, line 2)" in str(failure)


def test_a_byte_order_mark_and_windows_line_ends_are_fine() -> None:
    data = b"\xef\xbb\xbf" + csv_of(GOOD_ROW, GOOD_ROW.replace("A-1", "A-2"), "").replace(b"\n", b"\r\n")

    assert [i.invoice_number for i in read_invoices(data, SOURCE)] == ["A-1", "A-2"]


def test_amounts_are_exact() -> None:
    row = GOOD_ROW.replace("100.00,20,20.00,120.00", "0.10,7.5,0.20,0.30")

    assert read_invoices(csv_of(row), SOURCE)[0].gross == Decimal("0.30")


def test_more_invoices_than_a_worker_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invoice_csv, "MAX_INVOICES", 2)
    rows = [GOOD_ROW.replace("A-1", f"A-{n}") for n in range(3)]

    assert len(read_invoices(csv_of(*rows[:2]), SOURCE)) == 2
    failure = refusal(csv_of(*rows))
    assert failure.code == "csv-too-many-rows"
    assert "more than 2 invoices" in str(failure)


def test_a_refusal_fits_into_the_record_even_for_the_longest_tenant() -> None:
    file = f"invoices/{'t' * 64}/2026-05.csv"
    rows = [GOOD_ROW.replace("A-1", "N" * 40), GOOD_ROW.replace("A-1", "N" * 40)]
    for broken in (csv_of(*rows), csv_of(GOOD_ROW.replace("Greyfen", "\0" * 201)), csv_of("x" + "," * 40)):
        assert len(str(refusal(broken, file))) <= MESSAGE_CUT


def test_a_broken_row_leaves_no_pdf_behind() -> None:
    run = RecordedRun()
    run.files.write(SOURCE, csv_of(GOOD_ROW, "broken"), "text/csv")

    with pytest.raises(DeterministicFailure, match="row 3"):
        export_invoices(PAYLOAD, run)

    assert run.reports == []
    with pytest.raises(DeterministicFailure, match="missing"):
        run.files.read(TARGET)


def test_a_missing_month_is_named_and_final() -> None:
    with pytest.raises(DeterministicFailure, match=SOURCE) as raised:
        export_invoices(PAYLOAD, RecordedRun())

    assert raised.value.code == "file-missing"


def test_a_tenant_cannot_export_another_tenants_invoices() -> None:
    run = RecordedRun(tenant="mallory")
    run.files.write(SOURCE, csv_of(GOOD_ROW), "text/csv")

    with pytest.raises(DeterministicFailure) as raised:
        export_invoices(PAYLOAD, run)

    assert raised.value.code == "tenant-mismatch"


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
    code = "import sys, shared.jobs.invoice_export; sys.exit('reportlab' in sys.modules)"

    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)
