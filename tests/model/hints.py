"""Where the counterexamples are."""

from __future__ import annotations

from collections.abc import Mapping

DEEP: Mapping[str, str] = {
    "requeue: without stalls +1": "one worker: crash x2, 4 attempts",
    "reclaim: without stalls +1": "one worker: crash x2, 4 attempts",
    "retry: without stalls := 0": "one worker, steady relay: misbehaves, crash x2, 3 attempts",
    "retry (long wait): without stalls := 0": "one worker, steady relay: misbehaves, crash x2, 3 attempts",
    "defer: without stalls := 0": "one worker, steady relay: misbehaves, crash x2, 3 attempts",
    "defer (long wait): without stalls := 0": "one worker, steady relay: misbehaves, crash x2, 3 attempts",
    "continue: without stalls := 0": "one worker, steady relay: misbehaves, crash x2, 3 attempts",
    "replay: without stalls := 0": "one worker, steady relay: misbehaves, crash x2, replay",
    "replay (redriven message): without stalls := 0": "one worker, steady relay: misbehaves, crash x2, redrive",
    "replay: without dispatch = seen": "replay x2, redrive, misbehaves x2",
    "replay (redriven message): without dispatch = seen": "replay x2, redrive, misbehaves x2",
}
"""Where a counterexample lies deep: the configuration to hunt in, and how far."""


SOON: Mapping[str, str] = {
    "lease: without dispatch = seen": "cancel, replay, crash",
    "lease: without deadline_at > now": "deadline, replay, crash",
    "lease: without run +1": "at most once, misbehaves, crash, frozen",
    "reclaim: without run +1": "at most once, lost answer, crash",
    "reclaim: without attempts +1": "scheduled, crash, misbehaves",
    "continue: without dispatch +1": "misbehaves, loss, stuck mark, second delivery",
    "dead-letter: without dispatch +1": "misbehaves, loss, stuck mark, second delivery",
    "reclaim: without no cancel_request": "cancel, replay, crash",
    "requeue: without dispatch +1": "suspect, stall limit 2, crash x3",
    "reroute: without dispatch +1": "moves, loss, stuck mark, second delivery",
    "reroute: without outbox := open": "moves x2, crash",
    "reroute: without no rerouted_at or rerouted_at <= rest_limit": "sent a moment ago, moved away, second delivery",
    "complete: without holder = seen": "restored from a backup, empty queue",
    "defer: without attempts -1": "misbehaves x2, crash",
    "continue: without outbox := open": "misbehaves x2, crash",
    "dead-letter: without outbox := open": "misbehaves x2, crash",
    "park: without dispatch = seen": "one worker: throttle x3, misbehaves, replay, redrive, crash",
    "park: without attempts = seen": "one worker: throttle x3, misbehaves, replay, redrive, crash",
    "expire: without deadline_at <= now": "deadline, replay, crash",
    "cancel: without dispatch = seen": "two promoters, scheduled, reschedule x2, cancel",
    "replay: without dispatch +1": "cancel, replay, misbehaves, loss",
    "replay: without dropping cancel_request": "replay x2, redrive, misbehaves x2",
    "start effect (at most once): without a free effect": "at most once, lost answer, crash",
    "finish effect: without holder = seen": "restored from a backup, empty queue",
    "mark: without dispatch = seen": "gate, loss, crash",
    "mark: without dropping outbox": "no faults",
    "early_leave": "scheduled, crash, misbehaves",
    "live_leave": "misbehaves, loss, stuck mark, second delivery",
    "gate_first": "gate, crash, second delivery",
    "own_start": "lost answer x2, frozen",
    "own_lease": "lost answer x2, second delivery, crash",
    "handler_stops": "hung handler, misbehaves, frozen",
    "suspect_alone": "scheduled, crash, misbehaves",
    "accept_dead_only": "cancel x2, misbehaves, redrive",
    "repair_lapsed": "purge, empty queue, crash",
    "park_current": "throttle x3, crash",
    "drop_stale": "scheduled, crash, misbehaves",
    "cancel_for_wait": "cancel x2, misbehaves, redrive",
    "amo_keep": "at most once, misbehaves, crash, frozen",
    "repair_unmarked": "purge, empty queue, stuck mark, loss, misbehaves",
    "repair_lost": "purge, empty queue, misbehaves",
}
"""Some parts that are missed soon, and every rule but one that the table doubles: where to hunt first."""
