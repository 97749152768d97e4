"""JSON pointers (RFC 6901), and found values made fit to be shown in an answer."""

from __future__ import annotations

from shared.domain.text import BREAKING

_SHOWN = 60


def child(pointer: str, step: str | int) -> str:
    """The pointer one step further. A name nobody can print is shown with U+FFFD, a very long one is cut."""
    return f"{pointer}/{shown(str(step)).replace('~', '~0').replace('/', '~1')}"


def shown(text: str, most: int = _SHOWN) -> str:
    """The text without control characters, at most `most` characters of it."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return BREAKING.sub("\ufffd", cut)
