"""Where a URL that a stranger wrote may lead: to the public internet, never into the network this code runs in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any
from urllib.parse import urlsplit

from shared.domain.resolving import is_unknown_name
from shared.errors import DeterministicFailure, TransientFailure

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
MAX_URL_CHARACTERS = 2048
URL_PATTERN = (
    r"^https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?"
    r"(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"
    r"([/?][!\x22$-\[\]-~]*)?$"
)
"""What `Url.parse` takes, but for addresses in brackets: which of those there are, no pattern can say."""
# ASCII to be seen, without the backslash, which some read as a slash
_TEXT = re.compile(rf"[!-\[\]-~]{{1,{MAX_URL_CHARACTERS}}}")
_UNICAST, _NAT64 = IPv6Network("2000::/3"), IPv6Network("64:ff9b::/96")
_NOT_PUBLIC = (
    IPv6Network("2002::/16"),  # 6to4: leads to the IPv4 address inside, by whoever relays it
    IPv4Network("192.88.99.0/24"),  # those relays' own, deprecated (RFC 7526)
    IPv6Network("3fff::/20"),  # documentation (RFC 9637)
    IPv4Network("192.0.0.0/24"),  # protocol assignments; some clouds' metadata among them
    IPv6Network("2001::/23"),  # the same: Teredo, benchmarks, ORCHID
)
"""What Python's ipaddress, or an older one, calls global."""


@dataclass(frozen=True, slots=True)
class Url:
    """An http(s) URL in its parts; `target` is path and query as they go into the request line."""

    scheme: str
    host: str
    port: int
    target: str

    @classmethod
    def parse(cls, text: str) -> Url:
        """Raises ValueError saying what is wrong. Strict, because a URL that two parsers read differently is how
        checks are passed: no user-info, no fragment, no host outside ASCII.
        """
        if not _TEXT.fullmatch(text):
            raise ValueError("a URL is up to 2048 printable ASCII characters without blanks or backslashes")
        parts = urlsplit(text)
        if parts.scheme not in ("https", "http"):
            raise ValueError("must begin with https://")
        if "@" in parts.netloc:
            raise ValueError("a user name or password in a URL ends up in logs; the signature says who we are")
        if "#" in text:
            raise ValueError("a fragment (#…) is never sent; leave it out")
        port = parts.port  # raises ValueError itself
        if not parts.hostname or not _HOST.fullmatch(parts.hostname) or port == 0:
            raise ValueError("must name a host (letters, digits, dots, dashes; other alphabets as xn--…)")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80), target)

    @property
    def authority(self) -> str:
        """For the Host header: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if (self.scheme, self.port) in (("https", 443), ("http", 80)) else f"{host}:{self.port}"


Address = tuple[int, Any]
"""(family, socket address): what socket.connect takes, with nothing left to look up."""


UNKNOWN, RESOLVER_FAILED, LOST = "webhook-host-unknown", "webhook-resolver-failed", "webhook-host-lost"
"""Codes of a name without an address: no attempt of this job has found it, and there is none; nobody could say yet; an
earlier attempt found it.
"""


def checked_addresses(url: Url, *, loopback: bool, last_error_code: str | None) -> list[Address]:
    """Where the URL's host is, every one of its addresses allowed. Connect to these and never to the name, which may
    have another address by then (DNS rebinding).

    loopback         this machine is allowed too: by http and by any port; for the local stage
    last_error_code  of the job's attempt before: tells a name that never resolved from one that does not just now
    Raises DeterministicFailure (webhook-address-refused), TransientFailure (UNKNOWN, RESOLVER_FAILED, LOST).
    """
    if not loopback and (url.scheme, url.port) != ("https", 443):
        raise _refused(f"{url.scheme} to port {url.port}: only https to port 443 leaves a deployed stage")
    addresses = _resolved(url, found_before=last_error_code not in (None, UNKNOWN, RESOLVER_FAILED))
    for _, (ip, *_rest) in addresses:
        # All of them must pass, not just the one used: a name that also points inside is no mistake to work around.
        if loopback and is_loopback(ip):
            continue
        if url.scheme == "http":
            raise _refused(f"http to {ip}: only this machine is spoken to without TLS")
        if not is_public(ip):
            raise _refused(f"{url.host} is at {ip}, which is not on the public internet")
    return addresses


def _refused(why: str) -> DeterministicFailure:
    return DeterministicFailure(why, code="webhook-address-refused")


def _resolved(url: Url, *, found_before: bool) -> list[Address]:
    import socket

    try:
        # Has no timeout of its own; the resolver gives up after about ten seconds.
        found = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        # Never dead at once: the name may be new, and resolvers say in an outage too that there is none.
        raise _unresolved(url.host, error, found_before) from error
    return [(family, address) for family, _, _, _, address in found]


def _unresolved(host: str, error: Exception, found_before: bool) -> TransientFailure:
    if found_before:
        return TransientFailure(f"an earlier attempt found {host}, this one did not ({error})", code=LOST)
    if is_unknown_name(error) is False:
        return TransientFailure(f"no resolver could say where {host} is ({error})", code=RESOLVER_FAILED)
    return TransientFailure(f"{host} has never resolved; is it spelt right? ({error})", code=UNKNOWN)


def is_public(ip: str) -> bool:
    """On the public internet. An allow-list for IPv6, where new special ranges keep being added, and no trust in
    `is_global` alone, which calls multicast and embedded private addresses global.
    """
    address = _unwrapped(ip)
    if any(address in network for network in _NOT_PUBLIC):
        return False
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_private)


def is_loopback(ip: str) -> bool:
    """This machine."""
    return _unwrapped(ip).is_loopback


def _unwrapped(ip: str) -> IPv4Address | IPv6Address:
    """The IPv4 address inside an IPv6 one that leads to it: mapped, or translated by NAT64."""
    address = ip_address(ip)
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address
