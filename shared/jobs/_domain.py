"""A domain name in ASCII, by IDNA 2008 (RFC 5891) as far as a sender needs it.

Not Python's "idna" codec: that is IDNA 2003, which turns straße.de into strasse.de, somebody else's. Letters are only
encoded, never replaced; capitals become small, and whatever else IDNA 2008 does not allow, or allows only beside
certain others, must be written as xn--….
"""

from __future__ import annotations

import re
import unicodedata

LONGEST = 253
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_LETTERS_AND_DIGITS = ("Ll", "Lo", "Lm", "Mn", "Mc", "Nd")
_KEPT = "-ßς"  # the two letters stand for themselves, although their capitals do not lead back to them (RFC 5892 §2.6)


def ascii_domain(domain: str) -> str:
    """Of "Exämple.DE" it is "xn--exmple-cua.de". Raises ValueError naming the part that is wrong."""
    labels = [_ascii_label(label) for label in domain.split(".")]
    if len(labels) < 2:
        raise ValueError(f"{domain!r} is not a whole domain like example.com")
    encoded = ".".join(labels)
    if len(encoded) > LONGEST:
        raise ValueError(f"a domain has at most {LONGEST} characters, other letters counted as xn--…")
    return encoded


def _ascii_label(label: str) -> str:
    small = unicodedata.normalize("NFC", label.lower())
    encoded = small if label.isascii() else _encoded(small)
    if not _LABEL.fullmatch(encoded):
        raise ValueError(
            f"{label!r} is no part of a domain: letters and digits, dashes between them, at most 63 characters; "
            "what is meant all the same, write as xn--…"
        )
    return encoded


def _encoded(label: str) -> str:
    """Empty for one that IDNA does not know."""
    odd = label[0] == "-" or label[-1] == "-" or label[2:4] == "--" or unicodedata.category(label[0])[0] == "M"
    return "" if odd or not all(map(_is_allowed, label)) else f"xn--{label.encode('punycode').decode()}"


def _is_allowed(character: str) -> bool:
    """RFC 5892 §3, without the rules for what stands beside what."""
    if character in _KEPT:
        return True
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", character).casefold())
    return folded == character and unicodedata.category(character) in _LETTERS_AND_DIGITS
