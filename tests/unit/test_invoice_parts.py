"""Exports larger than one run: parts, kills, changes between two runs, and the document they end as."""

from __future__ import annotations

import io
import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfReader

from local.samples import write_month
from shared.adapters.memory_files import MemoryFiles
from shared.domain.job import MAX_CHECKPOINT_BYTES
from shared.domain.run import Continue, StoredFile
from shared.errors import DeterministicFailure, TransientFailure
from shared.jobs import _invoice_parts
from shared.jobs._pdf_join import JoinedPdf
from shared.jobs.invoice_export import InvoiceExport, export_invoices
from tests.handling import HandledRun
from tests.unit.test_invoice_csv import SOURCE
from tests.unit.test_pdf_text import document_for

TARGET = "exports/acme-eu/2026-05/invoice-export.pdf"
PAYLOAD = InvoiceExport(tenant_id="acme-eu", month="2026-05")


class Killed(BaseException):
    """The process ends here."""


class Month(HandledRun):
    """A run of one export; `drawn` counts the pages of all its runs, `dies_at` is the page that kills one."""

    def __init__(self, rows: int, files: MemoryFiles | None = None) -> None:
        super().__init__(files=files or MemoryFiles(), time_left=timedelta(minutes=10))
        self.files.write(SOURCE, write_month(rows=rows), "text/csv")
        self.drawn: list[int] = []
        self.units: list[str] = []
        self.dies_at: int | None = None

    def progress(self, done: int, total: int, unit: str) -> None:
        self.units.append(unit)
        if unit != "pages" or (done == total and self.units[-2:-1] == ["parts joined"]):
            return
        if done == self.dies_at:
            self.dies_at = None
            raise Killed
        self.drawn.append(done)

    def to_the_end(self) -> StoredFile:
        for _ in range(1_000):
            ending = export_invoices(PAYLOAD, self)
            if isinstance(ending, StoredFile):
                return ending
            assert isinstance(ending, Continue)
            assert ending.checkpoint != self.checkpoint
            assert len(str(ending.checkpoint)) < MAX_CHECKPOINT_BYTES / 2
            self.checkpoint = dict(ending.checkpoint)
        raise AssertionError("it never ends")

    @property
    def document(self) -> bytes:
        return self.files.read(TARGET)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_invoice_parts, "PAGES_PER_PART", 5)
    monkeypatch.setattr("shared.jobs.invoice_export.PARTS_PER_RUN", 3)


def numbers_in(document: bytes) -> list[str]:
    return [re.findall(r"Number: (\S+)", page.extract_text())[0] for page in PdfReader(io.BytesIO(document)).pages]


def test_a_month_larger_than_a_part_ends_as_one_document_with_every_page_once() -> None:
    month = Month(2_100)
    month.to_the_end()

    assert month.drawn == list(range(1, 2_101)), "no page is drawn twice, none left out"
    pages = PdfReader(io.BytesIO(month.document)).pages
    assert len(pages) == 2_100
    for number in (1, 1_000, 1_001, 2_000, 2_001, 2_100):  # the ends, and both sides of each seam
        assert f"Number: 2026-05-{number:05}" in pages[number - 1].extract_text()


@pytest.mark.parametrize("rows", [1, 5, 6, 14, 15, 16, 30, 31])
def test_a_month_of_any_length_has_as_many_pages(small_parts: None, rows: int) -> None:
    month = Month(rows)
    month.to_the_end()

    assert numbers_in(month.document) == [f"2026-05-{n:05}" for n in range(1, rows + 1)]


def test_a_run_stops_after_its_share_of_parts_and_the_next_goes_on(small_parts: None) -> None:
    month = Month(40)

    assert isinstance(export_invoices(PAYLOAD, month), Continue)
    assert month.drawn[-1] == 15
    assert isinstance(export_invoices(PAYLOAD, month), Continue)
    assert month.drawn == list(range(1, 31))


def test_a_run_stops_while_half_of_its_time_is_left(small_parts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Hurried(Month):
        def progress(self, done: int, total: int, unit: str) -> None:
            super().progress(done, total, unit)
            self.time_left = timedelta(minutes=10) - timedelta(minutes=1) * len(self.drawn)

    month = Hurried(40)

    assert isinstance(export_invoices(PAYLOAD, month), Continue)
    assert month.drawn[-1] == 10, "the part in which the half passed is kept"


@settings(max_examples=15, deadline=None)
@given(dies_at=st.integers(1, 42))
def test_a_run_killed_at_any_page_goes_on_from_its_last_part_and_the_document_is_the_same(dies_at: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_invoice_parts, "PAGES_PER_PART", 5)
        patch.setattr("shared.jobs.invoice_export.PARTS_PER_RUN", 3)
        whole, killed = Month(42), Month(42)
        whole.to_the_end()
        killed.dies_at = dies_at
        with pytest.raises(Killed):
            killed.to_the_end()

        killed.to_the_end()

        assert killed.document == whole.document
        assert len(killed.drawn) < 42 + 5, "no more than one part is drawn again"


class Dying(MemoryFiles):
    """Kills its process before or after its nth call."""

    def __init__(self, at: int, *, after: bool) -> None:
        super().__init__()
        self._left, self._after = at, after

    def lives_on(self) -> None:
        self._left = 10**9

    def _call(self, act: Any) -> Any:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Killed
        try:
            return act()
        finally:
            if self._left == 0:
                raise Killed

    def read(self, key: str) -> bytes:
        return self._call(lambda: super(Dying, self).read(key))  # type: ignore[no-any-return]

    def write(self, key: str, data: bytes, content_type: str) -> StoredFile:
        return self._call(lambda: super(Dying, self).write(key, data, content_type))  # type: ignore[no-any-return]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_run_killed_at_any_call_to_the_bucket_ends_as_the_same_document(small_parts: None, after: bool) -> None:
    whole = Month(22)
    whole.to_the_end()
    deaths, dying = 0, True
    while dying:
        bucket = Dying(deaths + 2, after=after)  # the first call puts the month there
        month = Month(22, bucket)
        try:
            month.to_the_end()
            dying = False
        except Killed:
            deaths += 1
            month.to_the_end()
        bucket.lives_on()
        assert month.document == whole.document
        assert len(month.drawn) <= 22 + 5
    assert deaths > 15


def test_invoices_that_change_between_two_runs_begin_anew_instead_of_mixing_two_states(small_parts: None) -> None:
    month = Month(40)
    first = export_invoices(PAYLOAD, month)
    month.files.write(SOURCE, write_month(rows=17, seed=7), "text/csv")

    month.to_the_end()

    assert isinstance(first, Continue)
    assert month.drawn == [*range(1, 16), *range(1, 18)]
    assert len(numbers_in(month.document)) == 17
    fresh = Month(1)
    fresh.files.write(SOURCE, write_month(rows=17, seed=7), "text/csv")
    fresh.to_the_end()
    assert month.document == fresh.document


def test_invoices_that_change_within_a_run_stop_it_and_it_is_tried_again(small_parts: None) -> None:
    class Changed(Month):
        def progress(self, done: int, total: int, unit: str) -> None:
            if (done, unit) == (7, "pages"):
                self.files.write(SOURCE, write_month(rows=12, seed=7), "text/csv")
            super().progress(done, total, unit)

    month = Changed(40)

    with pytest.raises(TransientFailure, match="was changed") as raised:
        export_invoices(PAYLOAD, month)

    assert raised.value.code == "file-changed"
    with pytest.raises(DeterministicFailure, match="missing"):
        month.files.read(TARGET)


def test_a_row_that_is_wrong_anywhere_refuses_the_month_before_a_page_is_drawn(small_parts: None) -> None:
    month = Month(40)
    month.files.write(SOURCE, month.files.read(SOURCE) + b"broken\r\n", "text/csv")

    with pytest.raises(DeterministicFailure, match="row 42"):
        export_invoices(PAYLOAD, month)

    assert month.drawn == []


def test_a_checkpoint_of_an_older_worker_begins_anew(small_parts: None) -> None:
    month = Month(12)
    month.checkpoint = {"ends": [5], "source": "0123456789abcdef"}
    month.to_the_end()

    assert len(numbers_in(month.document)) == 12


def test_no_page_is_missing_when_a_deployment_changes_how_large_parts_are(monkeypatch: pytest.MonkeyPatch) -> None:
    month = Month(25)
    monkeypatch.setattr("shared.jobs.invoice_export.PARTS_PER_RUN", 1)
    for pages in (10, 7, 20):
        monkeypatch.setattr(_invoice_parts, "PAGES_PER_PART", pages)
        if isinstance(ending := export_invoices(PAYLOAD, month), Continue):
            month.checkpoint = dict(ending.checkpoint)
    month.to_the_end()

    assert numbers_in(month.document) == [f"2026-05-{n:05}" for n in range(1, 26)]


def test_a_part_of_another_length_is_refused_rather_than_a_document_with_pages_missing(small_parts: None) -> None:
    month = Month(12)
    export_invoices(PAYLOAD, month)
    work = next(key for key in month.files._versions if key.endswith("pages-000000-000005.pdf"))  # type: ignore[attr-defined]
    month.files.write(work, document_for("x"), "application/pdf")

    with pytest.raises(DeterministicFailure, match="the parts have 8 pages, the month has 12") as raised:
        month.to_the_end()

    assert raised.value.code == "pages-missing"
    assert TARGET not in month.files._versions or len(month.files._versions[TARGET]) == 1  # type: ignore[attr-defined]


# The joined file itself


class Sink:
    stored: StoredFile

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data


@pytest.mark.parametrize("names", [["x"], ["x", "Žluťoučký"], ["株式会社", "שלום", "x"] * 4])
def test_a_joined_file_is_a_pdf_that_a_strict_reader_takes_with_every_font_and_page(names: list[str]) -> None:
    sink = Sink()
    joined = JoinedPdf(sink, "Invoices of acme-eu, 2026-05")
    for name in names:
        joined.add(document_for(name))
    joined.finish()

    reader = PdfReader(io.BytesIO(bytes(sink.data)), strict=True)
    assert [page.extract_text() for page in reader.pages] == [
        PdfReader(io.BytesIO(document_for(name))).pages[0].extract_text() for name in names
    ]
    assert reader.metadata is not None
    assert reader.metadata.title == "Invoices of acme-eu, 2026-05"
    for number in range(1, int(reader.trailer["/Size"])):  # type: ignore[call-overload]
        offset = int(sink.data[reader_xref(sink.data) + 20 * number :][:10])
        if sink.data[reader_xref(sink.data) + 20 * number :][17:18] == b"n":
            assert sink.data[offset:].startswith(b"%d 0 obj" % number)


def reader_xref(data: bytes | bytearray) -> int:
    """Where the lines of the cross-reference table begin."""
    table = int(data[data.rindex(b"startxref") :].split()[1])
    return data.index(b"\n", table + 5) + 1


@pytest.mark.parametrize("part", [b"", b"%PDF-1.4\n", b"not a PDF", document_for("x")[:-200]])
def test_a_part_that_is_no_pdf_of_ours_is_refused(part: bytes) -> None:
    with pytest.raises(DeterministicFailure) as raised:
        JoinedPdf(Sink(), "t").add(part)

    assert raised.value.code == "pdf-unreadable"
