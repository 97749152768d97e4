"""Whose requests a port of this machine answers. Loopback is no wall against the browser that runs there: any web page
may send it requests, and a page whose own name is pointed at 127.0.0.1 may read the answers too.

Read by the emulator's process as well, whose environment has nothing of ours: standard library only.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from urllib.parse import parse_qsl, urlsplit

Headers = Iterable[tuple[str, str]]
"""Names and values as they came, repeated ones repeated."""

_Sent = Mapping[str, list[str]]
"""The values of each header, by lower-case name."""

_OWN_NAME = re.compile(r"(?:127\.0\.0\.1|localhost)(?::\d{1,5})?", re.IGNORECASE)
_EMULATOR_NAME = re.compile(
    r"(?:127\.0\.0\.1|localhost|(?:[a-z0-9.-]+\.s3|[a-z0-9]+\.execute-api)(?:[.-][a-z0-9-]+)?\.localhost)(?::\d{1,5})?",
    re.IGNORECASE,
)
"""localhost and all names under it mean this machine in every browser, whatever a name server says. The port is left
open: a browser says the one it dials, and the tests' proxies pass the name on as it came.
"""

BROWSER_MARKS = frozenset({"origin", "user-agent"} | {f"sec-fetch-{what}" for what in ("site", "mode", "dest", "user")})
"""What tells a browser from a program, and what it is doing. Whoever passes a judged request on leaves them out."""

_SIGNED = frozenset(
    {"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature"}
)
_ALSO_IN_A_LINK = frozenset({"X-Amz-Security-Token", "response-content-disposition", "x-id"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer in place of what was asked."""

    status: int
    title: str
    detail: str

    def document(self) -> bytes:
        """The body of the answer, application/problem+json (RFC 9457)."""
        return json.dumps({"type": "about:blank", **asdict(self)}).encode()


def refusal_of_api(headers: Headers, origins: Collection[str]) -> Refusal | None:
    """For the address of the API: refused are foreign names, and a browser on behalf of any page that did not come
    from here (`origins`, its own).
    """
    sent = _by_name(headers)
    if foreign := _foreign_name(sent, _OWN_NAME):
        return foreign
    if any(origin not in origins for origin in sent["origin"]):
        return _from_elsewhere("a page of another origin")
    # Not "same-site": every port of this machine is of one site, whatever answers there.
    if any(site not in ("none", "same-origin") for site in sent["sec-fetch-site"]):
        return _from_elsewhere("a page of another origin")
    return None


def refusal_of_emulator(method: str, target: str, headers: Headers) -> Refusal | None:
    """For the emulator, which is no web site: a browser gets nothing there but the download of a result, opened as a
    page of its own by its presigned link.

    Sec-Fetch-Site does not decide it. A reader who opens a foreign page from the address bar, and is redirected here,
    comes with "none"; and `GET /?Action=CreateStack&…` needs no more than that.
    """
    sent = _by_name(headers)
    if foreign := _foreign_name(sent, _EMULATOR_NAME):
        return foreign
    if not _is_browser(sent) or _opens_a_link(method, target, sent):
        return None
    return _from_elsewhere("a browser; it may open presigned links here, and nothing else")


def _foreign_name(sent: _Sent, ours: re.Pattern[str]) -> Refusal | None:
    names = sent["host"]
    if len(names) == 1 and ours.fullmatch(names[0]):
        return None
    return Refusal(421, "Misdirected Request", "this port answers to 127.0.0.1 and localhost")


def _is_browser(sent: _Sent) -> bool:
    marked = any(sent[mark] for mark in ("origin", "sec-fetch-site"))  # Node's fetch sends Sec-Fetch-Mode
    return marked or any(agent.startswith("Mozilla/") for agent in sent["user-agent"])


def _opens_a_link(method: str, target: str, sent: _Sent) -> bool:
    """A GET of an S3 object by a presigned link, and of nothing else, as the document of a tab."""
    link = urlsplit(target)
    signed = dict(parse_qsl(link.query, keep_blank_values=True))
    return (
        method == "GET"
        and not sent["origin"]
        and sent["sec-fetch-mode"] in ([], ["navigate"])
        and sent["sec-fetch-dest"] in ([], ["document"])
        and target.startswith("/")
        and not target.startswith("/_")
        and signed.keys() >= _SIGNED
        and signed.keys() <= _SIGNED | _ALSO_IN_A_LINK
        and signed["X-Amz-Credential"].endswith("/s3/aws4_request")
    )


def _from_elsewhere(whom: str) -> Refusal:
    return Refusal(403, "Forbidden", f"sent by {whom}")


def _by_name(headers: Headers) -> _Sent:
    sent = defaultdict[str, list[str]](list)
    for name, value in headers:
        sent[name.lower()].append(value)
    return sent
