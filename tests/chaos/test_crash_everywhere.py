"""Every process of a job's way, killed before and after every call it makes, one kill a history."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shared import ports
from shared.adapters.effects import EffectStore
from shared.adapters.memory import MemoryJobStore
from shared.domain import moves, writes
from shared.domain.outcome import Outcome
from shared.domain.repair import PARKED_BY_SQS, Broken
from shared.domain.states import REROUTE, RESTED, EffectFree, State
from shared.domain.waits import RECEIVE_LIMIT
from shared.errors import PayloadMissing
from shared.operations import mend
from shared.operations.run.end import RunEnd
from tests.chaos.cloud import Cloud
from tests.chaos.kinds import KINDS
from tests.chaos.process import CALLERS, HIDES_FOR_OTHERS, PORTS, ROOT, Strike
from tests.chaos.promises import check

KILLED_NOWHERE = {
    "JobStore": {"runs"},  # only operators' views read it
    "Effects": {"once"},  # its calls are the store's, struck where its adapter makes them
    "Meter": {"emit"},
    "Counters": {"take", "standing", "count"},  # no job depends on a quota's counts
    "Shares": {"even_at", "charge"},  # nor on an account of worker time: without it nobody waits
    "Links": {"link"},
    "Clock": {"now"},
    "Log": {"event"},
}
"""Methods of ports whose call changes nothing and reads nothing that a job depends on, or that calls others."""

NEVER_CALLED = {"_get_record"}
"""Their calls stand in the code and never come: Powertools reads an effect back only where a refused start does not
bring the record it met, and ours always does.
"""


def history(kind: str, strike: Strike) -> Cloud:
    """One history of this kind from submit to its end."""
    cloud = Cloud(KINDS[kind], strike)
    cloud.kind.begin(cloud)
    cloud.go_on()
    return cloud


@pytest.mark.parametrize("kind", KINDS)
def test_wherever_a_process_dies_every_accepted_job_ends_as_it_may(kind: str) -> None:
    undisturbed = Strike()
    check(history(kind, undisturbed))
    calls = undisturbed.calls
    for number in range(1, len(calls) + 1):
        for before in (True, False):
            strike = Strike(at_call=number, before=before)
            try:
                check(history(kind, strike))
            except AssertionError as e:
                when = "before" if before else "after"
                raise AssertionError(f"killed {when} call {number} ({strike.calls[number - 1]}): {e}") from e
            assert strike.came, "the kill never came"


def test_no_operation_calls_a_port_at_a_place_where_no_crash_was_tried(figure: Callable[[str], None]) -> None:
    """A call that is new in the code fails here until a history of KINDS comes by it."""
    struck: set[str] = set()
    points = 0
    for kind in KINDS:
        undisturbed = Strike()
        history(kind, undisturbed)
        struck |= {call.site for call in undisturbed.calls}
        points += 2 * len(undisturbed.calls)
    sites = {f"{path}:{line}": where for path, line, where in _call_sites()}
    lines = {f"{path}:{line}" for path, first, where in _call_sites() for line in where}
    assert struck - {"the test's own"} <= lines, "a call the search below does not see"
    missed = [site for site, where in sites.items() if not {f"{site.rpartition(':')[0]}:{n}" for n in where} & struck]
    assert not missed, f"no crash before and after the calls at {missed}"
    figure(f"{points} crash points in {len(KINDS)} kinds of history, at {len(sites)} places in the code")


def test_every_method_of_every_port_is_struck_or_said_to_need_no_crash() -> None:
    protocols = {
        "JobStore": "store", "Doorbell": "doorbell", "Mailbox": "mailbox", "DeadLetters": "dead_letters",
        "Meter": "meter",
    }  # fmt: skip
    for name, protocol in vars(ports).items():
        if not getattr(protocol, "_is_protocol", False) or protocol.__module__ != ports.__name__:
            continue
        methods = {method for method in vars(protocol) if not method.startswith("_")}
        struck = set(PORTS[protocols[name]]) if name in protocols else set()
        assert methods - struck == KILLED_NOWHERE.get(name, set()), name


def _call_sites() -> Iterator[tuple[str, int, range]]:
    """(path, line, the lines of the call) of every call to a method of a port, by name, in the system's own code."""
    methods = {method for names in PORTS.values() for method in names} | {"submit_write"}
    for folder in CALLERS:
        place = ROOT / folder
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            tree = ast.parse(path.read_text())
            never = {
                id(node)
                for function in ast.walk(tree)
                if isinstance(function, ast.FunctionDef) and function.name in {*NEVER_CALLED, HIDES_FOR_OTHERS}
                for node in ast.walk(function)
            }
            for node in ast.walk(tree):
                if id(node) in never or not isinstance(node, ast.Call):
                    continue
                if _calls_a_port(node.func, methods):
                    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                    yield str(path.relative_to(ROOT)), node.lineno, lines


def _calls_a_port(called: ast.expr, methods: set[str]) -> bool:
    if not isinstance(called, ast.Attribute):
        return False
    return called.attr == HIDES_FOR_OTHERS or (called.attr in methods and _is_port(called.value))


def _is_port(value: ast.expr) -> bool:
    name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
    return name.lstrip("_") in PORTS


def test_the_search_for_calls_sees_them() -> None:
    found = {Path(path).name for path, _, _ in _call_sites()}
    verbs = {"submit.py", "relay.py", "promote.py", "sweep.py", "redrive.py", "mend.py"}
    worker = {"delivery.py", "held.py", "end.py", "execute.py", "invocation.py", "reroute.py"}
    assert verbs | worker | {"effects.py"} <= found


def _first_broken_promise(kind: str) -> str:
    calls = Strike()
    history(kind, calls)
    for number in range(1, len(calls.calls) + 1):
        try:
            check(history(kind, Strike(at_call=number)))
        except AssertionError as e:
            return str(e)
    return ""


def test_an_effect_that_is_not_replayed_from_its_record_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.domain.moves.holds", _without(moves.holds, EffectFree))
    assert "an effect on record was done again" in _first_broken_promise("one effect")


def test_a_person_who_is_told_of_a_job_only_after_its_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = mend.mend

    def tells_afterwards(found: Any, write: Any, ports: Any) -> Any:
        later: list[dict[str, Any]] = []
        meter = SimpleNamespace(alert=lambda alert, **about: later.append({"alert": alert, **about}))
        after = plain(found, write, replace(ports, meter=meter))
        for one in later:
            ports.meter.alert(one.pop("alert"), **one)
        return after

    monkeypatch.setattr("shared.operations.run.delivery.mend", tells_afterwards)
    assert "nobody heard of" in _first_broken_promise("expired")


def test_a_worker_that_acknowledges_before_it_records_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweeper brings such a job back, after minutes; a dead one's copy it cannot tell from a true one."""
    plain = RunEnd._die

    def deletes_first(self: RunEnd, *args: Any) -> Outcome:
        self.held.ports.mailbox.acknowledge([self.held.message])
        return plain(self, *args)

    monkeypatch.setattr(RunEnd, "_die", deletes_first)
    monkeypatch.setattr("shared.operations.sweep.broken", lambda *a, **k: None)
    assert "not ended after" in _first_broken_promise("dead-letter")


def test_a_crash_loop_that_goes_on_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.operations.run.delivery.DEFAULT_STALL_LIMIT", 3)
    with pytest.raises(AssertionError):
        check(history("poison", Strike()))


WAITS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "a message hidden no longer than a lease, however long the table is away": (
        "table away",
        {"run.deliver.unready": lambda receives: timedelta(seconds=33), "run.invocation.hidden": lambda wait, *_: wait},
    ),
    "a record that cannot be read met again every half minute": (
        "record unreadable for hours",
        {"run.deliver.unready": lambda receives: timedelta(seconds=33)},
    ),
    "a wait of no time that never leaves its message, and ends at once": (
        "not now, nearly at once",
        {
            "run.end.leaves_its_message": lambda wait, receives, *_: receives > RECEIVE_LIMIT and wait > timedelta(),
            "run.end.shortest_defer": lambda *_: timedelta(),
            "run.invocation.hidden": lambda wait, *_: wait,
        },
    ),
    "a FIFO message that comes back at once with few receives left": (
        "not now, nearly at once, on a FIFO lane",
        {"run.invocation.hidden": lambda wait, *_: wait, "run.end.shortest_defer": lambda *_: timedelta()},
    ),
    "a message hidden for the whole of a long wait": (
        "cancel of a waiting head",
        {"run.invocation.hidden": lambda wait, *_: wait},
    ),
    "a job parked though the table may have been away": (
        "moved to the DLQ after days",
        {"sweep.broken_by_message": lambda found, bell, now: Broken(PARKED_BY_SQS, writes.park(found, now))},
    ),
}
"""The rules that waits replaced, with the kind of history that each breaks even where nothing dies."""


@pytest.mark.parametrize("name", WAITS)
def test_a_rule_of_waits_that_is_taken_back_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, instead = WAITS[name]
    check(history(kind, Strike()))
    for place, value in instead.items():
        monkeypatch.setattr(f"shared.operations.{place}", value)
    with pytest.raises(AssertionError):
        check(history(kind, Strike()))


def test_a_payload_whose_life_a_refused_request_shortens_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def put(self: MemoryJobStore, job_id: str, ref: bytes, payload: str, expires_at: datetime) -> None:
        self._payloads[job_id, ref] = payload, expires_at

    monkeypatch.setattr(MemoryJobStore, "put_payload", put)
    with pytest.raises(PayloadMissing):
        check(history("promised for next month, its key refused", Strike()))


def test_a_native_redrive_that_does_not_renew_the_payload_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.operations.run.delivery.keep_payload", lambda *_: True)
    with pytest.raises(PayloadMissing):
        check(history("native redrive, replayed late", Strike()))


def test_a_tenants_key_that_holds_up_another_tenants_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.operations.relay.fifo_group", lambda job: job.ordering_key or job.job_id)
    with pytest.raises(AssertionError, match="not ended after"):
        check(history("two tenants of one key", Strike()))


def test_a_job_whose_type_moved_and_that_nobody_rings_on_its_new_lane_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.operations.run.deliver.reroute", lambda *_: None)
    monkeypatch.setattr("shared.queues.Queue.serves", lambda *_: True)
    with pytest.raises(AssertionError, match="not ended after"):
        check(history("type moved to another lane", Strike()))


def test_a_job_that_two_versions_send_back_and_forth_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    restless = replace(REROUTE, guards=tuple(guard for guard in REROUTE.guards if guard is not RESTED))
    monkeypatch.setattr("shared.domain.writes.REROUTE", restless)
    with pytest.raises(AssertionError, match="not ended after"):
        check(history("each version on the other's lane", Strike()))


def test_a_stale_worker_that_begins_an_effect_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a start for its own by the number of its run, whoever has the record by then."""
    plain = EffectStore._refused

    def refused(self: EffectStore, refusal: Any, data_record: Any) -> None:
        effect = refusal.found.effects.get(self._guarded.name)
        if effect is None or effect.run != self._guarded.lease.run:
            plain(self, refusal, data_record)

    monkeypatch.setattr(EffectStore, "_refused", refused)
    with pytest.raises(AssertionError):
        check(history("effect start repeated, the job taken over", Strike()))


UNANSWERED = ("effect answers lost", "effect answers lost, at most once", "effect writes throttled")


@pytest.mark.parametrize("kind", UNANSWERED)
def test_writes_of_an_effect_that_were_not_answered_cost_no_attempt_and_repeat_nothing(kind: str) -> None:
    _costs_nothing(history(kind, Strike()))


def _costs_nothing(cloud: Cloud) -> None:
    (job,) = cloud.jobs
    assert (job.state, job.attempts) == (State.COMPLETED, 1)
    assert len(cloud.provider.calls) == len(job.effects)


@pytest.mark.parametrize("kind", UNANSWERED)
def test_an_effect_that_does_not_insist_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.operations.run.effects.insist", lambda call, *_: call())
    with pytest.raises(AssertionError):
        _costs_nothing(history(kind, Strike()))


def test_an_at_most_once_effect_that_stays_begun_though_it_was_not_done_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(EffectStore, "delete_record", lambda *_: None)
    with pytest.raises(AssertionError):
        check(history("at-most-once effect not done", Strike()))


def _without(holds: Callable[..., bool], kind: type) -> Callable[..., bool]:
    return lambda guard, job, seen: True if isinstance(guard, kind) else holds(guard, job, seen)
