"""An address as people write it and as SES takes it: RFC 5322's mailbox, less what no one has and attackers love
(comments, routes, address literals, escapes before the @).

SES takes 7-bit ASCII: a domain of other letters as xn--…, a name of other letters as encoded words, and in quotes a
local part with dots where RFC 5321 has none, as NTT docomo gave them out. To other letters before the @ it cannot send.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from shared.domain.text import BREAKING_CHARACTERS, flaw
from shared.jobs._domain import ascii_domain

LONGEST = 500
LONGEST_NAME = 100
LONGEST_ADDRESS = 254
LONGEST_LOCAL = 64

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_LOCAL = rf"\.*{_ATOM}({_ATOM}|\.)*"
_ADDRESS = re.compile(rf'(?P<local>{_LOCAL}|"{_LOCAL}")@(?P<domain>[^@\s<>"]+)')
_NAMED = re.compile(r'(?P<name>"(?P<quoted>([^"\\]|\\.)+)"|[^",;<>@\\]+?) *<(?P<address>[^<>]*)>')
_REGULAR = re.compile(rf"{_ATOM}+(\.{_ATOM}+)*")
_ENCODED_WORD = "=?"  # a reader would decode what nobody has looked at

_LABEL = r"([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?|[a-z0-9\u00df-\u00f6\u00f8-\u00ff]{1,30})"
_IN_QUOTES = rf'([^{BREAKING_CHARACTERS}"\\]|\\["\\])'
_PLAIN = rf'[^{BREAKING_CHARACTERS}",;<>@\\]'
_DOTTED = rf"({_ATOM}|\.){{0,30}}{_ATOM}({_ATOM}|\.){{0,30}}"
JSON_SCHEMA = {
    "anyOf": [
        {"format": "idn-email"},
        {
            "pattern": rf'^(?!.*=\?)("{_IN_QUOTES}{{1,{LONGEST_NAME}}}"|{_PLAIN}{{1,{LONGEST_NAME}}}) ?'
            rf"<{_DOTTED}@({_LABEL}\.)+{_LABEL}>$"
        },
    ]
}
"""The two ways to write one, as far as JSON Schema can say it: an alphabet beyond Latin in the domain of a named one is
taken too.
"""

_EXAMPLES = "name@example.com or Some Name <name@example.com>"


@dataclass(frozen=True, slots=True)
class Mailbox:
    """`name` for people, may be ""; `local` without quotes; `domain` in ASCII."""

    name: str
    local: str
    domain: str

    @classmethod
    def parse(cls, text: str) -> Mailbox:
        """Raises ValueError saying what is wrong."""
        if len(text) > LONGEST:
            raise ValueError(f"an address has at most {LONGEST} characters with its name")
        if wrong := flaw(text):  # a line break in a header begins another header
            raise ValueError(f"an address is one line of text; this one holds {wrong}")
        named = _NAMED.fullmatch(text)
        found = _ADDRESS.fullmatch(named["address"] if named else text)
        if not found:
            raise ValueError(
                f"expected {_EXAMPLES}: before the @ only ASCII letters, digits, dots and !#$%&'*+/=?^_`{{|}}~-; "
                "a name with a comma or an @ stands in quotes"
            )
        name = re.sub(r"\\(.)", r"\1", named["quoted"] or named["name"]).strip() if named else ""
        mailbox = cls(name, found["local"].strip('"'), ascii_domain(found["domain"]))
        mailbox._check()
        return mailbox

    @property
    def address(self) -> str:
        """What the mail goes by, in ASCII; two ways to write one address are equal here."""
        local = self.local if _REGULAR.fullmatch(self.local) else f'"{self.local}"'
        return f"{local}@{self.domain}"

    def as_ses_takes_it(self) -> str:
        """Address and name in ASCII."""
        from email.header import Header
        from email.utils import formataddr

        if self.name.isascii():
            return formataddr((self.name, self.address))
        # RFC 2047: encoded words of at most 75 characters.
        return f"{Header(self.name, 'utf-8', maxlinelen=75).encode(linesep='')} <{self.address}>"

    def _check(self) -> None:
        if len(self.name) > LONGEST_NAME or _ENCODED_WORD in self.name:
            raise ValueError(f"a name has at most {LONGEST_NAME} characters and no {_ENCODED_WORD!r}")
        if len(self.local) > LONGEST_LOCAL or len(self.address) > LONGEST_ADDRESS:
            raise ValueError(
                f"an address has at most {LONGEST_LOCAL} characters before the @ and {LONGEST_ADDRESS} in all, "
                "other letters of the domain counted as xn--…"
            )
