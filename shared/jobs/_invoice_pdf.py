"""Invoices as PDF pages, drawn with reportlab."""

from __future__ import annotations

import copy
import io
import itertools
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from shared.jobs._invoice_csv import Invoice
from shared.jobs._pdf_text import ASIAN_FACES, Piece, pieces, wrapped

_FONT_FILE = Path(__file__).parent / "_fonts" / "DejaVuSans.ttf"

_PAGE = _WIDTH, _HEIGHT = 595.28, 841.89  # A4, in points
_LEFT, _RIGHT = 57.0, _WIDTH - 57.0
_SIZE, _LEADING = 10, 15

_FONT = "InvoiceSans"
_registering = threading.Lock()
"""Four first jobs may start at once, and a second font under the name would split the letters of an open document."""


def _register_fonts() -> None:
    """Load the fonts, once per process."""
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.pdfbase.ttfonts import TTFont

    class Font(TTFont):  # type: ignore[misc]
        """Serves documents of several threads.

        A TTFont must not close two documents at once: while it copies glyphs for the one, the other moves the read
        position they share, accents are missed and closing fails with a KeyError, which would end a healthy job as
        deterministic. A copy reads at a position of its own.
        """

        def addObjects(self, doc: Any) -> None:
            own = copy.copy(self)
            own.face = copy.copy(self.face)
            TTFont.addObjects(own, doc)

    with _registering:
        if _FONT in pdfmetrics.getRegisteredFontNames():
            return
        for face, _ in ASIAN_FACES:
            pdfmetrics.registerFont(UnicodeCIDFont(face))
        pdfmetrics.registerFont(Font(_FONT, str(_FONT_FILE)))


class InvoicePdf:
    """One document, for one thread. The same invoices in the same order give the same bytes."""

    def __init__(self, tenant: str, month: str) -> None:
        from reportlab import rl_config
        from reportlab.pdfbase import pdfmetrics
        from reportlab.pdfgen.canvas import Canvas

        # Streams as bytes, not as ASCII on top: a fifth smaller, and the file is closed in half the time.
        rl_config.useA85 = 0
        self._tenant, self._month = tenant, month
        _register_fonts()
        self._glyphs = pdfmetrics.getFont(_FONT).face.charToGlyph
        self._buffer = io.BytesIO()
        # invariant: no time of creation, and an id computed from the content.
        self._canvas: Any = Canvas(self._buffer, pagesize=_PAGE, pageCompression=1, invariant=1, initialFontName=_FONT)
        self._canvas.setTitle(f"Invoices of {tenant}, {month}")
        self._canvas.setAuthor(tenant)

    def add_page(self, invoice: Invoice) -> None:
        """Draw one invoice on a page of its own."""
        canvas = self._canvas
        self._text(_HEIGHT - 80, "Invoice", size=20)
        canvas.setFont(_FONT, _SIZE)
        canvas.drawRightString(_RIGHT, _HEIGHT - 80, f"{self._tenant}, {self._month}")
        y = self._text(_HEIGHT - 120, f"Number: {invoice.invoice_number}")
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
            canvas.setFont(_FONT, _SIZE)
            canvas.drawString(_LEFT, y, label)
            canvas.drawRightString(_RIGHT, y, f"{amount:,} {invoice.currency}")
            y -= 1.6 * _LEADING

    def _text(self, y: float, text: str, size: float = _SIZE) -> float:
        """Draw text at the left margin, wrapped; return the height of the line below it."""

        def width(line: list[Piece]) -> float:
            return sum(float(canvas.stringWidth(run, font, size)) for font, run in self._runs(line))

        canvas = self._canvas
        for line in wrapped(pieces(text, lambda c: ord(c) in self._glyphs), width, _RIGHT - _LEFT):
            pen = canvas.beginText(_LEFT, y)
            for font, run in self._runs(line):
                pen.setFont(font, size)
                pen.textOut(run)
            canvas.drawText(pen)
            y -= 1.5 * size
        return y

    @staticmethod
    def _runs(line: list[Piece]) -> Iterator[tuple[str, str]]:
        """(font, text): neighbours of one face together."""
        for face, run in itertools.groupby(line, key=lambda piece: piece[0]):
            yield face or _FONT, "".join(written for _, written in run)
