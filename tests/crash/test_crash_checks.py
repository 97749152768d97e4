"""The crash test's checks find what they are there to find: one planted violation each, nothing in a sound story."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shared.adapters.expressions import Expression
from shared.domain.job import EFFECT_STARTED, Effect
from shared.domain.lease import REDELIVERY_MARGIN
from shared.domain.retry import FailureClass
from shared.domain.states import START_EFFECT, Seen, State
from tests.builders import NOW
from tests.crash.checks import PROMISES, check
from tests.crash.faults import SQUALL, USUAL, rules
from tests.crash.kills import Interrupted
from tests.crash.plan import KINDS, plan
from tests.crash.planted import Story, done
from tests.crash.takeover import handover, late, median_p95_max, takeovers

MARGIN = REDELIVERY_MARGIN.total_seconds()
STALLED = {"state": State.DEAD, "error_class": FailureClass.STALLED.value, "error_code": "worker-vanished"}


def broken(story: Story) -> set[str]:
    return {one.promise for one in check(story.evidence)}


def test_a_story_in_which_all_went_well_breaks_no_promise() -> None:
    story = Story()
    for kind in KINDS:
        if kind.poison:
            poison = story.accepted(kind.type, run=2)
            story.ran(poison, 1, pid=66, ends=False)
            story.ran(poison, 2, pid=67, ends=False)
        else:
            story.completed(kind.type)

    assert check(story.evidence) == []


def test_every_promise_has_a_violation_planted_here() -> None:
    planted = {promise for plant in PLANTED for promise in plant(Story())}

    assert planted == set(PROMISES)


def lost_record(story: Story) -> set[str]:
    del story.records[story.accepted()]
    return {"an accepted job has its record"}


def refused(story: Story) -> set[str]:
    story.completed()
    story.answered[0].refused = "422 this Idempotency-Key already names a job"
    return {"an accepted job has its record"}


def second_id_under_one_key(story: Story) -> set[str]:
    story.completed()
    story.answered[0].job_ids.add("job_OTHER")
    return {"one key, one job"}


def record_without_key(story: Story) -> set[str]:
    job = story.records[story.completed()]
    story.records["job_OTHER"] = replace(job, job_id="job_OTHER")
    return {"one key, one job"}


def unfinished(story: Story) -> set[str]:
    story.record(story.completed(), state=State.RETRYING)
    return {"every job comes to an end"}


def expired(story: Story) -> set[str]:
    story.record(story.completed(), state=State.EXPIRED)
    return {"every job comes to its own end"}


def broken_job_that_completed(story: Story) -> set[str]:
    job_id = story.completed("crash-broken")
    story.lying.clear()
    story.record(job_id, state=State.COMPLETED)
    return {"every job comes to its own end"}


def stalled_after_one_kill(story: Story) -> set[str]:
    job_id = story.accepted(run=2, **STALLED)
    story.in_dead_letters(job_id)
    story.ran(job_id, 1, pid=7, ends=False)
    story.killed(7)
    story.ran(job_id, 2, pid=8)
    return {"every job comes to its own end"}


def effect_not_recorded(story: Story) -> set[str]:
    story.record(story.completed(), effects={})
    return {"a completed job has all its effects"}


def effect_recorded_and_never_called(story: Story) -> set[str]:
    story.completed()
    story.ledger.calls.clear()
    return {"a completed job has all its effects"}


def effect_called_by_a_later_run(story: Story) -> set[str]:
    job_id = story.completed()
    story.ran(job_id, 2, effects=("charge",))
    story.record(job_id, run=2)
    return {"a recorded effect is never called again", "an effect done by a run that nobody killed is done"}


def effect_done_again(story: Story) -> set[str]:
    job_id = story.accepted(run=2)
    story.ran(job_id, 1, effects=("charge",))
    story.ran(job_id, 2, effects=("charge",))
    story.record(job_id, effects={"charge": done(2)})
    return {"an effect done by a run that nobody killed is done"}


def effect_called_by_nobody_known(story: Story) -> set[str]:
    story.called(story.completed(), "charge", "a mark of no start")
    return {"a recorded effect is never called again"}


def effect_called_twice_by_one_run(story: Story) -> set[str]:
    job_id = story.completed()
    story.called(job_id, "charge", story.ledger.starts[-1].mark)
    return {"one run calls an effect once"}


def paid_twice(story: Story) -> set[str]:
    job_id = story.accepted("crash-once", run=2)
    mark = story.ran(job_id, 1, pid=7, effects=("pay",))
    story.killed(7, Interrupted(job_id=job_id, run=1, mark=mark, lease_expires_at=30.0))
    story.ran(job_id, 2, effects=("pay",))
    story.record(job_id, effects={"pay": done(2)})
    return {"an at-most-once effect is called once, or a human hears of it"}


def nobody_hears_of_an_unknown_outcome(story: Story) -> set[str]:
    job_id = story.completed("crash-once")
    story.record(job_id, effects={"pay": Effect(status=EFFECT_STARTED, run=1, at=NOW)})
    return {
        "an at-most-once effect is called once, or a human hears of it",
        "a completed job has all its effects",
    }


def poison_three_times(story: Story) -> set[str]:
    poison = story.accepted("crash-poison", run=3)
    for run in (1, 2, 3):
        story.ran(poison, run, pid=60 + run, ends=False)
    return {"a job that kills its worker is stopped"}


def stale_dead_letter(story: Story) -> set[str]:
    story.in_dead_letters(story.completed())
    return {"no message outlives its job"}


def unmarked_dead_letter(story: Story) -> set[str]:
    story.in_dead_letters(story.completed("crash-broken"), marked=False)
    return {"no message outlives its job"}


def message_nobody_takes(story: Story) -> set[str]:
    story.in_its_lane(story.completed())
    return {"no message outlives its job"}


def dead_and_not_in_its_dlq(story: Story) -> set[str]:
    story.completed("crash-broken")
    story.lying.clear()
    return {"a dead job shows in its DLQ"}


def two_of_one_key(story: Story) -> set[str]:
    story.completed("crash-ordered")
    story.clock -= 1.5
    story.completed("crash-ordered")
    return {"one at a time for each ordering key"}


def run_without_an_end(story: Story) -> set[str]:
    job_id = story.completed()
    story.ran(job_id, 2, pid=9, ends=False)
    story.record(job_id, run=2)
    return {"a run ends with a word unless it is killed"}


PLANTED = (
    lost_record, refused, second_id_under_one_key, record_without_key, unfinished, expired,
    broken_job_that_completed, stalled_after_one_kill, effect_not_recorded, effect_recorded_and_never_called,
    effect_called_by_a_later_run, effect_done_again, effect_called_by_nobody_known, effect_called_twice_by_one_run,
    paid_twice, nobody_hears_of_an_unknown_outcome, poison_three_times, stale_dead_letter, unmarked_dead_letter,
    message_nobody_takes, dead_and_not_in_its_dlq, two_of_one_key, run_without_an_end,
)  # fmt: skip


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__.replace("_", " "))
def test_a_planted_violation_is_found_and_named(plant: object) -> None:
    story = Story()
    story.completed("crash-pair")
    expected = plant(story)  # type: ignore[operator]

    assert broken(story) == expected


def test_a_job_that_two_kills_in_a_row_hit_may_be_dead_as_stalled() -> None:
    story = Story()
    job_id = story.accepted(run=2, **STALLED)
    story.in_dead_letters(job_id)
    for run, pid in ((1, 7), (2, 8)):
        story.ran(job_id, run, pid=pid, ends=False)
        story.killed(pid)

    assert broken(story) == set()


def test_an_interrupted_at_most_once_effect_may_wait_for_a_human() -> None:
    story = Story()
    unknown = {"state": State.DEAD, "error_class": FailureClass.UNKNOWN_OUTCOME.value, "error_code": "unknown-outcome"}
    job_id = story.accepted("crash-once", run=2, **unknown)
    story.in_dead_letters(job_id)
    story.ran(job_id, 1, pid=7, effects=("pay",), ends=False)
    story.killed(7)
    story.ran(job_id, 2)
    story.record(job_id, effects={"pay": Effect(status=EFFECT_STARTED, run=1, at=NOW)})

    assert broken(story) == set()


def test_an_unknown_outcome_that_no_kill_explains_is_found() -> None:
    """One throttled answer to the record of a finished effect."""
    story = Story()
    unknown = {"state": State.DEAD, "error_class": FailureClass.UNKNOWN_OUTCOME.value, "error_code": "unknown-outcome"}
    job_id = story.accepted("crash-once", run=2, **unknown)
    story.in_dead_letters(job_id)
    story.ran(job_id, 1, effects=("pay",))
    story.ran(job_id, 2)
    story.record(job_id, effects={"pay": Effect(status=EFFECT_STARTED, run=1, at=NOW)})

    assert broken(story) == {"every job comes to its own end"}


def test_an_effect_may_be_done_again_after_a_kill_before_its_record() -> None:
    story = Story()
    job_id = story.accepted(run=2)
    mark = story.ran(job_id, 1, pid=7, effects=("charge",))
    story.killed(7, Interrupted(job_id=job_id, run=1, mark=mark, lease_expires_at=30.0))
    story.ran(job_id, 2, pid=8, effects=("charge",))
    story.record(job_id, effects={"charge": done(2)})

    assert broken(story) == set()


def test_a_message_of_a_finished_job_that_is_still_hidden_is_no_violation() -> None:
    story = Story()
    story.in_its_lane(story.completed(), visible_at=story.evidence.now + 60)

    assert broken(story) == set()


def test_the_wait_from_kill_to_start_is_told_apart_by_what_it_was_spent_on() -> None:
    story = Story()
    ids = [story.accepted(run=2), story.accepted(run=2)]
    marks = [story.ran(job_id, 1, pid=7, ends=False) for job_id in ids]
    hits = [
        Interrupted(job_id=i, run=1, mark=m, lease_expires_at=37.5 - MARGIN) for i, m in zip(ids, marks, strict=True)
    ]
    story.killed(7, *hits)
    killed_at = story.kills[0].at
    for job_id, leased_at in zip(ids, (38.5, 40.0), strict=True):
        story.clock = leased_at
        story.ran(job_id, 2, pid=8)

    first, second = takeovers(story.evidence)

    assert (first.first, second.first) == (True, False)
    assert first.total == pytest.approx(38.5 - killed_at)
    assert (first.lease, first.poll, first.behind) == pytest.approx((37.5 - killed_at, 1.0, 0.0))
    assert (second.behind, second.poll) == pytest.approx((1.0, 1.5))


@pytest.mark.parametrize(
    ("after", "platform", "named"), [(34.9, 0.0, 0), (38.0, 5.0, 0), (38.0, 2.0, 1), (60.0, 5.0, 1)]
)
def test_a_killed_process_that_is_replaced_too_late_is_named_unless_an_ordinary_message_waits_as_long(
    after: float, platform: float, named: int
) -> None:
    story = Story()
    job_id = story.accepted(run=2)
    mark = story.ran(job_id, 1, pid=6, ends=False)
    story.killed(6, Interrupted(job_id=job_id, run=1, mark=mark, lease_expires_at=story.clock + 30.0))
    story.clock = story.kills[0].at + after
    story.ran(job_id, 2, pid=8)
    assert len(late(takeovers(story.evidence), platform)) == named


def test_what_the_platform_takes_is_read_off_the_first_deliveries() -> None:
    story = Story()
    for wait in (0.5, 1.0, 4.0, 33.0):
        rung_at = datetime.fromtimestamp(story.clock, UTC)
        job_id = story.accepted(dispatch=1, published_at=rung_at)
        story.clock += wait
        story.ran(job_id, 1, pid=6)
    assert handover(story.evidence) == pytest.approx(4.0, abs=0.1)


def test_the_jobs_after_the_first_of_a_killed_process_are_shown_and_not_judged() -> None:
    """Each runs alone in its process, so with many the last waits for those before it."""
    story = Story()
    ids = [story.accepted(run=2), story.accepted(run=2)]
    marks = [story.ran(job_id, 1, pid=7, ends=False) for job_id in ids]
    story.killed(
        7, *(Interrupted(job_id=i, run=1, mark=m, lease_expires_at=31.0) for i, m in zip(ids, marks, strict=True))
    )
    killed_at = story.kills[0].at
    for job_id, after in zip(ids, (34.0, 70.0), strict=True):
        story.clock = killed_at + after
        story.ran(job_id, 2, pid=8)
    found = takeovers(story.evidence)
    assert max(one.total for one in found) == pytest.approx(70.0)
    assert late(found, platform=1.0) == []


def test_a_job_that_died_of_two_kills_not_in_a_row_is_found() -> None:
    """Killed in run 1, a failure by its own word in run 2 (stalls 0 again), killed in run 3: one crash in a row, yet
    `vanished` counts two, and dead as stalled passes for right.
    """
    story = Story()
    job_id = story.accepted(run=3)
    story.record(job_id, state=State.DEAD, error_class="stalled", error_code="worker-vanished", dead_at=NOW)
    story.in_dead_letters(job_id)
    story.ran(job_id, 1, pid=7, ends=False)
    story.killed(7)
    story.ran(job_id, 2, pid=8)
    story.ran(job_id, 3, pid=9, ends=False)
    story.killed(9)
    assert check(story.evidence), "wrongly dead, and every promise was kept"


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert median_p95_max([float(n) for n in range(1, 101)]) == (50.5, 95.0, 100.0)
    assert median_p95_max([3.0]) == (3.0, 3.0, 3.0)


@pytest.mark.parametrize("odds", [USUAL, SQUALL])
def test_each_fault_is_as_likely_as_it_is_said_to_be_though_rules_are_asked_in_turn(odds: dict[str, float]) -> None:
    written, left = [rule for rule in rules(odds) if rule["service"] == "sqs"], 1.0
    for rule, wanted in zip(written, odds.values(), strict=True):
        assert left * rule["probability"] == pytest.approx(wanted)
        left *= 1 - rule["probability"]


def test_writes_about_effects_are_spoiled_more_often_and_before_all_others() -> None:
    of_effects = [rule for rule in rules(USUAL) if "body" in rule]
    assert rules(USUAL)[: len(of_effects)] == of_effects
    expression = Expression()
    expression.condition(START_EFFECT, Seen(run=1, holder="h", effect="charge"))
    (named,) = {str(rule["body"]) for rule in of_effects}
    assert named == 'ExpressionAttributeNames."#effect_name"'
    assert expression.bound["ExpressionAttributeNames"]["#effect_name"] == "charge"


def test_the_same_seed_plans_the_same_jobs_and_every_kind_is_among_them() -> None:
    first, second = (plan("both", 40, random.Random("7 both"), poison=True) for _ in range(2))

    assert first == second
    assert len({one.job_id for one in first}) == 40
    assert set(Counter(one.kind.type for one in first)) == {kind.type for kind in KINDS}
