"""Why some parts of the table have no counterexample of their own.

Each is either covered by another part (`beside`: without both there is a counterexample, in `profile`), or no part of
any promise. A part that is neither missed nor explained here fails the check, and so does an explanation of one that
is missed after all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.model.handlers import OWN_MOVES


@dataclass(frozen=True, slots=True)
class Reason:
    """names: patterns of parts and rules, "{row}" in `beside` standing for the row of the one that matched."""

    names: tuple[str, ...]
    why: str
    beside: tuple[str, ...] = ()
    profile: str = ""

    def explains(self, name: str) -> bool:
        """Whether this is about that part."""
        return any(fnmatchcase(name, pattern) for pattern in self.names)

    def combined(self, name: str) -> Sequence[str]:
        """The part and what covers it."""
        return (name, *(other.format(row=name.partition(":")[0]) for other in self.beside))


OWN = tuple(move for move in OWN_MOVES if move != "cancel (running)")
ON_A_LAPSED_LEASE = (
    "requeue",
    "reclaim",
    "dead-letter (lapsed)",
    "park (lapsed)",
    "expire (lapsed)",
    "cancel (lapsed)",
)
LONG_WAITS = ("retry (long wait)", "defer (long wait)", "defer (unleased, long wait)")
PROGRESS = ("retry", "retry (long wait)", "defer", "defer (long wait)", "continue")


def _each(rows: Sequence[str], *without: str) -> tuple[str, ...]:
    return tuple(f"{row}: without {part}" for row in rows for part in without)


RENEWED_MEANWHILE = {
    "requeue": "renew, frozen, crash",
    "reclaim": "renew, frozen, crash",
    "dead-letter (lapsed)": "one attempt: renew, frozen, throttle x2",
    "park (lapsed)": "one attempt: renew, frozen, throttle x2",
    "expire (lapsed)": "renew, frozen, deadline",
    "cancel (lapsed)": "renew, frozen, cancel",
}

TAKEN_FROM_THE_LIVING = tuple(
    Reason((f"{row}: without {part}",), why, beside=(f"{{row}}: without {other}",), profile=profile)
    for row, profile in RENEWED_MEANWHILE.items()
    for part, other, why in (
        (
            "lease_expires_at = seen",
            "lease_expires_at <= lapse_limit",
            "The clock's guard judges the lease that it finds, renewed or not.",
        ),
        (
            "lease_expires_at <= lapse_limit",
            "lease_expires_at = seen",
            "Who makes the move has found the lease lapsed, and a renewed one is not as it was seen.",
        ),
    )
)

EXPLAINED = (
    *TAKEN_FROM_THE_LIVING,
    Reason(
        _each(OWN, "run = seen"),
        "The token is fresh for every lease, so it fences alone; the run is what the history is numbered by.",
        beside=("{row}: without holder = seen",),
        profile="stall limit 2, frozen x2, crash, renew",
    ),
    Reason(
        ("cancel (running): without run = seen", "cancel (running): without holder = seen"),
        "Only a job that was asked to be cancelled is, and that is its end whoever writes it.",
    ),
    Reason(
        _each(ON_A_LAPSED_LEASE, "run = seen"),
        "The guard judges the lease that it finds: one of a later run that has lapsed too is as free to be taken.",
    ),
    Reason(
        ("cancel (lapsed): without a cancel_request", "cancel (running): without a cancel_request"),
        "Who makes the move has read the request, and none is taken back while its run lasts.",
    ),
    Reason(
        ("expire (lapsed): without deadline_at <= now", "dead-letter (lapsed): without attempts >= *"),
        "Who makes the move has read it in the record, and neither counters nor deadline turn back in a run.",
    ),
    Reason(
        ("*: without attempts < max_attempts", "requeue: without stalls < stall_limit", "reclaim: without stalls <*"),
        "A backstop: who makes the move has judged the counters, which stand still while a run lasts, and a job whose"
        " attempts are used up is nowhere made to wait for another.",
    ),
    Reason(
        ("reclaim: without dispatch = seen", "park (lapsed): without dispatch*", "park (lapsed): without attempts*"),
        "The run is as it was seen, and within a run neither dispatch nor attempts change.",
    ),
    Reason(
        ("defer (unleased): without dispatch = seen",),
        "The current message, or the sweeper where it was never sent, brings the job back after the wait.",
        beside=("repair_unmarked",),
        profile="one worker, steady relay: gate, loss, crash",
    ),
    Reason(
        ("defer (unleased, long wait): without dispatch = seen",),
        "The promoter brings the job back after the wait, whose message it was.",
    ),
    Reason(
        ("erase effect: without dropping effect",),
        "The next run takes the effect over; erased, it may be tried again within the run that it failed in.",
    ),
    Reason(
        ("requeue: without no cancel_request",),
        "Asked between the look and the write, the request is met by the next lease.",
        beside=("lease: without no cancel_request",),
        profile="cancel, replay, crash",
    ),
    Reason(
        tuple(f"{row}: without deadline_at > now" for row in ("requeue", "reroute", "defer (unleased*")),
        "The next lease is refused for the deadline, and the job expires then.",
    ),
    Reason(
        tuple(f"{row}: without no cancel_request" for row in PROGRESS),
        "The request would be met by the next lease, only later.",
        beside=("lease: without no cancel_request",),
        profile="cancel x2, misbehaves, redrive",
    ),
    Reason(
        ("lease: without no cancel_request",),
        "No move leaves a request on a job that waits; were one to, the lease would meet it.",
        beside=("retry: without no cancel_request",),
        profile="cancel x2, misbehaves, redrive",
    ),
    Reason(
        ("defer (unleased*: without no cancel_request", "reroute: without no cancel_request"),
        "No move leaves a request on a job that waits.",
    ),
    Reason(
        ("lease: from retrying without no due_key",),
        "A long wait has a dispatch that no message carries.",
        beside=("retry (long wait): without dispatch +1",),
        profile="misbehaves, loss, stuck mark, second delivery",
    ),
    Reason(
        ("redispatch: from retrying without no due_key",),
        "A long wait has a dispatch that no sweeper has seen.",
        beside=("redispatch: without dispatch = seen",),
        profile="one worker: purge, gate, loss, crash, empty queue",
    ),
    Reason(
        tuple(f"{row}: from retrying without no due_key" for row in ("defer (unleased*", "reroute", "park")),
        "A long wait has a dispatch that no message carries, and these compare the dispatch.",
    ),
    Reason(
        ("retry (long wait): without dispatch +1", "defer (long wait): without dispatch +1"),
        "A message that is left behind finds the job in the due index, where no lease takes it.",
        beside=("lease: from retrying without no due_key",),
        profile="misbehaves, loss, stuck mark, second delivery",
    ),
    Reason(
        ("defer (unleased, long wait): without dispatch +1",),
        "The same.",
        beside=("lease: from retrying without no due_key",),
        profile="gate, crash, second delivery",
    ),
    Reason(
        ("reschedule: without dispatch +1",),
        "The promotion makes the message stale; until then it finds a job that is not to start yet.",
        beside=("promote: without dispatch +1",),
        profile="one worker: reschedule, stuck mark, loss",
    ),
    Reason(
        ("promote: without dispatch +1",),
        "Every move into the due index has made the old message stale already.",
        beside=("reschedule: without dispatch +1",),
        profile="one worker: reschedule, stuck mark, loss",
    ),
    Reason(
        ("promote: without dispatch = seen",),
        "The due time is judged as it is found.",
        beside=("promote: without due_at <= horizon",),
        profile="two promoters, scheduled, reschedule x2, cancel",
    ),
    Reason(
        ("promote: without due_at <= horizon",),
        "The promoter has read a due time in the past, and whatever moves it makes the dispatch another.",
        beside=("promote: without dispatch = seen",),
        profile="two promoters, scheduled, reschedule x2, cancel",
    ),
    Reason(
        ("promote: from retrying without a due_key",),
        "A job that is not in the due index has no due time, which no horizon reaches.",
    ),
    Reason(
        ("reroute: without dispatch = seen",),
        "What a stale message's worker so makes stale it rings anew, and the job waits for no time then.",
    ),
    Reason(
        ("reroute: without the choice *",),
        "A job that never moves waits in vain, SQS gives its message up, and it is parked: an end, though not the one"
        " that it was promised (tests/chaos, tests/histories).",
    ),
    Reason(
        ("ring again: without dispatch = seen", "ring again: without outbox as*", "ring again: without published_at*"),
        "A ring too many is a spare doorbell: its dispatch is current, so it makes no other stale.",
    ),
    Reason(
        ("redispatch: without dispatch = seen", "redispatch: without dispatch +1"),
        "A retrying job past its time may be queued whoever saw it; what then lacks its ring is rung again as lost.",
    ),
    Reason(
        (
            *tuple(f"{row}: without dropping outbox" for row in (*LONG_WAITS, "reschedule")),
            "complete: without dropping outbox",
            "expire*: without dropping outbox",
            "cancel*: without dropping outbox",
        ),
        "The stream's filter and the sweeper look at the flag of queued and dead jobs; the promotion sets it anew.",
    ),
    Reason(
        ("retry (long wait): without dropping published_at", "defer (long wait): without dropping published_at"),
        "The promotion takes the old mark away.",
        beside=("promote: without dropping published_at",),
        profile="scheduled, crash, misbehaves",
    ),
    Reason(
        ("defer (unleased, long wait): without dropping published_at",),
        "The promotion takes the old mark away.",
        beside=("promote: without dropping published_at",),
        profile="gate, crash, second delivery",
    ),
    Reason(
        ("reschedule: without dropping published_at",),
        "The promotion takes the old mark away.",
        beside=("promote: without dropping published_at",),
        profile="one worker: reschedule, stuck mark, loss",
    ),
    Reason(
        ("promote: without dropping published_at",),
        "A job in the due index has no mark: every move into it took it away.",
        beside=("retry (long wait): without dropping published_at",),
        profile="scheduled, crash, misbehaves",
    ),
    Reason(
        (
            "*: without dropping available_at",
            "*: without dropping rung_at",
            "*: without dropping reason",
            "*: without dropping progress",
            "*: without dropping cancelled_by",
            "*: without dropping dead_at",
            "*: without dropping ended_at",
            "*: without dropping first_error_at",
        ),
        "For the operator's eyes, and for when the sweeper rings next; no guard reads it.",
    ),
    Reason(
        (
            "reschedule: without dropping next_attempt_at",
            "redispatch: without dropping next_attempt_at",
            "reroute: without dropping next_attempt_at",
            "replay*: without dropping next_attempt_at",
        ),
        "No lease of a queued job asks for it, and each takes it away.",
    ),
    Reason(
        (
            *_each(
                ("complete", "dead-letter", "dead-letter (lapsed)", "park (lapsed)", "expire (lapsed)"),
                "dropping due_*",
            ),
            *_each(("cancel (running)", "cancel (lapsed)"), "dropping due_*", "dropping dead_key"),
            *_each(
                ("complete", "dead-letter", "dead-letter (lapsed)", "park (lapsed)", "expire (lapsed)"),
                "dropping next_*",
            ),
            *_each(("cancel (running)", "cancel (lapsed)", "reclaim"), "dropping next_attempt_at"),
            *_each(("park", "expire", "cancel"), "dropping lease_expires_at"),
            "park: without dropping due_*",
        ),
        "What it left has no such field: one list serves every end (_AT_REST).",
    ),
    Reason(
        ("finish effect: without its own effect", "erase effect: without its own effect"),
        "A run finishes what it began itself, and a second beginning of the same effect is refused before.",
    ),
    Reason(
        ("continue: without no checkpoint or *",),
        "The worker compares the checkpoints before it writes.",
        beside=("checkpoint_moves",),
        profile="one worker: continues x2",
    ),
    Reason(
        ("checkpoint_moves",),
        "The table compares the checkpoints again.",
        beside=("continue: without no checkpoint or checkpoint <> seen",),
        profile="one worker: continues x2",
    ),
    Reason(
        ("submit (scheduled): *",),
        "Both stores ask the row submit, whichever state a job begins in.",
    ),
)
