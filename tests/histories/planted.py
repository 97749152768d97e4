"""Faults planted into the real code, one at a time, that the explorer must find: what proves that it looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from shared.adapters import memory
from shared.adapters.effects import EffectStore
from shared.adapters.memory import MemoryJobStore
from shared.adapters.sqs import SqsDoorbell
from shared.domain import found as finding
from shared.domain import lease, outcome, repair, states, writes
from shared.domain.job import EFFECT_STARTED
from shared.domain.outcome import Alert, Outcome
from shared.domain.repair import STALE_DEAD_LETTER, Broken
from shared.domain.retry import Failure, FailureClass
from shared.domain.states import Transition
from shared.domain.waits import leaves_its_message
from shared.operations import mend, relay, sweep
from shared.operations.run import batch, deliver, delivery, effects, end, invocation
from shared.operations.run.end import RunEnd
from shared.operations.run.invocation import Invocation
from shared.operations.run.turns import Turns
from shared.queues import Queue
from tests.histories.plan import EVERYTHING, FIFO, STANDARD, TEN_DAYS, Focus


@dataclass(frozen=True)
class Planted:
    """A fault, and the promises it may break first. `plant` enters it into a stack that takes it out again; `focus`:
    what to look at where looking at everything takes thousands of histories.
    """

    breaks: frozenset[str]
    plant: Callable[[ExitStack], None]
    focus: Focus = EVERYTHING


def _row(row: Transition, **fields: Any) -> Callable[[ExitStack], None]:
    """This row of the table says something else."""

    def plant(stack: ExitStack) -> None:
        for name, value in fields.items():
            stack.callback(object.__setattr__, row, name, getattr(row, name))
            object.__setattr__(row, name, value)

    return plant


def _instead(place: Any, name: str, value: Any) -> Callable[[ExitStack], None]:
    """This function or value is another."""
    return lambda stack: stack.enter_context(patch.object(place, name, value))


def _both(*plants: Callable[[ExitStack], None]) -> Callable[[ExitStack], None]:
    def plant(stack: ExitStack) -> None:
        for one in plants:
            one(stack)

    return plant


def _acknowledged(more: Outcome) -> Callable[[ExitStack], None]:
    return _instead(outcome, "_ACKNOWLEDGED", outcome._ACKNOWLEDGED | {more})


def _put_whatever_stands_there(self: Any, job_id: str, ref: bytes, payload: str, expires_at: Any) -> None:
    self._payloads[job_id, ref] = payload, expires_at


def _sends_nothing_unsent(real: Callable[..., Any]) -> Callable[..., Any]:
    def ring(self: Any, queue: Any, rings: Any) -> Any:
        real(self, queue, rings)
        return []

    return ring


def _replays_any_marked(found: Any, bell: Any, holder: str, now: Any, stall_limit: int) -> Any:
    if found.state is states.State.DEAD and bell.dead_letter:
        return finding.End(writes.replay_by_message(found, now), Outcome.REPLAYED)
    return finding.found_by_message(found, bell, holder, now, stall_limit)


def _keeps_nothing(found: Any, bell: Any, now: Any) -> Broken | None:
    broken = repair.broken_by_message(found, bell, now)
    return Broken(STALE_DEAD_LETTER, None) if broken is None and found is not None else broken


def _parks_by_any(found: Any, bell: Any, now: Any) -> Broken | None:
    current = bell if found is None or bell is None else replace(bell, dispatch=found.dispatch)
    return repair.broken_by_message(found, current, now)


def _erases_always(self: Any, data: Any, exception: Exception) -> None:
    super(EffectStore, self).delete_record(data, exception)


def _erases_no_at_most_once(self: Any, data: Any, exception: Exception) -> None:
    if not self._guarded.at_most_once:
        super(EffectStore, self).delete_record(data, exception)


def _erases_or_raises(self: Any, data_record: Any) -> None:
    self._write_or_lost(writes.erase_effect(self._guarded.lease, self._guarded.name))


def _own_by_its_run(real: Callable[..., Any]) -> Callable[..., Any]:
    """A start is our own wherever it stands under our run."""

    def refused(self: Any, refusal: Any, data_record: Any) -> None:
        effect = None if refusal.found is None else refusal.found.effects.get(self._guarded.name)
        started = effect is not None and effect.status == EFFECT_STARTED
        if not (started and effect.run == self._guarded.lease.run and not self._guarded.open):
            real(self, refusal, data_record)

    return refused


def _called_though_closed(self: Any, name: str, fn: Callable[[], Any]) -> Any:
    return fn()


def _tries_once(call: Callable[[], Any], may_go_on: Any, job_id: str, ports: Any) -> Any:
    return call()


def _whatever_the_time(self: Any, found: Any, now: Any) -> bool:
    return bool(self.is_of(found))


def _completes_first(real: Callable[..., Any]) -> Callable[..., Any]:
    """The worker says that the job is done before its handler has done it."""

    def execute(job: Any, message: Any, job_type: Any, invocation: Any) -> Any:
        invocation.ports.mailbox.acknowledge([message])
        return real(job, message, job_type, invocation)

    return execute


def _forgets_the_version(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, result: real(self, None if result is None else replace(result, version=None))


def _group_goes_on(group: Any, invocation: Any) -> None:
    for message in group:
        came_to = deliver.deliver(message, invocation)
        if came_to is not None and came_to.acknowledged:
            invocation.done.append(message)
        else:
            invocation.kept.add(message.message_id)


def _leaves_if_it_waits(wait: timedelta, receives: int, fifo: bool, suspect: bool = False) -> bool:
    return leaves_its_message(wait, receives, fifo, suspect) and wait > timedelta()


def _stops_at_eighty(real: Callable[..., Any]) -> Callable[..., Any]:
    def waits(self: Any, write: Any, outcome: Any, at: Any, failure: Any, error: Any) -> Any:
        if failure is not None and self.held.message.receives > 80:
            return self._die(Failure(FailureClass.NEVER_RAN, "too-many-receives", failure.message), error)
        return real(self, write, outcome, at, failure, error)

    return waits


class _Muted:
    """A meter that tells nobody."""

    def alert(self, *_: Any, **__: Any) -> None:
        pass


def _tells_afterwards(real: Callable[..., Any]) -> Callable[..., Any]:
    def mends(found: Any, write: Any, ports: Any) -> Any:
        after = real(found, write, replace(ports, meter=_Muted()))
        if after.state is states.State.EXPIRED:
            ports.meter.alert(Alert.EXPIRED, queue=found.queue, type=found.type, job=found.job_id)
        return after

    return mends


def _knows_without_a_word(real: Callable[..., Any]) -> Callable[..., Any]:
    def known(message: Any, bell: Any, invocation: Any) -> Any:
        muted = replace(invocation.ports, meter=_Muted())
        return real(message, bell, Invocation(invocation.lane, muted, invocation.time_left))

    return known


def _but(guards: tuple[states.Guard, ...], *left_out: states.Guard) -> tuple[states.Guard, ...]:
    return tuple(guard for guard in guards if guard not in left_out)


S = states
_LAPSE_AT_ONCE = property(lambda seen: seen.now)

PLANTED: Mapping[str, Planted] = {
    "the relay's mark asks for no dispatch": Planted(frozenset({"dispatch"}), _row(S.MARK, guards=())),
    "a message whose job another holds is acknowledged": Planted(
        frozenset({"acknowledge"}), _acknowledged(Outcome.WAITING)
    ),
    "a message is acknowledged though the table did not answer": Planted(
        frozenset({"acknowledge"}), _acknowledged(Outcome.UNAVAILABLE)
    ),
    "a worker that lost its lease acknowledges": Planted(
        frozenset({"acknowledge"}),
        _acknowledged(Outcome.LEASE_LOST),
        Focus(kinds=("two", "reports"), faults=("freeze",)),
    ),
    "a message is acknowledged before its job is recorded": Planted(
        frozenset({"acknowledge"}), lambda stack: _instead(deliver, "execute", _completes_first(deliver.execute))(stack)
    ),
    "a worker that lost its lease may complete": Planted(
        frozenset({"fence"}),
        _row(S.COMPLETE, guards=()),
        Focus(kinds=("plain", "one"), lanes=(STANDARD,), faults=("freeze", "copy")),
    ),
    "an effect is recorded by a worker that lost its lease": Planted(
        frozenset({"fence"}), _row(S.FINISH_EFFECT, guards=()), Focus(kinds=("one", "two"), faults=("freeze",))
    ),
    "an effect may start though it is done": Planted(frozenset({"effect"}), _row(S.START_EFFECT, guards=S.MINE)),
    "an interrupted at-most-once effect is started again": Planted(
        frozenset({"at-most-once"}), _row(S.START_EFFECT_AT_MOST_ONCE, guards=S.START_EFFECT.guards)
    ),
    "a failed at-most-once effect is erased": Planted(
        frozenset({"at-most-once"}), _instead(EffectStore, "delete_record", _erases_always)
    ),
    "an at-most-once effect that was not done stays begun": Planted(
        frozenset({"explained"}), _instead(EffectStore, "delete_record", _erases_no_at_most_once)
    ),
    "a start is a worker's own by its run alone": Planted(
        frozenset({"begin"}),
        _both(
            _instead(EffectStore, "_refused", _own_by_its_run(EffectStore._refused)),
            _instead(effects.RunEffects, "_called", _called_though_closed),
        ),
        Focus(kinds=("one",), lanes=(STANDARD,), faults=("repeat", "freeze", "copy"), budget=8, old=0.0),
    ),
    "a worker begins what it has started after its lease's end": Planted(
        frozenset({"begin", "late"}),
        _instead(lease.Lease, "lasts", _whatever_the_time),
        Focus(kinds=("one", "two", "once-only"), faults=("repeat", "freeze")),
    ),
    "effects do not insist": Planted(frozenset({"insist"}), _instead(effects, "insist", _tries_once)),
    "an erase that was not answered hides why the effect failed": Planted(
        frozenset({"reason", "insist"}),
        _both(
            _instead(effects, "insist", _tries_once),
            _instead(EffectStore, "_delete_record", _erases_or_raises),
        ),
        Focus(kinds=("flaky-effect",), faults=("lost", "unheard")),
    ),
    "the relay marks what SQS did not take": Planted(
        frozenset({"outbox"}),
        _instead(SqsDoorbell, "ring", _sends_nothing_unsent(SqsDoorbell.ring)),
        Focus(faults=("lost", "unheard")),
    ),
    "a long wait keeps the dispatch": Planted(frozenset({"acknowledge"}), _row(S.RETRY_LATER, adds=())),
    "a continued job keeps the dispatch": Planted(
        frozenset({"acknowledge", "order"}), _row(S.CONTINUE, adds=(("attempts", -1),)), Focus(kinds=("continues",))
    ),
    "a lease is taken over the instant it ends": Planted(
        frozenset({"lapse", "alone"}),
        _both(
            _instead(S.Seen, "lapse_limit", _LAPSE_AT_ONCE),
            _instead(lease, "CLOCK_MARGIN", timedelta()),
        ),
        Focus(
            kinds=("reports", "one", "two"), lanes=(STANDARD,), faults=("kill", "freeze", "copy"), skew_ms=990, moves=0
        ),
    ),
    "a lease may be taken over while it lasts": Planted(
        frozenset({"lapse"}),
        _both(
            _row(S.RECLAIM, guards=_but(S.RECLAIM.guards, S.LAPSED[2])),
            _instead(finding, "lapsed", lambda job, now: True),
        ),
    ),
    "a job may start after its deadline": Planted(
        frozenset({"start"}), _row(S.LEASE, guards=_but(S.LEASE.guards, S.GO[1]))
    ),
    "a retry does not wait for its time": Planted(
        frozenset({"early"}),
        _row(S.LEASE, arms=(S.Arm(frozenset({S.State.QUEUED, S.State.RETRYING})),)),
        Focus(kinds=("flaky", "hopeless", "defers"), faults=("copy", "record-again")),
    ),
    "a requeued job forgets that its worker vanished": Planted(
        frozenset({"stalls", "suspect"}), _row(S.REQUEUE, adds=(("dispatch", 1),))
    ),
    "a reclaimed job forgets that its worker vanished": Planted(
        frozenset({"stalls", "suspect"}), _row(S.RECLAIM, adds=(("run", 1), ("attempts", 1)))
    ),
    "a suspect does not wait to be alone": Planted(
        frozenset({"suspect"}),
        _instead(Turns, "alone", lambda self, **_: True),
        Focus(kinds=("poison", "crashes-once", "reports"), lanes=(STANDARD,)),
    ),
    "a defer spends an attempt": Planted(frozenset({"budget"}), _row(S.DEFER, adds=())),
    "a retry passes over a cancel request": Planted(
        frozenset({"cancel"}), _row(S.RETRY, guards=_but(S.RETRY.guards, S.NOT_CANCELLED))
    ),
    "a replay keeps the cancel request": Planted(
        frozenset({"replay"}), _row(S.REPLAY, drops=tuple(one for one in S.REPLAY.drops if one != "cancel_request"))
    ),
    "an operator's cancel lands on a later dispatch": Planted(
        frozenset({"dispatch"}), _row(S.CANCEL, guards=()), Focus(kinds=("broken", "hopeless"), acts=6)
    ),
    "a replay lands on a later death": Planted(
        frozenset({"replay", "dispatch"}),
        _instead(delivery, "found_by_message", _replays_any_marked),
        Focus(kinds=("broken",), acts=8),
    ),
    "the sweeper drops the copies of dead jobs": Planted(
        frozenset({"dlq"}), _instead(sweep, "broken_by_message", _keeps_nothing)
    ),
    "the sweeper parks a job by an old message": Planted(
        frozenset({"explained", "dlq", "dispatch"}),
        _instead(sweep, "broken_by_message", _parks_by_any),
        Focus(kinds=("broken", "plain"), acts=4),
    ),
    "a FIFO group goes on past a job that failed": Planted(
        frozenset({"order"}),
        _instead(batch, "_run_group", _group_goes_on),
        Focus(lanes=(FIFO,), kinds=("hopeless", "one")),
    ),
    "a promoted job rings no doorbell, until the sweeper does": Planted(
        frozenset({"repairs", "ends"}), _row(S.PROMOTE, fixed=()), Focus(kinds=("patient", "defers"))
    ),
    "a job records its file without the version": Planted(
        frozenset({"result"}),
        _instead(RunEnd, "_complete", _forgets_the_version(RunEnd._complete)),
        Focus(kinds=("files",)),
    ),
    "an absent table hides a message no longer than a lease": Planted(
        frozenset({"moved"}),
        _instead(deliver, "unready", lambda receives: timedelta(seconds=33)),
        Focus(kinds=("plain", "one"), faults=("away",)),
    ),
    "a wait of no time takes none, and never leaves its message": Planted(
        frozenset({"fresh"}),
        _both(
            _instead(end, "leaves_its_message", _leaves_if_it_waits),
            _instead(end, "shortest_defer", lambda receives, runs: timedelta()),
        ),
        Focus(kinds=("restless",), lanes=(STANDARD,)),
    ),
    "a job that waited behind another has spent its receives": Planted(
        frozenset({"prompt"}),
        _instead(end, "shortest_defer", lambda receives, runs: timedelta(seconds=receives - 1)),
        Focus(kinds=("far", "restless"), lanes=(FIFO,), faults=("away",)),
    ),
    "a FIFO job stops once its message was received eighty times": Planted(
        frozenset({"explained"}),
        _instead(RunEnd, "_waits", _stops_at_eighty(RunEnd._waits)),
        Focus(kinds=("far", "flaky"), lanes=(FIFO,), faults=("away",)),
    ),
    "a message is hidden for the whole of a long wait": Planted(
        frozenset({"freed"}),
        _instead(invocation, "hidden", lambda wait, *_: wait),
        Focus(kinds=("far",), lanes=(FIFO,)),
    ),
    "a job is parked though the table may have been away": Planted(
        frozenset({"explained"}),
        _instead(repair, "_table_may_have_been_away", lambda found, now: False),
        Focus(kinds=("plain", "one"), faults=("throttle",), days=True, age=TEN_DAYS),
    ),
    "a job expires, and a person is told of it after the write": Planted(
        frozenset({"told"}), _instead(delivery, "mend", _tells_afterwards(mend.mend))
    ),
    "nobody is told of a job whose type no worker knows": Planted(
        frozenset({"told"}), _instead(deliver, "_known", _knows_without_a_word(deliver._known)), Focus(acts=0)
    ),
    "an expired job forgets what stood in its way": Planted(
        frozenset({"told"}), _instead(writes, "with_what_stood_in_its_way", lambda said, job: said)
    ),
    "a job whose type has moved is never rung on its new lane": Planted(
        frozenset({"lane", "explained", "ends", "budget"}),
        _instead(Queue, "serves", lambda self, declared, deadline: True),
        Focus(kinds=("plain", "one"), lanes=(STANDARD,), faults=("kill",), moves=1.0),
    ),
    "a job whose type has moved runs on a lane without the time for it": Planted(
        frozenset({"lane"}), _instead(deliver, "reroute", lambda *_: None), Focus(moves=1.0)
    ),
    "two versions send a job back and forth": Planted(
        frozenset({"lane", "ends"}),
        _row(S.REROUTE, guards=_but(S.REROUTE.guards, S.RESTED)),
        Focus(moves=1.0),
    ),
    "one tenant's ordering key holds up another's": Planted(
        frozenset({"groups"}),
        _instead(relay, "fifo_group", lambda job: job.ordering_key or job.job_id),
        Focus(lanes=(FIFO,)),
    ),
    "a payload's life is that of the last request for it": Planted(
        frozenset({"payload"}),
        _instead(MemoryJobStore, "put_payload", _put_whatever_stands_there),
        Focus(kinds=("large",), faults=("kill",)),
    ),
    "a key that lives again shows its former life's runs": Planted(
        frozenset({"history"}),
        _instead(memory, "own_runs", lambda job, runs: list(runs)),
        Focus(kinds=("flaky", "hopeless"), faults=("kill",), days=True),
    ),
    "a second submit overwrites the first": Planted(frozenset({"key", "ends"}), _row(S.SUBMIT, guards=())),
}


@contextmanager
def planted(name: str) -> Iterator[frozenset[str]]:
    """The code with this fault in it; yields the promises it may break."""
    with ExitStack() as stack:
        fault = PLANTED[name]
        fault.plant(stack)
        yield fault.breaks
