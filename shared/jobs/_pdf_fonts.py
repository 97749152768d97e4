"""The fonts that a PDF brings with it. A reader's own are not relied on: what the page shows must not depend on who
opens it.
"""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "_fonts"

SANS, ASIAN = "InvoiceSans", "InvoiceAsian"
FACES = {SANS: "DejaVuSans.ttf", ASIAN: "WenQuanYiMicroHei.ttf"}
"""In the order in which they are asked for a letter. The second is loaded with the first letter that needs it: it takes
0.4 s and 20 MB.
"""

_loading = threading.Lock()
"""Four first jobs may start at once, and a second font under the name would split the letters of an open document."""


def face_of(letter: str) -> str | None:
    """The first face with a picture of this letter."""
    return next((face for face in FACES if ord(letter) in loaded(face)), None)


def loaded(face: str) -> dict[int, int]:
    """The glyphs of a face by code point; reportlab knows it from here on."""
    from reportlab.pdfbase import pdfmetrics

    with _loading:
        if face not in pdfmetrics.getRegisteredFontNames():
            pdfmetrics.registerFont(_font(face))
        glyphs: dict[int, int] = pdfmetrics.getFont(face).face.charToGlyph
        return glyphs


def _font(face: str) -> Any:
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

    return Font(face, str(_FOLDER / FACES[face]))
