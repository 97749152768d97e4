"""What no record, answer or log line may carry: credentials, query values, tokens, inputs, mail addresses.

A text is cut by its form alone, so this cannot see: a secret in prose ("the password is x"), one in an encoding or a
library's format that is not named below, a token without a known beginning, a name, an account number, an amount, the
key of a dictionary. What a library logs by itself, or a handler prints, does not come by here at all.
Rather too much is cut than too little: a value ends at the next blank, whatever else stands before that.
"""

from __future__ import annotations

import re

CUT = "[cut]"
LONGEST = 4000
"""Characters that are looked at; what lies behind them is dropped."""

_NAMED = (
    r"pass(?:word|wd|phrase|code)|pwd|secret|token|credentials?|api[-_ ]?key|(?:access|account|private|shared)[-_ ]?key"
    r"|session[-_]?id|signature|jwt|\bauth(?!or)|\bsig"
)
_QUOTED = r"\"(?:\\.|[^\"\\])*\"?|'(?:\\.|[^'\\])*'?"

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # A key in PEM armour.
    (re.compile(r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----).*?(?:-----END [A-Z ]{0,30}-----|\Z)", re.S), rf"\1{CUT}"),
    # pydantic's inputs and botocore's parameters, to the end: an input may hold any text.
    (re.compile(r"(\binput_value=|\bparameter \S{1,200}, value: ).*", re.S), rf"\1{CUT}"),
    # What databases say about a row: SQLAlchemy's parameters, PostgreSQL's DETAIL.
    (re.compile(r"(\[parameters: |\bKey \([^)\n]{1,200}\)=\(|\bFailing row contains \()[^\n]*"), rf"\1{CUT}"),
    # Headers whose whole line is the secret: 'Authorization': 'Bearer …', ("Cookie", "…"), Set-Cookie: …
    (
        re.compile(
            r"\b((?:proxy-)?authorization|(?:set-)?cookie)([\"']?\s*[:=]\s*|[\"']\s*,\s*)"
            rf"(?:b?(?:{_QUOTED})|[^\r\n]*)",
            re.I,
        ),
        rf"\1\2{CUT}",
    ),
    # A name that says what it is: password=…, "apiKey": "…", ('x-api-key', '…')
    (
        re.compile(
            rf"((?:{_NAMED})[\w-]{{0,40}})([\"']?\]?\s*[:=]>?\s*|[\"']\s*,\s*)"
            rf"(?:(?:bearer|basic)\s+\S+|b?(?:{_QUOTED})|\S+)",
            re.I,
        ),
        rf"\1\2{CUT}",
    ),
    # What stands before the host of a URL, with a scheme or without; then its query and fragment.
    (re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,20}://)\S*@"), rf"\1{CUT}@"),
    (re.compile(r"(?<!\S)[^\s:@/]{1,64}:(?!//)[^\s@]{1,200}@(?=[\w\[])"), f"{CUT}@"),
    (re.compile(r"(://[^\s?#]{0,2000})([?#])\S+"), rf"\1\2{CUT}"),
    (re.compile(r"([?&])[^\s?&=]{1,100}=\S*"), rf"\1{CUT}"),
    (re.compile(r"\b(bearer)\s+\S+", re.I), rf"\1 {CUT}"),
    (re.compile(r"\b([Bb]asic|BASIC)\s+(?=[a-z]*[A-Z0-9+/=])[A-Za-z0-9+/=_-]{4,}"), rf"\1 {CUT}"),
    # Tokens known by their beginning: JWT, AWS; GitHub, GitLab, Slack, Stripe, Standard Webhooks, Google.
    (re.compile(r"\beyJ[\w-]+\.\S+"), CUT),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b"), CUT),
    (
        re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[a-z]-|[spr]k_(?:live|test)_|sk-|whsec_|AIza|ya29\.)\S+"),
        CUT,
    ),
    (re.compile(r"[^\s<>()\[\]:;,\"@]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+"), CUT),
)

_VALUE = re.compile(rf"(?<!\w)(?:{_QUOTED})")


def redacted(text: str) -> str:
    """The text without what its form shows to be a secret or somebody's address."""
    if len(text) > LONGEST:
        text = text[:LONGEST].rpartition(" ")[0]  # a secret that is cut in two might not be known for one
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return text


def without_values(text: str) -> str:
    """The text without what stands in quotes: int() and its like quote what they were given."""
    return _VALUE.sub(CUT, text)
