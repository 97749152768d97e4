"""Which jobs are submitted, and how each must end: all drawn from the seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.domain.job import job_id_for_key
from shared.domain.states import State

SHORTEST, USUAL, LONGEST = 0.2, 1.0, 6.0
ORDERING_KEYS = ("north", "south", "east", "west")
TENANTS = (None, "acme-eu", "acme-us")
PARTS = ("part-1", "part-2", "part-3", "part-4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A job type of the crash test. share: of the jobs · effects: by name, all of which a completed job has done ·
    at_most_once: those of them that are.
    """

    type: str
    queue: str
    share: int
    effects: tuple[str, ...]
    ends: State = State.COMPLETED
    error_code: str | None = None
    at_most_once: tuple[str, ...] = ()
    poison: bool = False
    ordered: bool = False


KINDS = (
    Kind(type="crash-plain", queue="emails.high", share=28, effects=("charge",)),
    Kind(type="crash-pair", queue="emails.bulk", share=14, effects=("reserve", "charge")),
    Kind(type="crash-once", queue="thumbnails", share=14, effects=("pay",), at_most_once=("pay",)),
    Kind(
        type="crash-effects", queue="exports.month-end", share=16, effects=(*PARTS, "wire"), at_most_once=("wire",)
    ),
    Kind(type="crash-flaky", queue="emails.bulk", share=10, effects=("charge",)),
    Kind(type="crash-steps", queue="exports.month-end", share=10, effects=("step-1", "step-2", "step-3")),
    Kind(type="crash-waits", queue="thumbnails", share=8, effects=("enter",)),
    Kind(
        type="crash-broken", queue="emails.high", share=5, effects=(), ends=State.DEAD, error_code="row-invalid"
    ),
    Kind(
        type="crash-poison", queue="exports.month-end", share=2, effects=(), ends=State.DEAD,
        error_code="worker-vanished", poison=True,
    ),
    Kind(type="crash-ordered", queue="webhooks.partner-a", share=9, effects=("deliver",), ordered=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One submission under an Idempotency-Key of its own."""

    phase: str
    idempotency_key: str
    kind: Kind
    seconds: float
    tenant: str | None
    ordering_key: str | None

    @property
    def job_id(self) -> str:
        """The one id that the key may ever name."""
        return job_id_for_key(self.tenant, self.idempotency_key)

    def body(self, provider: int) -> Mapping[str, Any]:
        """What is posted to /jobs."""
        payload = {
            "provider": provider,
            "seconds": self.seconds,
            "key": f"{self.tenant or ''}/{self.ordering_key}" if self.ordering_key else "",
        }
        more = {"tenantId": self.tenant, "orderingKey": self.ordering_key}
        return {"type": self.kind.type, "payload": payload} | {k: v for k, v in more.items() if v is not None}


def plan(phase: str, jobs: int, dice: random.Random, *, poison: bool) -> list[Planned]:
    """So many jobs, every kind among them by its share. `poison`: also jobs that kill their worker."""
    kinds = [kind for kind in KINDS if poison or not kind.poison]
    chosen = dice.choices(kinds, [kind.share for kind in kinds], k=max(jobs - len(kinds), 0))
    drawn = [*kinds, *chosen][:jobs]
    dice.shuffle(drawn)
    return [_planned(phase, number, kind, dice) for number, kind in enumerate(drawn)]


def _planned(phase: str, number: int, kind: Kind, dice: random.Random) -> Planned:
    return Planned(
        phase=phase,
        idempotency_key=f"{phase}-{number}-{dice.getrandbits(64):016x}",
        kind=kind,
        seconds=round(dice.triangular(SHORTEST, LONGEST, USUAL), 2),
        tenant=dice.choice(TENANTS),
        ordering_key=dice.choice(ORDERING_KEYS) if kind.ordered else None,
    )
