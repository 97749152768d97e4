"""A month's invoices from CSV. Strict, because what is read here is money: a row is right in every cell or the whole
file is refused, naming the row as a spreadsheet counts it (the header is row 1).
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from shared.errors import DeterministicFailure

MAX_INVOICES = 10_000
"""Closing the file renews no lease, and 20 s of 30 may be all that is left of it after the last page. Measured: 10,000
pages close in 1.0 s alone and in 5.5 s where four jobs of one worker do it at once, in 75 MB each; 100,000 would take
ten times both, which breaks the lease and the worker's 2048 MB.
"""

MAX_BYTES = 16 * 1024 * 1024
"""Ten thousand of the longest rows have 4 MB. Reading costs four times a file's size, and nothing renews the lease
meanwhile: 64 MB of empty lines took 21 s.
"""

_FOUND_CUT = 24  # the record keeps 200 characters of a message, and file, row, column and cure must fit in


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


def _line(longest: int) -> Callable[[str], str]:
    def parse(cell: str) -> str:
        if not cell.strip() or len(cell) > longest or any(unicodedata.category(c) in ("Cc", "Cs") for c in cell):
            raise ValueError
        return cell

    return parse


def _matching(pattern: str, build: Callable[[str], Any]) -> Callable[[str], Any]:
    """`build` alone is too kind: Decimal takes "NaN", "1e9" and "１２", date takes "20260501" and "2026-W18-5"."""
    compiled = re.compile(pattern)

    def parse(cell: str) -> Any:
        if not compiled.fullmatch(cell):
            raise ValueError
        return build(cell)

    return parse


_DATE = (_matching("[0-9]{4}-[0-9]{2}-[0-9]{2}", date.fromisoformat), "a real date as YYYY-MM-DD")
_MONEY = (_matching(r"-?[0-9]{1,12}(\.[0-9]{1,4})?", Decimal), "an amount like 1234.50")
_RATE = (_matching(r"(100|[0-9]{1,2})(\.[0-9]{1,2})?", Decimal), "a percentage like 19 or 7.5")

_COLUMNS: dict[str, tuple[Callable[[str], Any], str]] = {
    "invoice_number": (_line(40), "one line of 1 to 40 characters"),
    "issued_on": _DATE,
    "due_on": _DATE,
    "customer": (_line(200), "one line of 1 to 200 characters"),
    "currency": (_matching("[A-Z]{3}", str), "three capital letters"),
    "net": _MONEY,
    "vat_rate": _RATE,
    "vat": _MONEY,
    "gross": _MONEY,
}

HEADER = tuple(_COLUMNS)


def read_invoices(data: bytes, file: str) -> list[Invoice]:
    """The invoices of a CSV file in UTF-8 (a BOM, CRLF and empty rows are fine), in the file's order.

    Raises DeterministicFailure naming `file`: csv-too-large, csv-not-utf8, csv-empty, csv-header-invalid,
    csv-row-invalid, csv-too-many-rows.
    """
    if len(data) > MAX_BYTES:
        raise DeterministicFailure(
            f"{file}: {len(data) // 1024 // 1024} MB, at most {MAX_BYTES // 1024 // 1024}; split the file",
            code="csv-too-large",
        )
    rows = _rows(_decoded(data, file), file)
    _check_header(next(rows, None), file)
    invoices: list[Invoice] = []
    row_of: dict[str, int] = {}
    for row, cells in rows:
        if len(invoices) == MAX_INVOICES:
            raise DeterministicFailure(
                f"{file}: more than {MAX_INVOICES} invoices; split the file", code="csv-too-many-rows"
            )
        invoice = _invoice(cells, file, row)
        first = row_of.setdefault(invoice.invoice_number, row)
        if first != row:
            raise _invalid(file, row, "invoice_number", invoice.invoice_number, f"a number not used in row {first}")
        invoices.append(invoice)
    if not invoices:
        raise DeterministicFailure(f"{file}: a header and no invoice; nothing to export", code="csv-empty")
    return invoices


def _decoded(data: bytes, file: str) -> str:
    try:
        # Not "utf-8-sig": behind a BOM it counts the offset of an error from the wrong end of it.
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DeterministicFailure(
            f"{file}: not UTF-8 at byte {error.start} (0x{data[error.start]:02x}, line {line}); save it as UTF-8",
            code="csv-not-utf8",
        ) from error


def _rows(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """(row number, cells) of every row with content. A quoted line break belongs to its row, as in a spreadsheet."""
    row = 0
    try:
        for row, cells in enumerate(csv.reader(io.StringIO(text, newline=""), strict=True), start=1):
            if any(cells):
                yield row, cells
    except csv.Error as error:
        raise DeterministicFailure(
            f"{file} row {row + 1}: not CSV ({error}); expected every quote to be closed", code="csv-row-invalid"
        ) from error


def _check_header(found: tuple[int, list[str]] | None, file: str) -> None:
    if found is None:
        raise DeterministicFailure(f"{file}: empty; nothing to export", code="csv-empty")
    row, cells = found
    if tuple(cells) == HEADER:
        return
    at = next((i for i, (a, b) in enumerate(zip(cells, HEADER, strict=False)) if a != b), min(len(cells), len(HEADER)))
    expected = HEADER[at] if at < len(HEADER) else "no further column"
    raise DeterministicFailure(
        f"{file} row {row}, column {at + 1}: found {_shown(cells[at : at + 1])}, expected {expected}",
        code="csv-header-invalid",
    )


def _invoice(cells: list[str], file: str, row: int) -> Invoice:
    if len(cells) != len(HEADER):
        column = HEADER[len(cells)] if len(cells) < len(HEADER) else str(len(HEADER) + 1)
        raise _invalid(
            file, row, column, *cells[len(HEADER) : len(HEADER) + 1], f"{len(HEADER)} cells, not {len(cells)}"
        )
    invoice = Invoice(*(_cell(name, cell, file, row) for name, cell in zip(HEADER, cells, strict=True)))
    if invoice.due_on < invoice.issued_on:
        raise _invalid(file, row, "due_on", str(invoice.due_on), f"no day before {invoice.issued_on}")
    # vat is not compared with net × rate: the biller rounds per line item, and its own sum is the legal one.
    if invoice.gross != invoice.net + invoice.vat:
        raise _invalid(file, row, "gross", str(invoice.gross), f"net + vat = {invoice.net + invoice.vat}")
    return invoice


def _cell(name: str, cell: str, file: str, row: int) -> Any:
    parse, expected = _COLUMNS[name]
    try:
        return parse(cell)
    except ValueError:
        raise _invalid(file, row, name, cell, expected) from None


def _invalid(file: str, row: int, column: str, *found_expected: str) -> DeterministicFailure:
    *found, expected = found_expected
    return DeterministicFailure(
        f"{file} row {row}, column {column}: found {_shown(found)}, expected {expected}", code="csv-row-invalid"
    )


def _shown(found: list[str]) -> str:
    if not found:
        return "nothing"
    shown = repr(found[0])
    return shown if len(shown) <= _FOUND_CUT else shown[:_FOUND_CUT] + "…"
