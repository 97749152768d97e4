"""Invoices as PDF pages, drawn with reportlab."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

from shared.jobs._invoice_csv import Invoice
from shared.jobs._pdf_fonts import SANS, loaded
from shared.jobs._pdf_text import lines_of, runs_of

_PAGE = _WIDTH, _HEIGHT = 595.28, 841.89  # A4, in points
_LEFT, _RIGHT = 57.0, _WIDTH - 57.0
_SIZE, _LEADING = 10, 15


class InvoicePdf:
    """One document, for one thread. The same invoices in the same order give the same bytes."""

    def __init__(self, tenant: str, month: str) -> None:
        from reportlab import rl_config
        from reportlab.pdfgen.canvas import Canvas

        # Streams as bytes, not as ASCII on top: a fifth smaller, and the file is closed in half the time.
        rl_config.useA85 = 0
        self._tenant, self._month = tenant, month
        loaded(SANS)
        self._buffer = io.BytesIO()
        # invariant: no time of creation, and an id computed from the content.
        self._canvas: Any = Canvas(self._buffer, pagesize=_PAGE, pageCompression=1, invariant=1, initialFontName=SANS)
        self._canvas.setTitle(title_of(tenant, month))
        self._canvas.setAuthor(tenant)

    def add_page(self, invoice: Invoice) -> None:
        """Draw one invoice on a page of its own."""
        canvas = self._canvas
        self._text(_HEIGHT - 80, "Invoice", size=20)
        canvas.setFont(SANS, _SIZE)
        canvas.drawRightString(_RIGHT, _HEIGHT - 80, f"{self._tenant}, {self._month}")
        y = self._text(_HEIGHT - 120, invoice.invoice_number, label="Number: ")
        y = self._text(y, f"Issued: {invoice.issued_on}")
        y = self._text(y, f"Due: {invoice.due_on}")
        y = self._text(y - _LEADING, "Billed to")
        y = self._text(y, invoice.customer, size=12)
        self._amounts(y - _LEADING, invoice)
        canvas.showPage()

    def finish(self) -> bytes:
        """Close the document and return the file. No page can be added after it."""
        self._canvas.save()
        return self._buffer.getvalue()

    def _amounts(self, y: float, invoice: Invoice) -> None:
        canvas = self._canvas
        rows: tuple[tuple[str, Decimal], ...] = (
            ("Net", invoice.net),
            (f"VAT {invoice.vat_rate} %", invoice.vat),
            ("Gross", invoice.gross),
        )
        for label, amount in rows:
            canvas.line(_LEFT, y + _LEADING, _RIGHT, y + _LEADING)
            canvas.setFont(SANS, _SIZE)
            canvas.drawString(_LEFT, y, label)
            canvas.drawRightString(_RIGHT, y, f"{amount:,} {invoice.currency}")
            y -= 1.6 * _LEADING

    def _text(self, y: float, text: str, *, label: str = "", size: float = _SIZE) -> float:
        """Draw text at the left margin behind its label, wrapped; return the height of the line below it."""

        def width(line: str) -> float:
            return sum(float(canvas.stringWidth(run, face, size)) for face, run in runs_of(line))

        canvas = self._canvas
        # The label keeps its place: as one text with a number in Hebrew letters, the two would change sides.
        for number, line in enumerate(lines_of(text, width, _RIGHT - _LEFT, width(label))):
            pen = canvas.beginText(_LEFT, y)
            for face, run in (*runs_of("" if number else label), *runs_of(line)):
                pen.setFont(face, size)
                pen.textOut(run)
            canvas.drawText(pen)
            y -= 1.5 * size
        return y


def title_of(tenant: str, month: str) -> str:
    """The document's title, in the letters that a tenant's name and a month can have: plain ASCII."""
    return f"Invoices of {tenant}, {month}"
