"""Which characters a name may not hold: those that end or break a line, and those that are none.

Not `str.isprintable()`: it refuses the blank in a Mac's screenshot names (U+202F), the joiners of Persian and of emoji,
and letters that are younger than the running Python. The categories refused here are closed: Unicode never adds to
them, so that the answer is the same on every version.
"""

from __future__ import annotations

import re
import unicodedata

_KINDS = {
    "Cc": "a control character",
    "Cs": "half of a surrogate pair",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}
BREAKING_CHARACTERS = r"\u0000-\u001f\u007f-\u009f\u2028\u2029"
BREAKING = re.compile(rf"[{BREAKING_CHARACTERS}\ud800-\udfff]")
NAME_PATTERN = rf"^[^{BREAKING_CHARACTERS}]*$"
"""The rule as JSON Schema can say it. Half a surrogate pair is no character there."""


def flaw(text: str) -> str | None:
    """The first character that no name may hold, in words: "U+2028, a line separator". None where all may stand."""
    found = BREAKING.search(text)
    return None if found is None else f"U+{ord(found[0]):04X}, {_KINDS[unicodedata.category(found[0])]}"
