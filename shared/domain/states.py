"""Every state and every legal move of a job. The DynamoDB conditions, the in-memory twin, the matrix test and the
README's diagram are all read from TABLE; nothing else may write `state`.

A move names the states it leaves (with what must hold there), what must hold whichever it leaves, where it goes, and
what it writes besides. Conditions compare the record with `Seen`: what the caller knew when it decided.

Read: mine = running under my run and holder · lapsed = running, run and expiry as seen, expiry + CLOCK_MARGIN passed ·
go = no cancel request, deadline_at ahead · budget = attempts and stalls below their limits ·
ring = dispatch + 1, outbox open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

CLOCK_MARGIN = timedelta(seconds=3)
"""A lease is taken from its holder only this long after its end: the two clocks may differ (timed.py of the model)."""

DEFAULT_STALL_LIMIT = 1
"""Recover a crashed run once; the second crash in a row is the job's own doing, so it stops for a human."""


REROUTE_REST = timedelta(minutes=15)
"""Between two changes of a job's lane: longer than a deployment, whose workers of two versions may know its type on
different lanes and would send it back and forth.
"""


class State(StrEnum):
    """A job is in exactly one of these."""

    SCHEDULED = "scheduled"  # submit or reschedule put it here; promote takes it out
    QUEUED = "queued"  # its doorbell rings or will ring; a worker takes it out
    RUNNING = "running"  # one worker holds its lease
    RETRYING = "retrying"  # waits for its next attempt, on its message or (a long wait) in the `due` index
    COMPLETED = "completed"  # never leaves
    DEAD = "dead"  # stopped automatically; an operator replays or cancels it
    CANCELLED = "cancelled"
    EXPIRED = "expired"  # its deadline passed before it could run


FINAL = frozenset({State.COMPLETED, State.DEAD, State.CANCELLED, State.EXPIRED})
OUTBOX_OPEN = "open"
"""The outbox flag. The stream filter asks for its presence; no filter can ask a fresh record for an absence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the caller knew when it decided on the move. None = not known; a move that needs it refuses to be made
    (ValueError), except `outbox`, `published_at` and `reason`, where None is itself what was seen: nothing there.
    """

    now: datetime | None = None
    dispatch: int | None = None
    run: int | None = None
    holder: str | None = None
    attempts: int | None = None
    lease_expires_at: datetime | None = None
    outbox: str | None = None
    published_at: datetime | None = None
    reason: str | None = None
    horizon: datetime | None = None
    stall_limit: int | None = None
    checkpoint: Mapping[str, object] | None = None
    effect: str | None = None

    @property
    def lapse_limit(self) -> datetime | None:
        """Leases that ended before this instant are lapsed, whoever's clock measured them."""
        return None if self.now is None else self.now - CLOCK_MARGIN

    @property
    def rest_limit(self) -> datetime | None:
        """A job whose lane changed after this instant stays where it is."""
        return None if self.now is None else self.now - REROUTE_REST

    def value(self, name: str) -> object:
        """What was seen under this name. Raises ValueError if the caller did not say."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"the move needs Seen({name}=...), which the caller did not say")
        return value


Operator = Literal["=", "<>", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Versus:
    """The record's field compared with what was seen (`seen`) or with another field. A missing field never holds."""

    field: str
    operator: Operator
    seen: str = ""
    other: str = ""


@dataclass(frozen=True, slots=True)
class Exists:
    """The record has the field."""

    field: str


@dataclass(frozen=True, slots=True)
class Missing:
    """The record lacks the field (or there is no record at all)."""

    field: str


@dataclass(frozen=True, slots=True)
class AsSeen:
    """The field is exactly as it was seen, its absence included."""

    field: str


@dataclass(frozen=True, slots=True)
class Either:
    """At least one of these holds."""

    options: tuple[Guard, ...]


@dataclass(frozen=True, slots=True)
class EffectFree:
    """The effect named by `seen` was never started, or (where `takeover`) was left in progress by a lower run."""

    takeover: bool


@dataclass(frozen=True, slots=True)
class EffectMine:
    """The effect named by `seen` is in progress under the run seen."""


Guard = Versus | Exists | Missing | AsSeen | Either | EffectFree | EffectMine


@dataclass(frozen=True, slots=True)
class Arm:
    """Some of the states a move leaves, with what must hold in those besides the move's own guards."""

    states: frozenset[State]
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One row of the table.

    name    the move; rows of one move share the part before " ("
    arms    where it may come from (empty: from no record)
    target  where it goes; None keeps the state
    guards  what must hold whichever arm it is
    sets    fields the caller must give · may: fields it may give · first: may give, written only where still absent
    fixed   constants · adds: increments (from 0 where absent) · drops: fields that go
    """

    name: str
    arms: tuple[Arm, ...]
    target: State | None
    guards: tuple[Guard, ...] = ()
    sets: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    fixed: tuple[tuple[str, object], ...] = ()
    adds: tuple[tuple[str, int], ...] = ()
    drops: tuple[str, ...] = ()

    @property
    def verb(self) -> str:
        """The move in a log line or a metric's name: "dead-letter" of "dead-letter (lapsed)", "ring-again"."""
        return self.name.partition(" (")[0].replace(" ", "-")

    @property
    def sources(self) -> frozenset[State]:
        """Every state this move may leave."""
        return frozenset(state for arm in self.arms for state in arm.states)

    def check_changes(self, changes: Mapping[str, object]) -> None:
        """Raises ValueError for a field this move must not write, or one it must write and was not given."""
        given = set(changes)
        if alien := given - {*self.sets, *self.may, *self.first}:
            raise ValueError(f"{self.name} does not write {sorted(alien)}")
        if absent := set(self.sets) - given:
            raise ValueError(f"{self.name} must be given {sorted(absent)}")
        if empty := sorted(name for name, value in changes.items() if value is None):
            raise ValueError(f"{self.name} was given None for {empty}; what goes away is said in the table")


def _from(*states: State, where: tuple[Guard, ...] = ()) -> Arm:
    return Arm(frozenset(states), where)


def _is(field: str) -> Versus:
    return Versus(field, "=", seen=field)


ANY_STATE = _from(*State)
MINE = (_is("run"), _is("holder"))
LAPSED = (_is("run"), _is("lease_expires_at"), Versus("lease_expires_at", "<=", seen="lapse_limit"))
NOT_CANCELLED = Missing("cancel_request")
GO = (NOT_CANCELLED, Versus("deadline_at", ">", seen="now"))
ATTEMPTS_LEFT = Versus("attempts", "<", other="max_attempts")
BUDGET = (ATTEMPTS_LEFT, Versus("stalls", "<", seen="stall_limit"))
BUDGET_GONE = Either((Versus("attempts", ">=", other="max_attempts"), Versus("stalls", ">=", seen="stall_limit")))
DEADLINE_PASSED = Versus("deadline_at", "<=", seen="now")
DISPATCH = _is("dispatch")
NOT_IN_DUE = Missing("due_key")
WAIT_OVER = Versus("next_attempt_at", "<=", seen="now")
RESTED = Either((Missing("rerouted_at"), Versus("rerouted_at", "<=", seen="rest_limit")))

_RING_ADDS = (("dispatch", 1),)
_RING_FIXED = (("outbox", OUTBOX_OPEN),)
_RING_DROPS = ("published_at", "rung_at")
_RING_SETS = ("queued_at",)
"""When the job was rung for the first time under this dispatch; a job may be old and its ring young. A submitted job's
is its created_at, a dead one's its dead_at.
"""
_LEASE_SETS = ("holder", "lease_expires_at", "started_at", "code_version")
_LEASE_DROPS = ("next_attempt_at", "reason", "progress")
_ERROR_SETS = ("error_class", "error_code", "error_message", "last_error_at")
_ERROR_MAY = ("error_told",)
_INTO_DUE_SETS = ("due_key", "due_at")
_INTO_DUE_ADDS = (("dispatch", 1),)
_OUT_OF_OPEN = ("open_key", "available_at", "outbox", "published_at", "rung_at")
_AT_REST = ("open_key", "due_key", "due_at", "next_attempt_at", "lease_expires_at")
"""What a final record no longer has: it stands in no index of work and waits for nothing."""

SUBMIT = Transition(
    name="submit",
    arms=(),
    target=State.QUEUED,
    guards=(Either((Missing("job_id"), Versus("expires_at", "<", seen="now"))),),
)
SUBMIT_SCHEDULED = Transition(name="submit (scheduled)", arms=(), target=State.SCHEDULED, guards=SUBMIT.guards)

PROMOTE = Transition(
    name="promote",
    arms=(_from(State.SCHEDULED), _from(State.RETRYING, where=(Exists("due_key"),))),
    target=State.QUEUED,
    guards=(DISPATCH, Versus("due_at", "<=", seen="horizon")),
    sets=("open_key", "available_at", *_RING_SETS),
    fixed=_RING_FIXED,
    adds=_RING_ADDS,
    drops=(*_RING_DROPS, "due_key", "due_at"),  # next_attempt_at tells, until the lease, when a promoted job starts
)
RESCHEDULE = Transition(
    name="reschedule",
    arms=(_from(State.SCHEDULED, State.QUEUED, State.RETRYING),),
    target=State.SCHEDULED,
    guards=(DISPATCH,),
    sets=("run_at", *_INTO_DUE_SETS),
    adds=_INTO_DUE_ADDS,
    drops=(*_OUT_OF_OPEN, "next_attempt_at", "reason"),
)
RING_AGAIN = Transition(
    name="ring again",
    arms=(_from(State.QUEUED, State.DEAD),),
    target=None,
    guards=(DISPATCH, AsSeen("outbox"), AsSeen("published_at")),
    sets=("rung_at",),
    fixed=_RING_FIXED,
    drops=("published_at",),
)
REDISPATCH = Transition(
    name="redispatch",
    arms=(_from(State.RETRYING, where=(NOT_IN_DUE, WAIT_OVER)),),
    target=State.QUEUED,
    guards=(DISPATCH,),
    sets=_RING_SETS,
    fixed=_RING_FIXED,
    adds=_RING_ADDS,
    drops=(*_RING_DROPS, "next_attempt_at"),  # the reason stays until the lease: it may yet expire
)
REQUEUE = Transition(
    name="requeue",
    arms=(_from(State.RUNNING),),
    target=State.QUEUED,
    guards=(*LAPSED, *GO, *BUDGET),
    sets=_RING_SETS,
    fixed=_RING_FIXED,
    adds=(*_RING_ADDS, ("stalls", 1)),
    drops=(*_RING_DROPS, "lease_expires_at"),
)
LEASE = Transition(
    name="lease",
    arms=(_from(State.QUEUED), _from(State.RETRYING, where=(NOT_IN_DUE, WAIT_OVER))),
    target=State.RUNNING,
    guards=(DISPATCH, *GO, ATTEMPTS_LEFT),
    sets=_LEASE_SETS,
    adds=(("run", 1), ("attempts", 1)),
    drops=_LEASE_DROPS,
)
REROUTE = Transition(
    name="reroute",
    arms=LEASE.arms,
    target=State.QUEUED,
    guards=(DISPATCH, *GO, RESTED),
    sets=("queue", "open_key", "rerouted_at", *_RING_SETS),
    fixed=_RING_FIXED,
    adds=_RING_ADDS,
    drops=(*_RING_DROPS, "next_attempt_at", "reason"),
)
"""Its type has moved to another lane, and the worker that got its doorbell may not run it."""

RECLAIM = Transition(
    name="reclaim",
    arms=(_from(State.RUNNING),),
    target=State.RUNNING,
    guards=(*LAPSED, DISPATCH, *GO, *BUDGET),
    sets=_LEASE_SETS,
    adds=(("run", 1), ("attempts", 1), ("stalls", 1)),
    drops=_LEASE_DROPS,
)
RENEW = Transition(
    name="renew",
    arms=(_from(State.RUNNING),),
    target=State.RUNNING,
    guards=MINE,
    sets=("lease_expires_at",),
    may=("progress",),
)
COMPLETE = Transition(
    name="complete",
    arms=(_from(State.RUNNING),),
    target=State.COMPLETED,
    guards=MINE,
    sets=("completed_at", "expires_at"),
    may=("result", "progress"),
    drops=(*_AT_REST, "outbox"),
)
RETRY = Transition(
    name="retry",
    arms=(_from(State.RUNNING),),
    target=State.RETRYING,
    guards=(*MINE, NOT_CANCELLED, ATTEMPTS_LEFT),
    sets=("next_attempt_at", *_ERROR_SETS),
    may=("progress", *_ERROR_MAY),
    first=("first_error_at",),
    fixed=(("stalls", 0),),
    drops=("lease_expires_at",),
)
RETRY_LATER = Transition(
    name="retry (long wait)",
    arms=RETRY.arms,
    target=State.RETRYING,
    guards=RETRY.guards,
    sets=(*RETRY.sets, *_INTO_DUE_SETS),
    may=RETRY.may,
    first=RETRY.first,
    fixed=RETRY.fixed,
    adds=_INTO_DUE_ADDS,
    drops=(*RETRY.drops, *_OUT_OF_OPEN),
)
DEFER = Transition(
    name="defer",
    arms=(_from(State.RUNNING),),
    target=State.RETRYING,
    guards=(*MINE, NOT_CANCELLED),
    sets=("next_attempt_at", "reason"),
    may=("progress", *_ERROR_SETS, *_ERROR_MAY),
    first=("first_error_at",),
    fixed=(("stalls", 0),),
    adds=(("attempts", -1),),
    drops=("lease_expires_at",),
)
DEFER_LATER = Transition(
    name="defer (long wait)",
    arms=DEFER.arms,
    target=State.RETRYING,
    guards=DEFER.guards,
    sets=(*DEFER.sets, *_INTO_DUE_SETS),
    may=DEFER.may,
    first=DEFER.first,
    fixed=DEFER.fixed,
    adds=(*DEFER.adds, *_INTO_DUE_ADDS),
    drops=(*DEFER.drops, *_OUT_OF_OPEN),
)
DEFER_UNLEASED = Transition(
    name="defer (unleased)",
    arms=(_from(State.QUEUED), _from(State.RETRYING, where=(NOT_IN_DUE,))),
    target=State.RETRYING,
    guards=(DISPATCH, *GO),
    sets=("next_attempt_at", "reason"),
)
DEFER_UNLEASED_LATER = Transition(
    name="defer (unleased, long wait)",
    arms=DEFER_UNLEASED.arms,
    target=State.RETRYING,
    guards=DEFER_UNLEASED.guards,
    sets=(*DEFER_UNLEASED.sets, *_INTO_DUE_SETS),
    adds=_INTO_DUE_ADDS,
    drops=_OUT_OF_OPEN,
)
CONTINUE = Transition(
    name="continue",
    arms=(_from(State.RUNNING),),
    target=State.QUEUED,
    guards=(*MINE, NOT_CANCELLED, Either((Missing("checkpoint"), Versus("checkpoint", "<>", seen="checkpoint")))),
    sets=("checkpoint", "available_at", *_RING_SETS),
    may=("progress",),
    fixed=(*_RING_FIXED, ("stalls", 0)),
    adds=(*_RING_ADDS, ("attempts", -1)),
    drops=(*_RING_DROPS, "lease_expires_at"),
)
DEAD_LETTER = Transition(
    name="dead-letter",
    arms=(_from(State.RUNNING),),
    target=State.DEAD,
    guards=MINE,
    sets=("dead_at", "dead_key", "expires_at", *_ERROR_SETS),
    may=("progress", *_ERROR_MAY),
    first=("first_error_at",),
    fixed=_RING_FIXED,
    adds=_RING_ADDS,
    drops=(*_RING_DROPS, *_AT_REST),
)
DEAD_LETTER_LAPSED = Transition(
    name="dead-letter (lapsed)",
    arms=DEAD_LETTER.arms,
    target=State.DEAD,
    guards=(*LAPSED, BUDGET_GONE),
    sets=DEAD_LETTER.sets,
    may=_ERROR_MAY,
    first=DEAD_LETTER.first,
    fixed=DEAD_LETTER.fixed,
    adds=DEAD_LETTER.adds,
    drops=DEAD_LETTER.drops,
)
PARK = Transition(
    name="park",
    arms=(_from(State.QUEUED), _from(State.RETRYING, where=(NOT_IN_DUE,))),
    target=State.DEAD,
    guards=(DISPATCH, _is("attempts")),
    sets=DEAD_LETTER.sets,
    may=_ERROR_MAY,
    first=DEAD_LETTER.first,
    fixed=DEAD_LETTER.fixed,
    adds=DEAD_LETTER.adds,
    drops=(*DEAD_LETTER.drops, "reason"),
)
PARK_LAPSED = Transition(
    name="park (lapsed)",
    arms=(_from(State.RUNNING),),
    target=State.DEAD,
    guards=(*PARK.guards, *LAPSED),
    sets=PARK.sets,
    may=PARK.may,
    first=PARK.first,
    fixed=PARK.fixed,
    adds=PARK.adds,
    drops=PARK.drops,
)
EXPIRE = Transition(
    name="expire",
    arms=(_from(State.SCHEDULED, State.QUEUED, State.RETRYING),),
    target=State.EXPIRED,
    # What stood in its way is read first and written with the end: another worker may have found out more meanwhile.
    guards=(DEADLINE_PASSED, AsSeen("reason")),
    sets=("reason", "ended_at", "expires_at"),
    drops=(*_AT_REST, "outbox"),
)
EXPIRE_LAPSED = Transition(
    name="expire (lapsed)",
    arms=(_from(State.RUNNING),),
    target=State.EXPIRED,
    guards=(*LAPSED, DEADLINE_PASSED),
    sets=EXPIRE.sets,
    drops=EXPIRE.drops,
)
REQUEST_CANCEL = Transition(name="request-cancel", arms=(_from(State.RUNNING),), target=None, sets=("cancel_request",))
REQUEST_OWN_CANCEL = Transition(
    name="request-cancel (own)",
    arms=REQUEST_CANCEL.arms,
    target=None,
    guards=MINE,
    sets=("cancel_request",),
)
"""A handler that says Cancel: first the request, fenced, then the cancellation that every request leads to."""

CANCEL = Transition(
    name="cancel",
    arms=(_from(State.SCHEDULED, State.QUEUED, State.RETRYING, State.DEAD),),
    target=State.CANCELLED,
    guards=(DISPATCH,),
    sets=("cancelled_by", "reason", "ended_at", "expires_at"),
    drops=(*_AT_REST, "outbox", "dead_key", "dead_at"),
)
CANCEL_RUNNING = Transition(
    name="cancel (running)",
    arms=(_from(State.RUNNING),),
    target=State.CANCELLED,
    guards=(*MINE, Exists("cancel_request")),
    sets=CANCEL.sets,
    may=("progress",),
    drops=CANCEL.drops,
)
CANCEL_LAPSED = Transition(
    name="cancel (lapsed)",
    arms=(_from(State.RUNNING),),
    target=State.CANCELLED,
    guards=(*LAPSED, Exists("cancel_request")),
    sets=CANCEL.sets,
    drops=CANCEL.drops,
)
REPLAY = Transition(
    name="replay",
    arms=(_from(State.DEAD, State.EXPIRED, State.CANCELLED),),
    target=State.QUEUED,
    guards=(DISPATCH,),
    sets=("deadline_at", "open_key", "available_at", *_RING_SETS),
    may=("queue",),
    fixed=(*_RING_FIXED, ("attempts", 0), ("stalls", 0)),
    adds=_RING_ADDS,
    drops=(
        *_RING_DROPS,
        "cancel_request",
        "cancelled_by",
        "expires_at",
        "dead_key",
        "dead_at",
        "ended_at",
        "reason",
        "next_attempt_at",
        "first_error_at",
    ),
)
REPLAY_BY_MESSAGE = Transition(
    name="replay (redriven message)",
    arms=(_from(State.DEAD),),
    target=State.QUEUED,
    guards=REPLAY.guards,
    sets=REPLAY.sets,
    fixed=REPLAY.fixed,
    adds=REPLAY.adds,
    drops=REPLAY.drops,
)
START_EFFECT = Transition(
    name="start effect",
    arms=(_from(State.RUNNING),),
    target=None,
    guards=(*MINE, EffectFree(takeover=True)),
    sets=("effect",),
)
START_EFFECT_AT_MOST_ONCE = Transition(
    name="start effect (at most once)",
    arms=(_from(State.RUNNING),),
    target=None,
    guards=(*MINE, EffectFree(takeover=False)),
    sets=("effect",),
)
FINISH_EFFECT = Transition(
    name="finish effect",
    arms=(_from(State.RUNNING),),
    target=None,
    guards=(*MINE, EffectMine()),
    sets=("effect",),
)
ERASE_EFFECT = Transition(
    name="erase effect",
    arms=(_from(State.RUNNING),),
    target=None,
    guards=(*MINE, EffectMine()),
    drops=("effect",),
)
"""Effects live in the record, so that one condition fences them with their job (model: effect_fence, effect_takeover).
The field "effect" is the entry of `effects` that `Seen.effect` names."""

MARK = Transition(
    name="mark",
    arms=(ANY_STATE,),
    target=None,
    guards=(DISPATCH,),
    sets=("published_at",),
    drops=("outbox",),
)
"""The relay's mark moves no job. Its condition keeps a late mark from reviving a record that TTL removed."""

TABLE: tuple[Transition, ...] = tuple(row for row in tuple(globals().values()) if isinstance(row, Transition))
