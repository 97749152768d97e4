"""The table itself against the table of the design, written out by hand."""

from __future__ import annotations

import pytest

from shared.domain.moves import allowed
from shared.domain.states import CLOCK_MARGIN, FINAL, MARK, TABLE, Seen, State, Transition
from tests.builders import NOW
from tests.moves import broken, record_for, seen_for

DESIGN = """
submit                       : -                                            -> queued
submit (scheduled)           : -                                            -> scheduled
promote                      : scheduled retrying                           -> queued
reschedule                   : scheduled queued retrying                    -> scheduled
ring again                   : queued dead                                  -> same
redispatch                   : retrying                                     -> queued
requeue                      : running                                      -> queued
lease                        : queued retrying                              -> running
reroute                      : queued retrying                              -> queued
reclaim                      : running                                      -> running
renew                        : running                                      -> running
complete                     : running                                      -> completed
retry                        : running                                      -> retrying
retry (long wait)            : running                                      -> retrying
defer                        : running                                      -> retrying
defer (long wait)            : running                                      -> retrying
defer (unleased)             : queued retrying                              -> retrying
defer (unleased, long wait)  : queued retrying                              -> retrying
continue                     : running                                      -> queued
dead-letter                  : running                                      -> dead
dead-letter (lapsed)         : running                                      -> dead
park                         : queued retrying                              -> dead
park (lapsed)                : running                                      -> dead
expire                       : scheduled queued retrying                    -> expired
expire (lapsed)              : running                                      -> expired
request-cancel               : running                                      -> same
request-cancel (own)         : running                                      -> same
cancel                       : scheduled queued retrying dead               -> cancelled
cancel (running)             : running                                      -> cancelled
cancel (lapsed)              : running                                      -> cancelled
replay                       : dead expired cancelled                       -> queued
replay (redriven message)    : dead                                         -> queued
start effect                 : running                                      -> same
start effect (at most once)  : running                                      -> same
finish effect                : running                                      -> same
erase effect                 : running                                      -> same
mark                         : scheduled queued running retrying completed dead cancelled expired -> same
"""

CASES = [(move, arm, state) for move in TABLE for arm in move.arms for state in sorted(arm.states)]


def _name(value: object) -> str:
    return value.name if isinstance(value, Transition) else str(value) if isinstance(value, State) else ""


def test_the_table_is_the_designs_table() -> None:
    written = {}
    for line in DESIGN.strip().splitlines():
        name, _, rest = line.partition(":")
        sources, _, target = rest.partition("->")
        written[name.strip()] = ({s for s in sources.split() if s != "-"}, target.strip())
    built = {m.name: ({str(s) for s in m.sources}, str(m.target) if m.target else "same") for m in TABLE}
    assert built == written


@pytest.mark.parametrize(("move", "arm", "state"), CASES, ids=_name)
def test_a_move_is_allowed_where_the_table_says(move, arm, state) -> None:
    job = record_for(move, arm, state)
    assert allowed(job, move, seen_for(job))


@pytest.mark.parametrize("move", [m for m in TABLE if m.arms], ids=_name)
def test_a_move_is_refused_from_every_other_state(move) -> None:
    for state in set(State) - move.sources:
        job = record_for(move, move.arms[0], state)
        assert not allowed(job, move, seen_for(job)), state


@pytest.mark.parametrize(("move", "arm", "state"), CASES, ids=_name)
def test_each_broken_condition_alone_refuses_the_move(move, arm, state) -> None:
    job = record_for(move, arm, state)
    for guard in (*move.guards, *arm.guards):
        for other in broken(guard, job):
            assert not allowed(other, move, seen_for(job)), guard


@pytest.mark.parametrize("move", [m for m in TABLE if "lapse" in m.name or m.name in ("requeue", "reclaim")], ids=_name)
def test_a_lease_is_taken_over_only_after_the_clock_margin(move) -> None:
    job = record_for(move, move.arms[0], State.RUNNING)
    assert job.lease_expires_at is not None
    seen = seen_for(job)
    fields = {name: getattr(seen, name) for name in seen.__slots__}
    at_margin = Seen(**fields | {"now": job.lease_expires_at + CLOCK_MARGIN})
    before = Seen(**fields | {"now": job.lease_expires_at + CLOCK_MARGIN - (NOW - NOW).resolution})
    expired_too = "expire" in move.name
    assert allowed(job, move, at_margin) or expired_too  # its deadline is NOW: tested with the clock at NOW above
    assert not allowed(job, move, before)


def test_completed_never_leaves() -> None:
    assert [m.name for m in TABLE if State.COMPLETED in m.sources] == [MARK.name]
    assert MARK.target is None


def test_no_move_to_a_final_state_leaves_the_job_in_an_index_of_work() -> None:
    for move in (m for m in TABLE if m.target in FINAL):
        assert {"open_key", "due_key", "next_attempt_at", "lease_expires_at"} <= set(move.drops), move.name
        assert "expires_at" in move.sets, move.name


def test_every_write_after_which_the_message_is_not_needed_makes_it_stale_or_ends_the_job() -> None:
    """The one rule for messages: these moves acknowledge, so they must bump dispatch or be final."""
    acknowledging = {
        "retry (long wait)", "defer (long wait)", "defer (unleased, long wait)", "continue", "reschedule", "promote",
        "dead-letter", "dead-letter (lapsed)", "park", "park (lapsed)", "requeue", "redispatch", "reroute", "replay",
        "replay (redriven message)",
    }  # fmt: skip
    for move in TABLE:
        bumps = ("dispatch", 1) in move.adds
        assert bumps == (move.name in acknowledging), move.name


def test_ringing_again_keeps_the_dispatch_so_that_a_slow_message_stays_current() -> None:
    (ring_again,) = [m for m in TABLE if m.name == "ring again"]
    assert ring_again.adds == ()


def test_a_change_the_move_does_not_know_is_refused_by_name() -> None:
    (complete,) = [m for m in TABLE if m.name == "complete"]
    with pytest.raises(ValueError, match=r"complete does not write \['state'\]"):
        complete.check_changes({"state": "dead", "completed_at": NOW, "expires_at": NOW})
    with pytest.raises(ValueError, match=r"complete must be given \['completed_at', 'expires_at'\]"):
        complete.check_changes({})
