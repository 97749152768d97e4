"""What an address takes up in DNS and in SMTP: the one rule of its that JSON Schema cannot say."""

from __future__ import annotations

LONGEST = 254
_QUOTES = 2  # a local part with odd dots is sent in quotes


def fits(address: str) -> bool:
    """Whether "Ö <a@bä.de>" stays within what SMTP takes as a@xn--b-zfa.de."""
    local, _, domain = address.removesuffix(">").rpartition("@")
    encoded = [one if one.isascii() else f"xn--{one.encode('punycode').decode()}" for one in domain.split(".")]
    return len(local.rpartition("<")[2]) + 1 + len(".".join(encoded)) + _QUOTES <= LONGEST
