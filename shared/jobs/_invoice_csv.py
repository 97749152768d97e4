"""A month's invoices from CSV, read as a stream. Strict, because what is read here is money: a row is right in every
cell or the whole file is refused, naming the row as a spreadsheet counts it (the header is row 1), the column and the
rule, never the cell: it is a customer's, and the record is read by others. The format is docs/invoice-csv.md.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from shared.domain.run import Reading
from shared.errors import DeterministicFailure
from shared.jobs._pdf_text import not_shown

MAX_INVOICES = 100_000
MAX_BYTES = 64 * 1024 * 1024
"""A hundred thousand rows of 640 bytes. Nothing is held but their numbers: the limit is one of time."""

MAX_ROW_BYTES = 4096
"""Three times the longest right row. What is read of a wrong one ends here, the header included."""

DOCS = "docs/invoice-csv.md"


@dataclass(frozen=True, slots=True)
class Invoice:
    """One row: amounts in units of `currency`, `vat_rate` in percent, gross = net + vat."""

    invoice_number: str
    issued_on: date
    due_on: date
    customer: str
    currency: str
    net: Decimal
    vat_rate: Decimal
    vat: Decimal
    gross: Decimal


@dataclass(frozen=True, slots=True)
class Place:
    """Between two rows of a file: the bytes and rows before it."""

    offset: int
    row: int


START = Place(0, 0)


class _Wrong(Exception):
    """A cell breaks a rule; the message is the rule."""


def _line(longest: int) -> Callable[[str], str]:
    def parse(cell: str) -> str:
        if not 0 < len(cell) <= longest or cell != cell.strip():
            raise _Wrong(f"expected 1 to {longest} characters, no blank at its ends")
        if unseen := not_shown(cell):
            raise _Wrong(f"no font here shows {unseen}")
        return cell

    return parse


def _matching(pattern: str, build: Callable[[str], Any], expected: str) -> Callable[[str], Any]:
    """`build` alone is too kind: Decimal takes "NaN", "1e9" and "１２", date takes "20260501" and "2026-W18-5"."""
    compiled = re.compile(pattern)

    def parse(cell: str) -> Any:
        try:
            if compiled.fullmatch(cell):
                return build(cell)
        except ValueError:
            pass
        raise _Wrong(f"expected {expected}")

    return parse


_DATE = _matching("[0-9]{4}-[0-9]{2}-[0-9]{2}", date.fromisoformat, "a real date as YYYY-MM-DD")
_MONEY = _matching(r"-?[0-9]{1,15}(\.[0-9]{1,4})?", Decimal, "1234.50: at most 15 digits and 4 decimals")
_RATE = _matching(r"(100(\.0{1,5})?|[0-9]{1,2}(\.[0-9]{1,5})?)", Decimal, "0 to 100, at most 5 decimals, like 9.975")

_COLUMNS: dict[str, Callable[[str], Any]] = {
    "invoice_number": _line(40),
    "issued_on": _DATE,
    "due_on": _DATE,
    "customer": _line(200),
    "currency": _matching("[A-Z]{3}", str, "three capital letters"),
    "net": _MONEY,
    "vat_rate": _RATE,
    "vat": _MONEY,
    "gross": _MONEY,
}

HEADER = tuple(_COLUMNS)


def read_invoices(pieces: Iterable[bytes], file: str, place: Place = START) -> Iterator[tuple[Place, Invoice]]:
    """The invoices of a CSV file in UTF-8 (a BOM, CRLF and empty rows are fine), in the file's order, each with the
    place behind it; `pieces` are its bytes from `place` on.

    Raises DeterministicFailure naming `file`: csv-not-utf8, csv-empty, csv-header-invalid, csv-row-invalid.
    """
    rows = _rows(pieces, file, place)
    if place == START:
        _check_header(next(rows, None), file)
    for behind, cells in rows:
        yield behind, _invoice(cells, file, behind.row)


def check_invoices(reading: Reading, file: str, read: Callable[[int], None]) -> int:
    """How many invoices the whole file has, every one of them right and no number used twice. `read` is told of the
    bytes read so far, piece by piece.

    Raises DeterministicFailure as `read_invoices`, and csv-too-large, csv-too-many-rows.
    """
    if reading.size > MAX_BYTES:
        raise _refused(file, f"over {MAX_BYTES // 1024 // 1024} MB; split the month", "csv-too-large")
    count = 0
    row_of: dict[str, int] = {}
    for behind, invoice in read_invoices(_told(reading, read), file):
        if count == MAX_INVOICES:
            raise _refused(file, f"more than {MAX_INVOICES} invoices; split the month", "csv-too-many-rows")
        count += 1
        # É may be written in two ways that nobody can tell apart.
        number = unicodedata.normalize("NFC", invoice.invoice_number)
        first = row_of.setdefault(number, behind.row)
        if first != behind.row:
            raise _invalid(file, behind.row, "invoice_number", f"expected a number that row {first} does not have")
    if not count:
        raise _refused(file, "a header and no invoice; nothing to export", "csv-empty")
    return count


def _told(reading: Reading, read: Callable[[int], None]) -> Iterator[bytes]:
    so_far = 0
    for piece in reading:
        yield piece
        so_far += len(piece)
        read(so_far)


def _rows(pieces: Iterable[bytes], file: str, place: Place) -> Iterator[tuple[Place, list[str]]]:
    """(place behind it, cells) of every row with content. A row is a line: no cell has a line break in it."""
    offset, row = place.offset, place.row
    for line in _lines(pieces, file, place):
        row += 1
        if len(line) > MAX_ROW_BYTES:
            raise _too_long(file, row)
        cells = _cells(line.removeprefix(b"\xef\xbb\xbf") if offset == 0 else line, file, row, offset)
        offset += len(line)
        if any(cells):
            yield Place(offset, row), cells


def _lines(pieces: Iterable[bytes], file: str, place: Place) -> Iterator[bytes]:
    rest, row = b"", place.row
    for piece in pieces:
        lines = (rest + piece).splitlines(keepends=True)
        # The last may go on in the next piece, and a lone \r may be half of a \r\n.
        rest = b"" if lines[-1].endswith(b"\n") else lines.pop()
        row += len(lines)
        yield from lines
        if len(rest) > MAX_ROW_BYTES:
            raise _too_long(file, row + 1)
    if rest:
        yield rest


def _cells(line: bytes, file: str, row: int, offset: int) -> list[str]:
    if line in (b"\n", b"\r\n", b"\r"):
        return []
    try:
        return next(csv.reader([line.decode("utf-8")], strict=True), [])
    except UnicodeDecodeError as error:
        where = f"byte {offset + error.start} (0x{line[error.start]:02x}, row {row})"
        raise _refused(file, f"not UTF-8 at {where}; save it as UTF-8", "csv-not-utf8") from None
    except csv.Error:
        raise _refused(
            f"{file} row {row}", f"expected every quote closed, no line break in a cell ({DOCS})", "csv-row-invalid"
        ) from None


def _check_header(found: tuple[Place, list[str]] | None, file: str) -> None:
    if found is None:
        raise _refused(file, "empty; nothing to export", "csv-empty")
    behind, cells = found
    if tuple(cells) == HEADER:
        return
    at = next((i for i, (a, b) in enumerate(zip(cells, HEADER, strict=False)) if a != b), min(len(cells), len(HEADER)))
    expected = HEADER[at] if at < len(HEADER) else "no further column"
    raise _refused(
        f"{file} row {behind.row}, column {at + 1}", f"expected the header {expected} ({DOCS})", "csv-header-invalid"
    )


def _invoice(cells: list[str], file: str, row: int) -> Invoice:
    if len(cells) != len(HEADER):
        column = HEADER[len(cells)] if len(cells) < len(HEADER) else str(len(HEADER) + 1)
        raise _invalid(file, row, column, f"expected {len(HEADER)} cells, not {len(cells)}")
    invoice = Invoice(*(_cell(name, cell, file, row) for name, cell in zip(HEADER, cells, strict=True)))
    if invoice.due_on < invoice.issued_on:
        raise _invalid(file, row, "due_on", "expected no day before issued_on")
    # vat is not compared with net × rate: the biller rounds per line item, and its own sum is the legal one.
    if invoice.gross != invoice.net + invoice.vat:
        raise _invalid(file, row, "gross", "expected net + vat")
    return invoice


def _cell(name: str, cell: str, file: str, row: int) -> Any:
    try:
        return _COLUMNS[name](cell)
    except _Wrong as rule:
        raise _invalid(file, row, name, str(rule)) from None


def _invalid(file: str, row: int, column: str, rule: str) -> DeterministicFailure:
    return _refused(f"{file} row {row}, column {column}", f"{rule} ({DOCS})", "csv-row-invalid")


def _too_long(file: str, row: int) -> DeterministicFailure:
    return _refused(f"{file} row {row}", f"longer than {MAX_ROW_BYTES} bytes ({DOCS})", "csv-row-invalid")


def _refused(where: str, why: str, code: str) -> DeterministicFailure:
    return DeterministicFailure(f"{where}: {why}", code=code)
