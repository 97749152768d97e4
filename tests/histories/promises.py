"""What must hold at every write, at every call of a handler or an effect, and whenever a message is deleted. Nothing
here looks at a guard of the table: each promise is said anew, from what the history itself has seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from shared.domain.doorbell import parse
from shared.domain.job import Job
from shared.domain.outcome import Alert
from shared.domain.states import DEFAULT_STALL_LIMIT, FINAL, TABLE, Seen, State, Transition
from shared.errors import MoveRefused, StoreUnavailable
from shared.queues import QUEUES, Queue
from tests.histories.kinds import KINDS, Kinds
from tests.histories.lives import Broken, Handling, Life, Run, record
from tests.histories.sqs import Box, Standing
from tests.histories.threads import Process, current

WORKERS_WORD = frozenset(
    {
        "complete", "retry", "retry (long wait)", "defer", "defer (long wait)", "continue", "dead-letter",
        "cancel (running)",
    }
)  # fmt: skip
"""Moves that end a run by its own word."""

FENCED = WORKERS_WORD | {
    "renew", "request-cancel (own)", "start effect", "start effect (at most once)", "finish effect", "erase effect",
}  # fmt: skip
TAKES_OVER = frozenset(
    {"requeue", "reclaim", "dead-letter (lapsed)", "park (lapsed)", "expire (lapsed)", "cancel (lapsed)"}
)
STARTS = frozenset({"lease", "reclaim"})
BY_MESSAGE_OR_VIEW = frozenset(
    {
        "promote", "ring again", "redispatch", "lease", "reclaim", "defer (unleased)", "defer (unleased, long wait)",
        "reroute", "park", "park (lapsed)", "cancel", "replay", "replay (redriven message)", "mark",
    }
)  # fmt: skip
"""Moves made because of one doorbell, or of one state seen: none may land on a later one."""

MANY = 100
"""Receives that reached no worker, where a message may be moved for that."""

MOST_LEASES = 21
"""By one message of a standard lane, or for each copy of it."""

A_LONG_TRY = timedelta(seconds=8)
"""A call of a process that is not called slow, with room for one more."""

EARLY = timedelta(seconds=2)
"""A job may start sooner than it was asked for by no more than clocks differ."""

LONG_PAST = timedelta(days=28)
"""A sweeper that comes so late has let two queues forget a message."""

A_DEPLOYMENT = timedelta(minutes=15)
OPERATOR = "operator"
GIVES_BACK = frozenset({"defer", "defer (long wait)", "continue"})
SUBMITS = frozenset({"submit", "submit (scheduled)"})
REPLAYS = frozenset({"replay", "replay (redriven message)"})


class Promises:
    """Keeps what was seen, and the first promise that broke."""

    def __init__(
        self, get: Callable[[str], Job | None], doorbells: Callable[[Job, Process], list[str]],
        ahead: Callable[[Job, Process], list[str]], rung: Callable[[Job], bool],
    ) -> None:  # fmt: skip
        """get: the record · doorbells: which of its process's messages name this job at this dispatch · ahead: FIFO
        messages of its key before those, that are still needed · rung: SQS took its doorbell of this dispatch.
        """
        self._get, self._doorbells, self._ahead, self._rung = get, doorbells, ahead, rung
        self.lives: dict[str, Life] = {}
        self.broken: Broken | None = None
        self.rows: dict[str, int] = {row.name: 0 for row in TABLE}
        self.holders: dict[str, Process] = {}
        self.alerted: set[tuple[Alert, str]] = set()
        self.groups: dict[str, dict[str, tuple[str | None, str]]] = {}
        self.at_work: dict[Process, list[tuple[Run, Handling]]] = {}

    def fail(self, promise: str, detail: str) -> None:
        """Note it; the first one counts."""
        if self.broken is None:
            self.broken = Broken(promise, detail)

    def hold(self, promise: str, holds: bool, detail: Callable[[], str]) -> None:
        """Note it unless it holds."""
        if not holds:
            self.fail(promise, detail())

    # ---- writes -----------------------------------------------------------------------------------------------------

    def written(self, old: Job | None, new: Job, move: Transition, seen: Seen) -> None:
        """A write landed."""
        self.rows[move.name] += 1
        process = current().process
        if move.name in SUBMITS:
            self._submitted(old, new)
            return
        assert old is not None
        life = self.lives[new.job_id]

        def told() -> str:
            return f"{process.name}: {move.name} seeing {_short(seen)} on {record(old)} made {record(new)}"

        self._table(old, new, move, told)
        self._counters(old, new, move, told)
        self._lane(old, new, told)
        self._fence(old, move, seen, told)
        self._ends(old, new, life, move, process, told)
        if move.name in STARTS:
            self._leased(old, new, life, process, told)
        self.hold("outbox", move.name != "mark" or self._rung(old), told)
        if move.name == "finish effect":
            life.done[str(seen.effect)] = new.run

    def _submitted(self, old: Job | None, new: Job) -> None:
        now, until = current().read_at, None if old is None else old.expires_at
        gone = old is None or (old.state in FINAL and until is not None and now is not None and until < now)
        self.hold("key", gone, lambda: f"a second submit was written over {old}")
        self.lives[new.job_id] = Life(KINDS[new.type.partition("@")[0]])

    def _table(self, old: Job, new: Job, move: Transition, told: Callable[[], str]) -> None:
        wanted = old.state if move.target is None else move.target
        self.hold("table", old.state in move.sources and new.state is wanted, told)
        self.hold("table", new.state in LEGAL[old.state], told)
        stays = old.state not in FINAL or new.state is old.state
        self.hold("table", stays or move.name in REPLAYS or move.name == "cancel", told)

    def _counters(self, old: Job, new: Job, move: Transition, told: Callable[[], str]) -> None:
        new_run = new.run == old.run + 1 and move.name in STARTS
        self.hold("counters", new_run or (new.run == old.run and new.holder == old.holder), told)
        self.hold("counters", new.dispatch >= old.dispatch, told)
        self.hold("budget", 0 <= new.attempts <= new.max_attempts, told)
        self.hold("budget", new.attempts <= old.attempts or new_run, told)
        self.hold("budget", move.name not in GIVES_BACK or new.attempts == old.attempts - 1, told)

    def _lane(self, old: Job, new: Job, told: Callable[[], str]) -> None:
        """A job changes its lane, and no two versions send it back and forth."""
        asked = new.queue == old.queue or new.rerouted_at is not None
        again = old.rerouted_at is not None and new.rerouted_at is not None and new.rerouted_at - old.rerouted_at
        self.hold("lane", asked and (not again or again >= A_DEPLOYMENT), told)

    def served(self, job_id: str, lane: Queue, catalogue: Kinds, invoked_at: datetime) -> None:
        """A handler begins: on the lane that its worker knows it on, or one that has what that has, the time above all;
        or the job had been sent here by another version's worker a moment before this invocation began.
        """
        job = self._get(job_id)
        job_type = None if job is None else catalogue.get(job.type)
        if job is None or job_type is None:
            return
        declared = job_type.queue
        enough = job_type.deadline <= lane.deadline and declared.memory_mb <= lane.memory_mb
        serves = declared is lane or (enough and all(right in lane.rights for right in declared.rights))
        sent = job.rerouted_at is not None and invoked_at - job.rerouted_at < A_DEPLOYMENT + EARLY
        self.hold("lane", serves or sent, lambda: f"{job_type.name} of {declared.name} runs on {lane.name}: {job}")

    def _fence(self, old: Job, move: Transition, seen: Seen, told: Callable[[], str]) -> None:
        """No worker writes but the one whose lease it is; no lease is taken before its own holder's clock ends it."""
        if move.name in FENCED:
            self.hold("fence", (seen.run, seen.holder) == (old.run, old.holder), told)
            self.hold("fence", self.holders[str(old.holder)] is current().process, told)
        if move.name in TAKES_OVER:
            holder, ends_at = self.holders[str(old.holder)], old.lease_expires_at
            held = ends_at is not None and not holder.dead and holder.world.now + holder.skew < ends_at
            self.hold("lapse", not held, told)
        if move.name in BY_MESSAGE_OR_VIEW:
            self.hold("dispatch", seen.dispatch == old.dispatch, told)

    def _ends(
        self, old: Job, new: Job, life: Life, move: Transition, process: Process, told: Callable[[], str]
    ) -> None:
        if move.name in WORKERS_WORD:
            life.runs[old.run].said = True
        if move.name == "complete":
            self.hold("complete", life.runs[old.run].finished, told)
        if move.name == "dead-letter (lapsed)":
            silent = life.silent > DEFAULT_STALL_LIMIT or old.attempts >= old.max_attempts
            self.hold("stalls", silent and life.vanished(min(life.silent, DEFAULT_STALL_LIMIT + 1)), told)
        if move.name == "defer" and new.next_attempt_at is not None:
            self._waits_as_asked(old, new, new.next_attempt_at, life, process)
        self._told(old, new, move, told)
        self._cancels(old, new, life, move, process, told)

    def _waits_as_asked(self, old: Job, new: Job, at: datetime, life: Life, process: Process) -> None:
        """What a message was received for otherwise does not lengthen what its job asked for: here, no time at all."""
        longest = timedelta(seconds=old.run) + EARLY
        prompt = life.kind is not KINDS["restless"] or at - process.now() <= longest
        self.hold("prompt", prompt, lambda: f"{old.job_id} waits until {at} after {old.run} runs")

    def _told(self, old: Job, new: Job, move: Transition, told: Callable[[], str]) -> None:
        """No job ends where nobody looks: what no DLQ shows, an alarm does, and the record says why."""
        if new.state is State.EXPIRED:
            self.hold("told", (Alert.EXPIRED, new.job_id) in self.alerted, told)
            self.hold("told", (old.reason or "") in str(new.reason), told)
        if move.name.startswith("defer (unleased") and any(word in str(new.reason) for word in ("knows no", "newer")):
            self.hold("told", (Alert.TYPE_NOT_KNOWN, new.job_id) in self.alerted, told)

    def _cancels(
        self, old: Job, new: Job, life: Life, move: Transition, process: Process, told: Callable[[], str]
    ) -> None:
        if move.name in REPLAYS:
            life.cancel_asked, life.replayed_after = False, new.run
            fresh = new.cancel_request is None and new.attempts == 0 and new.stalls == 0 and new.expires_at is None
            self.hold("replay", fresh, told)
            asked = move.name == "replay" or any("*" in name for name in self._doorbells(old, process))
            self.hold("replay", asked, told)
            return
        goes_on = new.state in (State.QUEUED, State.RETRYING, State.SCHEDULED) and old.state is State.RUNNING
        self.hold("cancel", not (life.cancel_asked and (goes_on or move.name in STARTS)), told)
        if move.name.startswith("request-cancel") or (move.name == "cancel" and process.name == OPERATOR):
            life.cancel_asked = True
        if new.state is State.CANCELLED:
            self.hold("cancel", life.cancel_asked, told)

    def _leased(self, old: Job, new: Job, life: Life, process: Process, told: Callable[[], str]) -> None:
        read_at = current().read_at
        self.hold("start", read_at is not None and read_at < old.deadline_at, told)
        may_start_at = old.next_attempt_at or old.available_at
        early = old.state is not State.RUNNING and may_start_at is not None and process.world.now + EARLY < may_start_at
        self.hold("early", not early, lambda: f"{told()} before {may_start_at}, at {process.world.now}")
        self.hold("stalls", life.silent <= DEFAULT_STALL_LIMIT, told)
        self.hold("dispatch", bool(self._doorbells(old, process)), lambda: f"{told()}, though it holds {process.about}")
        life.leases.update(self._doorbells(old, process))
        copies = max(Counter(name.rstrip("'") for name in life.leases).values(), default=1)
        fresh = QUEUES[old.queue].fifo or max(life.leases.values(), default=0) <= MOST_LEASES * copies
        self.hold("fresh", fresh, lambda: f"one message brought more than {MOST_LEASES} leases: {life.leases}")
        ahead = self._ahead(old, process)
        self.hold("order", not ahead, lambda: f"{told()}, before {ahead}")
        life.runs[new.run] = Run(new.run, str(new.holder), process, new.stalls > 0)
        self.holders[str(new.holder)] = process

    def payload_missing(self, job_id: str) -> None:
        """A replay was refused for want of its payload: so it may be once the job died long after its deadline."""
        job = self._get(job_id)
        ended_late = job is not None and job.dead_at is not None and job.dead_at - job.deadline_at > LONG_PAST
        self.hold("payload", job is None or ended_late, lambda: f"the payload of {job} is gone")

    # ---- handlers ---------------------------------------------------------------------------------------------------

    def handler_called(self, handle: Any) -> Handling:
        """A handler begins."""
        life = self.lives[handle.job_id]
        run = life.runs[handle.held.lease.run]
        self.hold("twice", not run.started, lambda: f"run {run.number}'s handler was called twice")
        run.started = True
        handling = Handling(run.number, handle, current().process)
        self._by_itself(run, handling)
        late = handle.held.expires_at <= handling.process.world.now + handling.process.skew
        on_its_way = not life.kind.large  # a large payload is read after the lease
        self.hold(
            "late", not (on_its_way and (late or not self._holds(handle))), lambda: f"run {run.number} starts late"
        )
        life.handlings.append(handling)
        self.look(handle.job_id)
        return handling

    def _by_itself(self, run: Run, handling: Handling) -> None:
        """A job whose worker vanished runs beside no other, or its second crash would be theirs too."""
        beside = [one for one in self.at_work.get(handling.process, []) if not one[1].over]
        alone = not beside or not (run.suspect or any(other.suspect for other, _ in beside))
        self.hold("suspect", alone, lambda: f"run {run.number} of {handling.handle.job_id} beside {len(beside)} others")
        self.at_work[handling.process] = [*beside, (run, handling)]

    def handler_returned(self, handling: Handling, *, finished: bool) -> None:
        """It ended; `finished`: by saying that its job is done."""
        handling.over = True
        self.lives[handling.handle.job_id].runs[handling.run].finished = finished

    def look(self, job_id: str) -> None:
        """No two handlers of one job inside their leases."""
        life = self.lives[job_id]
        life.handlings = [one for one in life.handlings if not one.over and not one.process.dead]
        inside = [one for one in life.handlings if one.holds_the_job]
        self.hold("alone", len(inside) < 2, lambda: f"runs {[one.run for one in inside]} at once, inside their leases")

    def _holds(self, handle: Any) -> bool:
        """Its record is that handler's, as one who sees everything knows."""
        found = self._get(handle.job_id)
        own = (handle.held.lease.run, handle.held.lease.holder)
        return found is not None and found.state is State.RUNNING and (found.run, found.holder) == own

    def effect_begins(self, handle: Any, name: str) -> None:
        """It was started, and is about to be done. What comes between that and the provider is not in our hands."""
        found = self._get(handle.job_id)
        told = "nothing" if found is None else record(found)
        self.hold("begin", self._holds(handle), lambda: f"{name} begins in run {handle.held.lease.run} of {told}")

    def effect_called(self, job_id: str, run: int, name: str, at_most_once: bool, *, done: bool) -> None:
        """The provider is called. `done`: it does what it is asked to."""
        life = self.lives[job_id]
        self.look(job_id)
        self.hold("effect", (name, run) not in life.called, lambda: f"effect {name} was called twice in run {run}")
        recorded = life.done.get(name)
        self.hold(
            "effect",
            recorded is None or run <= recorded,
            lambda: f"run {run} called effect {name}, which run {recorded} had recorded as done",
        )
        again = at_most_once and any(effect == name for effect, _ in life.called)
        self.hold("at-most-once", not again, lambda: f"run {run} called {name} again after {life.called}")
        if done:
            life.called.append((name, run))

    def effect_failed(self, handle: Any, name: str, error: Exception, raised: list[Exception]) -> None:
        """What the handler is told: why the provider did not do it, unless the job is no longer its own."""
        if isinstance(error, MoveRefused):
            return
        self.hold("reason", not raised or error is raised[0], lambda: f"{name}: {error!r} instead of {raised[0]!r}")
        if isinstance(error, StoreUnavailable):
            ends_at = min(handle.held.expires_at, handle.held.deadline_at)
            left = ends_at - current().process.world.now - current().process.skew
            slow = "slow" in current().process.struck  # a try may take as long as the last one did
            hasty = left > A_LONG_TRY and not handle.held.closed and not slow
            self.hold("insist", not hasty, lambda: f"{name} gives up on the table with {left} left")

    # ---- messages ---------------------------------------------------------------------------------------------------

    def hiding(self, box: Box, one: Standing, wait: timedelta) -> None:
        """Whoever cancels a job, or sends it round again, frees its key before long."""
        few_left = one.receives > box.queue.max_receives / 2
        longest = timedelta(hours=1) if few_left else timedelta(minutes=15)
        self.hold("freed", wait <= longest, lambda: f"{one.name} is hidden for {wait}")

    def moving(self, one: Standing) -> None:
        """SQS moves only what it showed to nobody: no wait of a job, and no absence of the table, spends so much."""
        self.hold("moved", one.throttled >= MANY, lambda: f"{one.name} is moved after {one.receives} receives")

    def sending(self, dead_letters: bool, box: Box, body: str, group: str | None) -> None:
        """On a FIFO lane one group is one key of one tenant, always the same one; without a key, one job."""
        bell = parse(body)
        job = None if bell is None else self._get(bell.job_id)
        if job is None or group is None or dead_letters or not box.queue.fifo:
            return
        ordered = (job.tenant, job.ordering_key or job.job_id)
        groups = self.groups.setdefault(box.queue.name, {})
        shared = [others for other, others in groups.items() if other == group and others != ordered]
        apart = [other for other, others in groups.items() if others == ordered and other != group]
        self.hold("groups", not shared, lambda: f"{ordered} waits behind {shared}: both are group {group}")
        self.hold("groups", not apart, lambda: f"{ordered} was group {apart} and is group {group}: it keeps no order")
        groups[group] = ordered

    def deleting(self, dead_letters: bool, box: Box, one: Standing) -> None:
        """The one rule for messages; and a DLQ keeps what tells the truth."""
        bell = parse(one.body)
        job = None if bell is None else self._get(bell.job_id)
        if bell is None or job is None:
            self.hold("dlq", not dead_letters, lambda: f"an orphan's copy {one.name} was deleted")
            return
        rung_anew = dead_letters and not bell.dead_letter and job.rung_at is not None
        spare = bell.dispatch < job.dispatch or job.state in FINAL or rung_anew
        self.hold("acknowledge", spare, lambda: f"{one.name} deleted while its job is {record(job)}")
        told = job.state is State.DEAD and bell.dispatch == job.dispatch and bell.dead_letter
        self.hold("dlq", not (dead_letters and told), lambda: f"{one.name}, the copy of a dead job, was deleted")


def _legal() -> dict[State, frozenset[State]]:
    """Where one write may take a job, from the picture in DESIGN §5."""
    s = State
    ways = {
        s.SCHEDULED: {s.QUEUED, s.CANCELLED, s.EXPIRED},
        s.QUEUED: {s.RUNNING, s.RETRYING, s.DEAD, s.CANCELLED, s.EXPIRED, s.SCHEDULED},
        s.RUNNING: {s.COMPLETED, s.RETRYING, s.QUEUED, s.DEAD, s.CANCELLED, s.EXPIRED},
        s.RETRYING: {s.RUNNING, s.QUEUED, s.DEAD, s.CANCELLED, s.EXPIRED, s.SCHEDULED},
        s.DEAD: {s.QUEUED, s.CANCELLED},
        s.EXPIRED: {s.QUEUED},
        s.CANCELLED: {s.QUEUED},
        s.COMPLETED: set(),
    }
    return {state: frozenset({state, *targets}) for state, targets in ways.items()}


LEGAL = _legal()


def _short(seen: Seen) -> str:
    said = {"dispatch": seen.dispatch, "run": seen.run, "holder": seen.holder, "effect": seen.effect}
    return " ".join(f"{name} {value}" for name, value in said.items() if value is not None) or "nothing"
