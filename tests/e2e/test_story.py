"""The live view: what it says of each change that a record can go through."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from local.story import tell
from shared.domain.job import EFFECT_COMPLETED, EFFECT_STARTED, Effect, Job, due_key
from shared.domain.moves import after
from shared.domain.states import (
    CANCEL,
    CONTINUE,
    DEFER,
    DEFER_UNLEASED,
    ERASE_EFFECT,
    EXPIRE,
    FINISH_EFFECT,
    PROMOTE,
    REPLAY,
    REQUEST_CANCEL,
    REQUEUE,
    RESCHEDULE,
    RETRY,
    RETRY_LATER,
    START_EFFECT,
    State,
    Transition,
)
from tests.builders import MINUTE, NOW, a_job, a_running_job

DUE = {"due_key": due_key("job"), "due_at": NOW + 70 * MINUTE}
FAILED = {
    "error_class": "transient",
    "error_code": "busy",
    "error_message": "a queue at the door",
    "last_error_at": NOW,
}
WAITING = {"next_attempt_at": NOW + MINUTE, "reason": "not open yet"}
GONE = {"ended_at": NOW, "expires_at": NOW + 100 * MINUTE}
RUNNING = a_running_job()
RETRYING = a_running_job(state=State.RETRYING, **WAITING)
IN_DUE = a_running_job(state=State.RETRYING, dispatch=2, **WAITING, **DUE)
SCHEDULED = a_job(state=State.SCHEDULED, dispatch=0, outbox=None, run_at=NOW + 70 * MINUTE, **DUE)
DEAD = a_running_job(state=State.DEAD, dead_at=NOW, **FAILED)
STARTED = Effect(status=EFFECT_STARTED, run=1, at=NOW)
DONE = Effect(status=EFFECT_COMPLETED, run=1, at=NOW)

TOLD: list[tuple[Job, Transition, dict[str, Any], str]] = [
    (RUNNING, RETRY, {"next_attempt_at": NOW + MINUTE} | FAILED, "worker: transient busy: a queue at the door; next"),
    (RUNNING, RETRY_LATER, {"next_attempt_at": DUE["due_at"]} | DUE | FAILED, "; waits in the due index until 20"),
    (RUNNING, DEFER, WAITING, "worker: not open yet; next attempt "),
    (RETRYING, DEFER_UNLEASED, WAITING | {"next_attempt_at": NOW + 2 * MINUTE}, "worker: not open yet; next attempt "),
    (
        RUNNING,
        CONTINUE,
        {"checkpoint": {"page": 7}, "available_at": NOW, "queued_at": NOW},
        'worker: continues from {"page": 7}, doorbell 2',
    ),
    (RUNNING, REQUEUE, {"queued_at": NOW}, "sweeper: taken back from a worker that vanished, doorbell 2 next"),
    (SCHEDULED, PROMOTE, {"open_key": "open", "available_at": NOW, "queued_at": NOW}, "promoter: due at 20"),
    (IN_DUE, PROMOTE, {"open_key": "open", "available_at": NOW, "queued_at": NOW}, "promoter: due at 20"),
    (a_job(), RESCHEDULE, {"run_at": DUE["due_at"]} | DUE, "moved to 20"),
    (RUNNING, REQUEST_CANCEL, {"cancel_request": {"who": "ops", "why": "paid"}}, "cancel requested by ops: paid"),
    (a_job(), CANCEL, {"cancelled_by": "ops", "reason": "paid meanwhile"} | GONE, "cancelled by ops: paid meanwhile"),
    (a_job(), EXPIRE, {"reason": "its deadline passed"} | GONE, "its deadline passed"),
    (
        DEAD,
        REPLAY,
        {"deadline_at": NOW, "open_key": "open", "available_at": NOW, "queued_at": NOW},
        f"replayed, it was {State.DEAD}, doorbell 2",
    ),
    (RUNNING, START_EFFECT, {"effect": STARTED}, "worker: effect 'mail' started"),
    (a_running_job(effects={"mail": STARTED}), FINISH_EFFECT, {"effect": DONE}, "worker: effect 'mail' done"),
    (a_running_job(effects={"mail": STARTED}), ERASE_EFFECT, {}, "worker: effect 'mail' failed, to be tried anew"),
]


@pytest.mark.parametrize(("old", "move", "changes", "says"), TOLD, ids=[move.name for _, move, _, _ in TOLD])
def test_every_way_a_job_goes_is_told_in_words(old: Job, move: Transition, changes: dict[str, Any], says: str) -> None:
    new = after(old, move, changes, effect="mail")

    step = tell(old, new, NOW + timedelta(seconds=1))

    assert step is not None
    assert says in step.told
    assert f" {new.state} " in step.line()


def test_a_job_for_later_is_told_with_its_day_and_time() -> None:
    step = tell(None, SCHEDULED, NOW)

    assert step is not None
    local = SCHEDULED.run_at.astimezone()
    assert f"scheduled for {local:%Y-%m-%d %H:%M:%S}, tenant acme-eu, for exports.month-end" in step.told
