"""Small configurations; together they cover every pair of faults that matters.

Gone with what it was about: the time to live of effects, and effects fenced by their number alone (they live in the
record, under its condition); a sweeper that rings with a new dispatch (only a clock shows its harm: timed.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.domain.states import State
from tests.model.world import Budget

PROFILES: Mapping[str, Mapping[str, Any]] = {
    "no faults": {},
    "scheduled, crash, misbehaves": {"start": State.SCHEDULED, "budget": Budget(crash=1, misbehave=1)},
    "crash x2, second delivery": {"budget": Budget(crash=2, twice=1)},
    "crash x3": {"budget": Budget(crash=3)},
    "crash, frozen, second delivery": {"budget": Budget(crash=1, frozen=1, twice=1)},
    "frozen x2, crash": {"budget": Budget(frozen=2, crash=1)},
    "misbehaves x2, crash": {"budget": Budget(misbehave=2, crash=1)},
    "misbehaves, crash x2, 3 attempts": {"budget": Budget(misbehave=1, crash=2), "max_attempts": 3},
    "misbehaves, frozen, crash": {"budget": Budget(misbehave=1, frozen=1, crash=1)},
    "misbehaves, loss, stuck mark, second delivery": {"budget": Budget(misbehave=1, loss=1, stuck_mark=1, twice=1)},
    "loss x2, crash, misbehaves": {"budget": Budget(loss=2, crash=1, misbehave=1)},
    "gate, crash, second delivery": {"budget": Budget(gate=1, crash=1, twice=1)},
    "gate, loss, crash": {"budget": Budget(gate=1, loss=1, crash=1)},
    "throttle x3, crash": {"budget": Budget(throttle=3, crash=1)},
    "throttle x3, moved after days, crash": {"budget": Budget(throttle=3, away=1, crash=1)},
    "throttle x3, moved after days, misbehaves, cancel": {"budget": Budget(throttle=3, away=1, misbehave=1, cancel=1)},
    "throttle x3, redrive, replay": {"budget": Budget(throttle=3, redrive=1, replay=1)},
    "throttle x3, crash, misbehaves, replay": {"budget": Budget(throttle=3, crash=1, misbehave=1, replay=1)},
    "replay x2, redrive, misbehaves x2": {"budget": Budget(replay=2, redrive=1, misbehave=2)},
    "replay, redrive, misbehaves, crash": {"budget": Budget(replay=1, redrive=1, misbehave=1, crash=1)},
    "redrive x2, misbehaves, loss": {"budget": Budget(redrive=2, misbehave=1, loss=1)},
    "cancel x2, misbehaves, redrive": {"budget": Budget(cancel=2, misbehave=1, redrive=1)},
    "cancel, replay, crash": {"budget": Budget(cancel=1, replay=1, crash=1)},
    "cancel, replay, misbehaves, loss": {"budget": Budget(cancel=1, replay=1, misbehave=1, loss=1)},
    "cancel, crash, frozen, renew": {"budget": Budget(cancel=1, crash=1, frozen=1, renew=1)},
    "deadline, replay, crash": {"budget": Budget(deadline=1, replay=1, crash=1)},
    "deadline, misbehaves, replay, gate": {"budget": Budget(deadline=1, misbehave=1, replay=1, gate=1)},
    "time to live, misbehaves, replay": {"time_to_live": True, "budget": Budget(misbehave=1, replay=1)},
    "time to live, stuck mark, misbehaves": {"time_to_live": True, "budget": Budget(stuck_mark=1, misbehave=1)},
    "lost answer x2, second delivery, crash": {"budget": Budget(lost_answer=2, twice=1, crash=1)},
    "hung handler, misbehaves, frozen": {"budget": Budget(hang=1, misbehave=1, frozen=1)},
    "at most once, misbehaves, crash, frozen": {
        "at_most_once": True,
        "budget": Budget(misbehave=1, crash=1, frozen=1),
    },
    "at most once, lost answer, crash": {"at_most_once": True, "budget": Budget(lost_answer=1, crash=1)},
    "lost answer x2, frozen": {"budget": Budget(lost_answer=2, frozen=1)},
    "at most once, lost answer, frozen, misbehaves": {
        "at_most_once": True,
        "budget": Budget(lost_answer=1, frozen=1, misbehave=1),
    },
    "renew, frozen, crash": {"budget": Budget(renew=1, frozen=1, crash=1)},
    "renew, frozen, cancel": {"budget": Budget(renew=1, frozen=1, cancel=1)},
    "renew, frozen, deadline": {"budget": Budget(renew=1, frozen=1, deadline=1)},
    "one attempt: renew, frozen, throttle x2": {"max_attempts": 1, "budget": Budget(renew=1, frozen=1, throttle=2)},
    "purge, empty queue, misbehaves": {"busy_queue": False, "budget": Budget(purge=1, misbehave=1)},
    "purge, empty queue, stuck mark, loss, misbehaves": {
        "busy_queue": False,
        "budget": Budget(purge=1, stuck_mark=1, loss=1, misbehave=1),
    },
    "purge, empty queue, crash": {"busy_queue": False, "budget": Budget(purge=1, crash=1)},
    "one worker: purge, gate, loss, crash, empty queue": {
        "workers": 1,
        "busy_queue": False,
        "budget": Budget(purge=1, gate=1, loss=1, crash=1),
    },
    "one worker: misbehaves, crash, loss, gate": {
        "workers": 1,
        "budget": Budget(misbehave=1, crash=1, loss=1, gate=1),
    },
    "one worker: misbehaves, crash x2, 3 attempts": {
        "workers": 1,
        "max_attempts": 3,
        "budget": Budget(misbehave=1, crash=2),
    },
    "one worker: misbehaves x2, crash x2, replay, redrive, loss": {
        "workers": 1,
        "budget": Budget(misbehave=2, crash=2, replay=1, redrive=1, loss=1),
    },
    "one worker: throttle x3, misbehaves, replay, redrive, crash": {
        "workers": 1,
        "budget": Budget(throttle=3, misbehave=1, replay=1, redrive=1, crash=1),
    },
    "the relay lags, crash, misbehaves": {"budget": Budget(lag=1, crash=1, misbehave=1)},
    "the relay lags x2, loss, crash": {"budget": Budget(lag=2, loss=1, crash=1)},
    # What the first model left out.
    "two sweepers, crash, throttle x2, misbehaves": {
        "sweepers": 2,
        "budget": Budget(crash=1, throttle=2, misbehave=1),
    },
    "two sweepers, one worker, crash x2, loss": {"sweepers": 2, "workers": 1, "budget": Budget(crash=2, loss=1)},
    "two promoters, scheduled, misbehaves x2": {
        "promoters": 2,
        "start": State.SCHEDULED,
        "budget": Budget(misbehave=2),
    },
    "two promoters, scheduled, reschedule x2, cancel": {
        "promoters": 2,
        "start": State.SCHEDULED,
        "budget": Budget(reschedule=2, cancel=1, replay=1),
    },
    "no promoter: the sweeper promotes": {
        "promoters": 0,
        "start": State.SCHEDULED,
        "budget": Budget(misbehave=2, crash=1),
    },
    "reschedule, cancel, misbehaves, loss": {"budget": Budget(reschedule=1, cancel=1, misbehave=1, loss=1)},
    "suspect, gate, throttle": {"workers": 1, "budget": Budget(crash=1, gate=1, throttle=1), "max_attempts": 3},
    "suspect, stall limit 2, crash x3": {
        "workers": 1,
        "budget": Budget(crash=3),
        "max_attempts": 4,
        "stall_limit": 2,
    },
    "stall limit 2, frozen x2, crash, renew": {
        "max_attempts": 4,
        "stall_limit": 2,
        "budget": Budget(frozen=2, crash=1, renew=1),
    },
    "one worker: reschedule, stuck mark, loss": {"workers": 1, "budget": Budget(reschedule=1, stuck_mark=1, loss=1)},
    "one worker: crash x2, 4 attempts": {"workers": 1, "max_attempts": 4, "budget": Budget(crash=2)},
    "one worker, steady relay: misbehaves, crash x2, 3 attempts": {
        "workers": 1,
        "relay_dies": False,
        "max_attempts": 3,
        "budget": Budget(misbehave=1, crash=2),
    },
    "one worker, steady relay: misbehaves, crash x2, replay": {
        "workers": 1,
        "relay_dies": False,
        "max_attempts": 3,
        "budget": Budget(misbehave=1, crash=2, replay=1),
    },
    "one worker, steady relay: misbehaves, crash x2, redrive": {
        "workers": 1,
        "relay_dies": False,
        "max_attempts": 3,
        "budget": Budget(misbehave=1, crash=2, redrive=1),
    },
    "one worker: deadline, reschedule, gate": {"workers": 1, "budget": Budget(deadline=1, reschedule=1, gate=1)},
    "one worker, steady relay: gate, loss, crash": {
        "workers": 1,
        "relay_dies": False,
        "budget": Budget(gate=1, loss=1, crash=1),
    },
    "one worker: continues x2": {"workers": 1, "budget": Budget(misbehave=3)},
    "moves x2, crash": {"budget": Budget(move=2, crash=1)},
    "moves, loss, stuck mark, second delivery": {"budget": Budget(move=1, loss=1, stuck_mark=1, twice=1)},
    "moves, misbehaves, second delivery": {"budget": Budget(move=1, misbehave=1, twice=1)},
    "moves, cancel, deadline, gate": {"budget": Budget(move=1, cancel=1, deadline=1, gate=1)},
    "one worker: moves x2, misbehaves, crash": {"workers": 1, "budget": Budget(move=2, misbehave=1, crash=1)},
    "moved away, crash, loss": {"moved": True, "budget": Budget(crash=1, loss=1)},
    "sent a moment ago, moved away, second delivery": {"moved": True, "sent": True, "budget": Budget(twice=1)},
    "restored from a backup, empty queue": {"busy_queue": False, "budget": Budget(restore=1, crash=1)},
}
