"""How much one tenant and one caller may ask for, declared once. The API refuses what goes beyond with 429.

Quotas protect the other tenants and the bill. They are counted in blocks and a few seconds late, so a tenant may
overshoot by a little; what must never be overshot (a payload's size, API Gateway's throttle) is said elsewhere. Quotas
hold where callers are known: under JWT and IAM. The local stage knows nobody, and counts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from shared.errors import DeclarationError

MIB = 1024 * 1024

KEYS = "QUOTA#"
"""What the counts' keys begin with in the controls table; the API and the tally may write there and nowhere else."""


@dataclass(frozen=True, kw_only=True)
class Quota:
    """What one tenant may have at once.

    submits_per_minute  POSTs that submit a job, accepted or not, repeats of one Idempotency-Key included
    open_jobs           jobs that have not ended: scheduled, queued, running, waiting for a retry
    waiting_bytes       payloads of 400 bytes or more of those jobs, in all; smaller ones are kept in the record

    Raises DeclarationError for a number below 1, which would shut the tenant out.
    """

    submits_per_minute: int
    open_jobs: int
    waiting_bytes: int

    def __post_init__(self) -> None:
        for name in ("submits_per_minute", "open_jobs", "waiting_bytes"):
            if getattr(self, name) < 1:
                raise DeclarationError(
                    f"quota: {name} is {getattr(self, name)}; from 1 on, or nothing can be submitted"
                )


TENANT = Quota(submits_per_minute=1_200, open_jobs=20_000, waiting_bytes=64 * MIB)
"""Of every tenant that is not named below."""

TENANTS: Mapping[str, Quota] = {}
"""Tenants with a quota of their own, by name: {"acme-eu": Quota(...)}."""

CALLER_SUBMITS_PER_MINUTE = 12_000
"""Of one caller: an IAM principal, or one subject of a tenant's tokens."""

LARGE_PAYLOAD_HORIZON = timedelta(days=30)
"""How far ahead a job with a payload of its own item may be scheduled: until it runs, someone pays for keeping it."""


def of_tenant(tenant: str) -> Quota:
    """The quota of this tenant."""
    return TENANTS.get(tenant, TENANT)
