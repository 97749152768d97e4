"""Any text in a PDF: as its readers write it, or refused by name; never a character that is silently not there.

A page shows its letters from left to right, one by one. So what is written from right to left is put into the order in
which it is seen (python-bidi, the Unicode bidirectional algorithm), and Arabic letters into the shapes in which they
join (arabic-reshaper). What those or the fonts do not know is found here before anything is drawn.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from shared.jobs._pdf_fonts import face_of

_PLAIN = re.compile("[ -~]*")
_UNSEEN_KINDS = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0]")
"""Letters and marks without a picture that are of no category of their own: fillers, variation selectors."""

_JOINERS = "\u200c\u200d"
"""They say how two Arabic letters join, and are drawn by that."""

_SINGLE_JAMO = re.compile("[\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]")
"""Parts of a Korean syllable which stand one above the other; NFC has put together what makes one."""


_TURNED_MARKS = "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670"
"""Hebrew points and Arabic vowels."""


def not_shown(text: str) -> str | None:
    """The first character of `text` that no page here can show, as "U+1F9FF NAZAR AMULET"; None when all can be."""
    if _PLAIN.fullmatch(text):
        return None
    text = unicodedata.normalize("NFC", text)
    wrong = (c for at, c in enumerate(text) if not (_joins(text, at) if c in _JOINERS else _shows(c)))
    first = next(wrong, None)
    return None if first is None else f"U+{ord(first):04X} {unicodedata.name(first, '')}"[:30].rstrip()


def _joins(text: str, at: int) -> bool:
    """A joiner between Arabic letters is part of how a word is written; anywhere else it is a mark nobody sees."""
    around = text[at - 1 : at] + text[at + 1 : at + 2]
    return len(around) == 2 and all(unicodedata.bidirectional(c) == "AL" for c in around)


@functools.cache
def _shows(c: str) -> bool:
    if unicodedata.category(c) in _UNSEEN_KINDS or _UNSEEN.match(c) or _SINGLE_JAMO.match(c):
        return False
    if ord(c) > 0xFFFF:
        return False  # reportlab would draw it, and spoil the table by which its whole font is searched and copied
    if unicodedata.bidirectional(c) == "AL" and unicodedata.category(c) == "Lo":
        return all(face_of(shape) for shape in _shapes(c))
    if unicodedata.bidirectional(c) == "R" and not unicodedata.name(c, "").startswith("HEBREW"):
        return False  # N'Ko joins too, and nobody here knows how
    return face_of(c) is not None


def _shapes(c: str) -> str:
    """The shapes an Arabic letter takes among others; where they are unknown, a letter that no font has."""
    from arabic_reshaper.letters import LETTERS_ARABIC

    if unicodedata.decomposition(c).startswith("<"):
        return c  # a shape itself
    return "".join(LETTERS_ARABIC.get(c, "\uffff"))


def lines_of(text: str, width: Callable[[str], float], limit: float, used: float = 0.0) -> list[str]:
    """`text` in lines no wider than `limit`, broken after a space where there is one, each in the order in which it is
    seen; `used` of the first is taken.
    """
    text = unicodedata.normalize("NFC", text)
    turned = any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text)
    lines = _wrapped(_joined(text) if turned else text, width, limit, used)
    return [_seen(line, _direction(text)) for line in lines] if turned else lines


def runs_of(line: str) -> Iterator[tuple[str, str]]:
    """(face, text): neighbours of one face together. Raises ValueError for what `not_shown` would have named."""
    for face, run in itertools.groupby(line, key=_face):
        yield face, "".join(run)


@functools.lru_cache(20_000)
def _face(c: str) -> str:
    face = face_of(c)
    if face is None:
        raise ValueError(f"no font shows U+{ord(c):04X}")
    return face


def _joined(text: str) -> str:
    joined: str = _reshaper().reshape(text)
    return joined.translate(dict.fromkeys(map(ord, _JOINERS)))


@functools.cache
def _reshaper() -> Any:
    from arabic_reshaper import ArabicReshaper

    # Its default drops the marks above and below, and draws one name of four letters as one that DejaVu Sans lacks.
    return ArabicReshaper({"delete_harakat": False, "ARABIC LIGATURE ALLAH": False})


def _direction(text: str) -> str:
    """Of the first letter that has one (UAX #9, rule P2): the direction of a text that wraps is not its lines'."""
    strong = (unicodedata.bidirectional(c) for c in text)
    return "R" if next((one for one in strong if one in ("L", "R", "AL")), "L") in ("R", "AL") else "L"


def _seen(line: str, direction: str) -> str:
    # Not bidi.get_display, the faster one: it mirrors no bracket, and its author keeps this one for that (issue #25).
    from bidi.algorithm import get_display

    # Turned round, a mark stands before its letter, and this font draws it from there, over the letter on its right.
    seen: str = get_display(line, base_dir=direction)
    return seen


def _wrapped(text: str, width: Callable[[str], float], limit: float, used: float) -> list[str]:
    if used + width(text) <= limit:  # most text, and ten times as fast as letter by letter
        return [text]
    lines = [""]
    for letter in re.findall(f"(?s).[\u0300-\u036f{_TURNED_MARKS}]*", text):
        used += width(letter)
        if used > limit and lines[-1]:
            cut = lines[-1].rfind(" ") + 1 or len(lines[-1])
            lines[-1:] = [lines[-1][:cut], lines[-1][cut:]]
            used = width(lines[-1] + letter)
        lines[-1] += letter
    return lines
