"""Who sends mail as whom: identities and configuration sets of SES, each bound to tenants. Both sides of the deploy
read this file: the door and the worker hold jobs to it, and the mail workers' roles may use these and no others.

A secret of a webhook is bound to its tenant by its name; an identity is a domain, whose name says no tenant, so it is
declared. Verified but undeclared, it is nobody's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from shared.errors import DeclarationError

EVERY_TENANT = "*"

_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_IDENTITY = re.compile(rf"([^@\s*?]+@)?({_LABEL}\.)+{_LABEL}")
_SET = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, kw_only=True)
class Sender:
    """An identity of SES, and whose jobs may send as it.

    identity            "example.com": every address there and in domains below it, but for those declared themselves;
                        "jobs@example.com": that one
    tenants             whose jobs; EVERY_TENANT: every job; none: the house's own, jobs without a tenant
    configuration_sets  what these mails may name

    Raises DeclarationError, by name, for what SES has no such identity or set for.
    """

    identity: str
    tenants: tuple[str, ...] = ()
    configuration_sets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _IDENTITY.fullmatch(self.identity):
            raise DeclarationError(f"sender {self.identity!r}: a domain in small letters, or an address in one")
        if wrong := [name for name in self.configuration_sets if not _SET.fullmatch(name)]:
            raise DeclarationError(f"sender {self.identity!r}: SES has no configuration set like {wrong[0]!r}")

    def is_of(self, tenant: str | None) -> bool:
        """Whether a job of this tenant (None: the house's own) may send as it."""
        return EVERY_TENANT in self.tenants or (not self.tenants if tenant is None else tenant in self.tenants)


def declare(*senders: Sender) -> dict[str, Sender]:
    """The senders by identity. Raises DeclarationError for one declared twice."""
    declared = {sender.identity: sender for sender in senders}
    if len(declared) < len(senders):
        names = [sender.identity for sender in senders]
        raise DeclarationError(
            f"sender {max(names, key=names.count)!r} is declared twice; name all its tenants at once"
        )
    return declared


SENDERS = declare(
    # example.com is nobody's (RFC 2606): put your own verified identities here.
    Sender(identity="example.com", tenants=("acme-eu",), configuration_sets=("reports",)),
)


def sender_of(address: str) -> Sender | None:
    """The identity that SES would take this address for: itself, or the nearest declared domain above it."""
    local, _, domain = address.rpartition("@")
    labels = domain.lower().split(".")
    domains = [".".join(labels[n:]) for n in range(len(labels))]
    return next((SENDERS[name] for name in (f"{local}@{domains[0]}", *domains) if name in SENDERS), None)
