"""What each move writes, where the caller does not say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.domain.job import EFFECT_COMPLETED, Effect, Progress
from shared.domain.states import Transition
from tests.builders import NOW
from tests.model.record import AHEAD, PAST

OTHER_LANE = "other-lane"

WRITTEN: Mapping[str, Any] = {
    "open_key": "open#lane#0",
    "due_key": "due#0",
    "dead_key": "dead#lane#0",
    "due_at": AHEAD,
    "next_attempt_at": AHEAD,
    "lease_expires_at": AHEAD,
    "deadline_at": AHEAD,
    "expires_at": AHEAD,
    "run_at": PAST,
    "available_at": PAST,
    "queued_at": PAST,
    "rung_at": PAST,
    "queue": OTHER_LANE,
    "rerouted_at": NOW,
    "published_at": PAST,
    "started_at": PAST,
    "completed_at": PAST,
    "ended_at": PAST,
    "dead_at": PAST,
    "last_error_at": PAST,
    "first_error_at": PAST,
    "code_version": "abc1234",
    "error_class": "transient",
    "error_code": "timeout",
    "error_message": "no answer",
    "reason": "because",
    "cancelled_by": "op1",
    "cancel_request": {"who": "op1", "why": "stop"},
    "progress": Progress(3, 9, "pages"),
}


def changes(row: Transition, holder: str | None, page: int, effect: str, run: int | None) -> dict[str, Any]:
    """The changes of this row. effect: the status written for it; page: of the checkpoint."""
    special: dict[str, Any] = {"holder": holder, "checkpoint": {"page": page}}
    if effect:
        outcome = '{"outcome":1}' if effect == EFFECT_COMPLETED else None
        special["effect"] = Effect(status=effect, run=run or 0, at=PAST, outcome=outcome)
    return {name: special[name] if name in special else WRITTEN[name] for name in (*row.sets, *row.first)}
