"""Everything at one instant: the record, its stream, the queue and its DLQ, and what each actor is about to do."""

from __future__ import annotations

from typing import NamedTuple

from tests.model.record import Record

IDLE, RECEIVED, FOLLOWS, UNSURE, ACKNOWLEDGES = "idle", "received", "follows", "unsure", "acknowledges"
STARTS, PERFORMS, RECORDS, DONE, FAILED = "starts", "performs", "records", "done", "failed"
GIVES_UP, CANCELS, GATED = "gives-up", "cancels", "gated"
"""Where a worker stands.

RECEIVED a message, undecided · FOLLOWS what a refusal meant · UNSURE whether its lease was written · ACKNOWLEDGES
STARTS its effect · PERFORMS it · RECORDS it as completed · DONE · FAILED: the handler raised · GIVES_UP: the effect may
not be run · CANCELS on request · GATED: leased, and only then found the gate shut (a rule switched off)
"""

AT_WORK = frozenset({STARTS, PERFORMS, RECORDS, DONE, FAILED})
"""A handler runs, or its thread does."""


class Image(NamedTuple):
    """A stream record that asks for a ring; `dead`: of the DLQ."""

    dispatch: int
    dead: bool
    suspect: bool


class Message(NamedTuple):
    """A message in the work queue. `replay`: an operator moved it there from the DLQ to have a dead job run again."""

    dispatch: int
    marked: bool
    suspect: bool
    receives: int = 0
    visible: bool = True
    replay: bool = False

    def __str__(self) -> str:
        return f"m(d{self.dispatch}{',dead' if self.marked else ''}{',suspect' if self.suspect else ''})"


class Copy(NamedTuple):
    """A message in the DLQ."""

    dispatch: int
    marked: bool
    suspect: bool = False

    def __str__(self) -> str:
        return f"(d{self.dispatch}{',dead' if self.marked else ''})"


class Worker(NamedTuple):
    """One worker and the message it holds.

    slot    the place in the queue of its message; -1: none, or a handler thread whose attempt was closed
    run     of its lease, and the token it wrote; 0 and "" before it has one
    passed  its lease has ended, whether it knows or not
    seen    what it decided on a refusal: (decision, dispatch, run, whether it had a reason)
    """

    step: str = IDLE
    slot: int = -1
    dispatch: int = 0
    marked: bool = False
    suspect: bool = False
    run: int = 0
    holder: str = ""
    passed: bool = False
    seen: tuple[str, int, int, bool] | tuple[()] = ()

    def __str__(self) -> str:
        return f"worker(run {self.run})" if self.run else "worker"


class Plan(NamedTuple):
    """What a sweeper, promoter or operator is about to write, with what it saw."""

    act: str = ""
    dispatch: int = 0
    run: int = 0
    attempts: int = 0
    lease: str = ""
    outbox: str = ""
    marked: bool = False
    suspect: bool = False


class Budget(NamedTuple):
    """How many faults and interventions of each kind may still come."""

    away: int = 0  # a message is moved to the DLQ so late that the table may have been away
    crash: int = 0  # of a worker or the relay
    loss: int = 0  # of a stream record
    misbehave: int = 0  # of a handler: fails, defers, continues
    stuck_mark: int = 0  # a relay given up by its caller marks much later
    frozen: int = 0  # a lease ends under a living worker
    twice: int = 0  # SQS delivers a message while another holds it
    throttle: int = 0  # a receive that reaches no worker
    purge: int = 0  # a message of the work queue
    lag: int = 0  # the relay is slower than the sweeper's patience
    lost_answer: int = 0  # a write lands, its answer does not
    hang: int = 0  # a handler runs past its deadline
    renew: int = 0
    gate: int = 0  # this worker does not know the job's type yet, or may not run it now
    move: int = 0  # the worker's lane may not run it: its type has moved
    deadline: int = 0
    replay: int = 0
    cancel: int = 0
    redrive: int = 0  # by AWS's own means
    reschedule: int = 0
    restore: int = 0  # of the table, from a backup


NO_FAULTS = Budget()


class Ghost(NamedTuple):
    """What no part of the system knows: the history that the promises are about.

    leases     written so far; names the tokens
    replayed   a replay was accepted, its run is still to come
    recorded   the effect was recorded as completed
    performed  times the effect took place, up to 3
    in_row     crashes since the last clean end
    spent      attempts that ran, since the last replay
    """

    leases: int = 0
    replayed: bool = False
    recorded: bool = False
    performed: int = 0
    in_row: int = 0
    spent: int = 0


class World(NamedTuple):
    """One state. relay: sent and not yet marked · late: a mark that its caller has given up."""

    record: Record | None
    stream: tuple[Image, ...]
    relay: Image | None
    late: Image | None
    queue: tuple[Message | None, ...]
    dead_letters: tuple[Copy, ...]
    workers: tuple[Worker, ...]
    sweepers: tuple[Plan, ...]
    promoters: tuple[Plan, ...]
    operator: Plan
    gate_shut: bool
    budget: Budget
    ghost: Ghost


NO_PLAN = Plan()
