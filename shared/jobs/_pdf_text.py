"""Any text in a PDF: never a crash, never a character that is silently not there.

A PDF shows an empty box, or nothing, for what its font lacks. So each character goes to the first of
1. the embedded font: Latin, Greek, Cyrillic, Arabic, Hebrew and many symbols (without joining or bidirectional order);
2. a standard Asian face, which PDF names and the reader's program brings: embedding one costs 5 to 16 MB per worker,
   and even where a program has none the text stays searchable;
3. its code point, spelled [U+1F9FF]: ugly, and there.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

Piece = tuple[str | None, str]
"""A face (None: the embedded font) and what is written with it: one character, or one spelled code point."""

ASIAN_FACES = (
    ("HeiseiKakuGo-W5", "cp932"),
    ("HYGothic-Medium", "cp949"),
    ("STSong-Light", "gbk"),
    ("MSung-Light", "big5"),
)
"""Each face with the character set it was made for, which tells what it can show."""


def pieces(text: str, embedded: Callable[[str], bool]) -> list[Piece]:
    """`text` in writing order, its characters (NFC) each with the face that can show them."""
    text = unicodedata.normalize("NFC", text)
    foreign = [c for c in text if not _shows(c, embedded)]
    # Han characters are in several faces: one that has all of a name keeps the name in one hand.
    faces = sorted(ASIAN_FACES, key=lambda face: sum(not _in_charset(c, face[1]) for c in foreign)) if foreign else []
    return [_piece(c, embedded, faces) for c in text]


def _piece(c: str, embedded: Callable[[str], bool], faces: list[tuple[str, str]]) -> Piece:
    if _shows(c, embedded):
        return None, c
    for face, charset in faces:
        if _in_charset(c, charset):
            return face, c
    return None, f"[U+{ord(c):04X}]"


_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def _shows(c: str, embedded: Callable[[str], bool]) -> bool:
    # Zero-width and direction marks have (empty) glyphs; an unseen mark in a name is what forgers use, so spell it.
    return unicodedata.category(c) not in _UNSEEN and embedded(c)


def _in_charset(c: str, charset: str) -> bool:
    if unicodedata.category(c) in _UNSEEN:  # private-use characters are in cp932 and in no font
        return False
    try:
        return bool(c.encode(charset))
    except UnicodeEncodeError:
        return False


def wrapped(line: list[Piece], width: Callable[[list[Piece]], float], limit: float) -> list[list[Piece]]:
    """The pieces in lines no wider than `limit`, broken after a space where there is one."""
    if width(line) <= limit:  # most text, and ten times as fast as piece by piece
        return [line]
    lines: list[list[Piece]] = [[]]
    used = 0.0
    for piece in line:
        used += width([piece])
        if used > limit and lines[-1]:
            spaces = [i for i, (_, written) in enumerate(lines[-1]) if written.isspace()]
            cut = spaces[-1] + 1 if spaces else len(lines[-1])
            lines[-1:] = [lines[-1][:cut], lines[-1][cut:]]
            used = width([*lines[-1], piece])
        lines[-1].append(piece)
    return lines
