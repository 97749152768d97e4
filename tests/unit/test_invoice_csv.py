"""The CSV of a month's invoices: what is read, and how what cannot be read is refused."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local.samples import write_month
from shared.adapters.memory_files import MemoryFiles
from shared.domain.job import MESSAGE_CUT
from shared.errors import DeterministicFailure
from shared.jobs import _invoice_csv as invoice_csv
from shared.jobs._invoice_csv import DOCS, HEADER, MAX_ROW_BYTES, Invoice, check_invoices, read_invoices

ROOT = Path(__file__).parents[2]
SOURCE = "invoices/acme-eu/2026-05.csv"
GOOD_ROW = "A-1,2026-05-01,2026-05-31,Greyfen Paper Mills Ltd,GBP,100.00,20,20.00,120.00"


def csv_of(*rows: str, header: str = ",".join(HEADER)) -> bytes:
    return "\n".join([header, *rows]).encode()


def invoices_in(data: bytes, file: str = SOURCE) -> list[Invoice]:
    """Checked and then read, as the export does."""
    files = MemoryFiles()
    files.write(file, data, "text/csv")
    with files.reading(file) as reading:
        count = check_invoices(reading, file, lambda _: None)
        invoices = [invoice for _, invoice in read_invoices(reading, file)]
    assert len(invoices) == count
    return invoices


def refusal(data: bytes, file: str = SOURCE) -> DeterministicFailure:
    with pytest.raises(DeterministicFailure) as raised:
        invoices_in(data, file)
    return raised.value


def row(**cells: str) -> str:
    return ",".join({**dict(zip(HEADER, GOOD_ROW.split(","), strict=True)), **cells}.values())


# What real months hold


@pytest.mark.parametrize(
    ("vat_rate", "vat", "gross"),
    [("9.975", "9.98", "109.98"), ("14.975", "14.98", "114.98"), ("8.875", "8.88", "108.88"), ("0.00001", "0", "100")],
)
def test_tax_rates_of_provinces_and_counties_are_exact(vat_rate: str, vat: str, gross: str) -> None:
    (invoice,) = invoices_in(csv_of(row(vat_rate=vat_rate, vat=vat, gross=gross)))

    assert str(invoice.vat_rate) == vat_rate


def test_amounts_of_small_currencies_have_thirteen_digits_and_more() -> None:
    amounts = {"net": "1500000000000", "vat": "165000000000", "gross": "1665000000000"}
    large = {"net": "999999999999998.9999", "vat": "0.0001", "gross": "999999999999999"}

    first, second = invoices_in(csv_of(row(**amounts), row(invoice_number="A-2", **large)))

    assert (first.net, first.gross) == (Decimal(1_500_000_000_000), Decimal(1_665_000_000_000))
    assert second.gross == second.net + second.vat == Decimal(999_999_999_999_999)


@pytest.mark.parametrize(
    ("column", "cell", "limit"),
    [
        ("net", "1" * 16, "15 digits and 4 decimals"),
        ("vat", "0.00001", "15 digits and 4 decimals"),
        ("vat_rate", "9.0000001", "5 decimals"),
        ("vat_rate", "100.01", "0 to 100"),
        ("customer", "x" * 201, "1 to 200 characters"),
        ("invoice_number", "x" * 41, "1 to 40 characters"),
    ],
)
def test_beyond_a_limit_the_message_names_it(column: str, cell: str, limit: str) -> None:
    assert limit in str(refusal(csv_of(row(**{column: cell}))))


def test_amounts_are_exact() -> None:
    assert invoices_in(csv_of(row(net="0.10", vat_rate="7.5", vat="0.20", gross="0.30")))[0].gross == Decimal("0.30")


# One number, one invoice


@pytest.mark.parametrize("blank", [" ", "\u00a0", "\u3000", "\u2003", "\t"])
@pytest.mark.parametrize("column", ["invoice_number", "customer"])
def test_a_blank_at_a_cells_end_is_refused_before_it_makes_one_number_two(blank: str, column: str) -> None:
    for cell in (f"A-1{blank}", f"{blank}A-1", blank):
        failure = refusal(csv_of(row(invoice_number="A-0"), row(**{column: cell})))

        assert f"row 3, column {column}: " in str(failure)
        assert "no blank at its ends" in str(failure)


@pytest.mark.parametrize("unseen", ["\u200b", "\u2060", "\ufeff", "\u00ad", "\u200d", "\ufe0f", "\u034f", "\u3164"])
def test_a_character_that_nobody_sees_makes_no_second_number(unseen: str) -> None:
    failure = refusal(csv_of(row(), row(invoice_number=f"A-{unseen}1")))

    assert f"row 3, column invoice_number: no font here shows U+{ord(unseen):04X}" in str(failure)


@pytest.mark.parametrize(("one", "other"), [("A-1", "A-1"), ("\u00c9-1", "E\u0301-1"), ("\u212b-1", "\u00c5-1")])
def test_a_number_is_used_once_however_its_accents_are_written(one: str, other: str) -> None:
    failure = refusal(csv_of(row(invoice_number=one), row(invoice_number="B"), row(invoice_number=other)))

    assert "row 4, column invoice_number: expected a number that row 2 does not have" in str(failure)


# Broken rows


@pytest.mark.parametrize(
    ("broken", "column", "rule"),
    [
        (row(issued_on="2026-02-30"), "issued_on", "a real date as YYYY-MM-DD"),
        (row(due_on="20260531"), "due_on", "a real date as YYYY-MM-DD"),
        (row(due_on=""), "due_on", "a real date as YYYY-MM-DD"),
        (row(due_on="2026-04-30"), "due_on", "no day before issued_on"),
        (row(net="NaN"), "net", "1234.50"),
        (row(net="1e2"), "net", "1234.50"),
        (row(net="１００"), "net", "1234.50"),
        (row(net="Infinity"), "net", "1234.50"),
        (row(net='"100,00"'), "net", "1234.50"),
        (row(vat_rate="19;7"), "vat_rate", "0 to 100"),
        (row(gross="120.01"), "gross", "net + vat"),
        (row(currency="gbp"), "currency", "three capital letters"),
        (row(invoice_number=""), "invoice_number", "1 to 40 characters"),
        (row(customer="Grey\0fen"), "customer", "no font here shows U+0000"),
        (row(customer="Grey\u2028fen"), "customer", "no font here shows U+2028 LINE SEPARATOR"),
        (GOOD_ROW.replace(",GBP", ""), "gross", "9 cells, not 8"),
        (GOOD_ROW + ",extra", "10", "9 cells, not 10"),
    ],
)
def test_a_broken_row_is_named_with_its_column_its_rule_and_where_the_rules_stand(
    broken: str, column: str, rule: str
) -> None:
    failure = refusal(csv_of(row(invoice_number="ok-1"), row(invoice_number="ok-2"), broken, GOOD_ROW))

    assert failure.code == "csv-row-invalid"
    assert f"{SOURCE} row 4, column {column}: " in str(failure)
    assert rule in str(failure)
    assert str(failure).endswith(f"({DOCS})")


@pytest.mark.parametrize("column", HEADER)
def test_no_cell_is_repeated_in_a_message(column: str) -> None:
    for cell in ("Jane Roe 4711\U0001f9ff", "Jane Roe 4711" * 30, " Jane Roe 4711"):
        assert "Jane" not in str(refusal(csv_of(row(**{column: cell}))))
    assert "Jane" not in str(refusal(csv_of(header="Jane Roe 4711,x")))
    assert "Jane" not in str(refusal(csv_of(GOOD_ROW + ",Jane Roe 4711")))


def test_the_page_that_messages_point_to_is_there_and_says_what_the_format_cannot() -> None:
    page = (ROOT / DOCS).read_text()

    for said in ("two VAT rates", "due before", "no due date", *HEADER):
        assert said in page, said
    for limit in ("100,000", "64 MB", "4,096", "200 characters", "40 characters", "15 digits", "5 decimals"):
        assert limit in page, limit


def test_rows_are_counted_as_a_spreadsheet_counts_them() -> None:
    assert "row 5, column net" in str(refusal(csv_of("", row(), ",,,,,,,,", row(net="x"))))
    assert "row 3, column net" in str(refusal(csv_of(row(), row(net="x")).replace(b"\n", b"\r")))


@pytest.mark.parametrize("broken", ['A-1,"2026-05-01', 'A-1,"x"y', '"A\n-1",2026-05-01'])
def test_a_row_that_is_not_csv_is_named(broken: str) -> None:
    failure = refusal(csv_of(GOOD_ROW, broken, GOOD_ROW))

    assert failure.code == "csv-row-invalid"
    assert f"{SOURCE} row 3: expected every quote closed, no line break in a cell" in str(failure)


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\r\n\r\n", csv_of(), csv_of("", ",,,,,,,,")])
def test_a_month_without_invoices_is_refused_as_empty(data: bytes) -> None:
    assert refusal(data).code == "csv-empty"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (";".join(HEADER), "column 1: expected the header invoice_number"),
        (",".join(HEADER[:-1]), "column 9: expected the header gross"),
        (",".join([*HEADER, "note"]), "column 10: expected the header no further column"),
        (",".join(HEADER).replace("net", "Net"), "column 6: expected the header net"),
        (",".join(HEADER).replace("net", "net "), "column 6: expected the header net"),
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
    assert f"{SOURCE}: not UTF-8 at byte {data.index(0xE9)} (0xe9, row 2)" in str(failure)


def test_a_byte_order_mark_and_windows_line_ends_are_fine() -> None:
    data = b"\xef\xbb\xbf" + csv_of(GOOD_ROW, GOOD_ROW.replace("A-1", "A-2"), "").replace(b"\n", b"\r\n")

    assert [i.invoice_number for i in invoices_in(data)] == ["A-1", "A-2"]


# Limits


def test_more_invoices_than_an_export_takes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invoice_csv, "MAX_INVOICES", 2)
    rows = [row(invoice_number=f"A-{n}") for n in range(3)]

    assert len(invoices_in(csv_of(*rows[:2]))) == 2
    failure = refusal(csv_of(*rows))
    assert failure.code == "csv-too-many-rows"
    assert "more than 2 invoices" in str(failure)


class Endless:
    """A file without line ends that counts what is read of it."""

    size, tag, read = 15 * 1024 * 1024, "t", 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.read += 64 * 1024
            yield b"," * 64 * 1024


def test_a_header_of_millions_of_cells_is_refused_within_its_first_piece() -> None:
    endless = Endless()

    with pytest.raises(DeterministicFailure, match=f"row 1: longer than {MAX_ROW_BYTES} bytes"):
        check_invoices(endless, SOURCE, lambda _: None)

    assert endless.read == 64 * 1024


def test_a_later_row_of_millions_of_cells_is_refused_as_soon() -> None:
    assert f"row 3: longer than {MAX_ROW_BYTES} bytes" in str(refusal(csv_of(row(), "," * 1_000_000, row())))


def test_refusing_a_file_of_one_endless_row_takes_the_memory_of_a_piece() -> None:
    code = (
        "import resource\n"
        "from tests.unit.test_invoice_csv import refusal\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "data = b','*15_000_000\n"
        "refusal(data)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert int(done.stdout) < 60, "MB beside the two copies that the test's own bucket holds"


def test_a_file_too_large_is_refused_before_it_is_read() -> None:
    endless = Endless()
    endless.size = 64 * 1024 * 1024 + 1

    with pytest.raises(DeterministicFailure, match="over 64 MB; split the month") as raised:
        check_invoices(endless, SOURCE, lambda _: None)

    assert raised.value.code == "csv-too-large"
    assert endless.read == 0


def test_what_was_read_is_told_with_every_piece_so_that_the_lease_is_renewed() -> None:
    files, told = MemoryFiles(), list[int]()
    files.write(SOURCE, write_month(rows=3_000), "text/csv")
    with files.reading(SOURCE) as reading:
        check_invoices(reading, SOURCE, told.append)

    assert told[-1] == reading.size
    assert told == sorted(told)
    assert max(b - a for a, b in zip([0, *told], told, strict=False)) <= 64 * 1024


def test_the_longest_right_row_is_within_the_limit() -> None:
    customer = '"' + '""' * 100 + "\uffe5" * 100 + '"'
    longest = row(
        invoice_number="\uffe5" * 40,
        customer=customer,
        net="1" * 15 + ".0001",
        vat="0" * 15 + ".0000",
        gross="1" * 15 + ".0001",
    )

    assert len(longest.encode()) < MAX_ROW_BYTES / 3
    assert len(invoices_in(csv_of(longest))) == 1


@settings(max_examples=50, deadline=None)
@given(cuts=st.lists(st.integers(1, 400), min_size=1, max_size=20), end=st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_however_a_file_is_cut_into_pieces_it_is_the_same(cuts: list[int], end: bytes) -> None:
    data = write_month(rows=9).replace(b"\r\n", end)
    pieces, at = [], 0
    while at < len(data):
        pieces.append(data[at : at + cuts[len(pieces) % len(cuts)]])
        at += len(pieces[-1])

    found = list(read_invoices(pieces, SOURCE))

    assert found == list(read_invoices([data], SOURCE))
    for (behind, _), after in itertools.pairwise(found):
        assert next(read_invoices([data[behind.offset :]], SOURCE, behind)) == after


def test_a_refusal_fits_into_the_record_even_for_the_longest_tenant() -> None:
    file = f"invoices/{'t' * 64}/2026-05.csv"
    last = {"invoice_number": "N" * 40}
    cells = ("", " x", "\U0001f9ff", "\U00020bb7" * 201)
    broken = [csv_of(row(**{column: cell})) for column in HEADER for cell in cells]
    for data in (*broken, csv_of(row(**last), row(**last)), csv_of("x" + "," * 40), csv_of('"'), csv_of("," * 9_999)):
        assert len(str(refusal(data, file))) <= MESSAGE_CUT - len("00001"), "as much of a row in six digits"
