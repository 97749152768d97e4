"""The promises, one function each: what it yields is a promise that was broken, and by which job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from shared.domain.job import EFFECT_COMPLETED, Job
from shared.domain.retry import FailureClass
from shared.domain.states import DEFAULT_STALL_LIMIT, FINAL, State
from tests.crash.evidence import Evidence
from tests.crash.plan import Kind

Found = Iterator[tuple[str, str]]
"""Job id, and what was found."""


@dataclass(frozen=True, slots=True)
class Broken:
    """One broken promise."""

    promise: str
    job_id: str
    found: str


def check(evidence: Evidence) -> list[Broken]:
    """Every promise that was broken."""
    return [Broken(promise, *found) for promise, finds in PROMISES.items() for found in finds(evidence)]


def accepted_without_record(evidence: Evidence) -> Found:
    for answered in evidence.answered:
        if answered.accepted_at is not None and answered.planned.job_id not in evidence.records:
            yield answered.planned.job_id, "answered 202, and there is no record"
        if answered.refused:
            yield answered.planned.job_id, f"answered {answered.refused}"


def several_jobs_of_one_key(evidence: Evidence) -> Found:
    known = {answered.planned.job_id for answered in evidence.answered}
    for answered in evidence.answered:
        for alien in answered.job_ids - {answered.planned.job_id}:
            yield alien, f"answered under the key of {answered.planned.job_id}"
    for alien in evidence.records.keys() - known:
        yield alien, "a record that no key of ours names"


def not_at_an_end(evidence: Evidence) -> Found:
    for job in evidence.records.values():
        if job.state not in FINAL:
            yield job.job_id, f"still {job.state}"


def at_the_wrong_end(evidence: Evidence) -> Found:
    for job, kind in _ended(evidence):
        wanted = (job.state, job.error_code if kind.error_code else None) == (kind.ends, kind.error_code)
        unknown = unknown_outcome(job, kind) and evidence.vanished(job.job_id) > 0
        if not wanted and not stalled_with_cause(job, evidence) and not unknown:
            why = f"{job.error_class}/{job.error_code}: {job.error_message}"
            yield (
                job.job_id,
                f"a {job.type} that ended {job.state} ({why}), its runs cut short: {evidence.vanished(job.job_id)}",
            )


def effects_missing(evidence: Evidence) -> Found:
    for job, kind in _ended(evidence):
        for name in kind.effects if job.state is State.COMPLETED else ():
            effect = job.effects.get(name)
            calls = [call for call in evidence.ledger.calls if (call.job_id, call.effect) == (job.job_id, name)]
            if effect is None or effect.status != EFFECT_COMPLETED or not calls:
                yield job.job_id, f"completed, with effect {name!r} {effect and effect.status} and {len(calls)} calls"


def effects_after_their_record(evidence: Evidence) -> Found:
    for call in evidence.ledger.calls:
        job, run = evidence.records.get(call.job_id), evidence.ledger.run_of(call.mark)
        effect = None if job is None else job.effects.get(call.effect)
        if run is None:
            yield call.job_id, f"effect {call.effect!r} called by a run that never started"
        elif effect is not None and effect.status == EFFECT_COMPLETED and run > effect.run:
            yield call.job_id, f"effect {call.effect!r} called by run {run}, recorded by run {effect.run}"


def effects_twice_in_a_run(evidence: Evidence) -> Found:
    calls = Counter((call.job_id, call.effect, call.mark) for call in evidence.ledger.calls)
    for (job_id, effect, mark), times in calls.items():
        if times > 1:
            yield job_id, f"effect {effect!r} called {times} times by run {evidence.ledger.run_of(mark)}"


def effects_again_without_cause(evidence: Evidence) -> Found:
    """What AWS does to the record of an effect costs time, not the effect: that is insisted on."""
    by_effect: dict[tuple[str, str], set[str]] = {}
    for call in evidence.ledger.calls:
        by_effect.setdefault((call.job_id, call.effect), set()).add(call.mark)
    for (job_id, effect), marks in by_effect.items():
        last = max(evidence.ledger.run_of(mark) or 0 for mark in marks)
        for start in evidence.starts_of(job_id):
            unharmed = start.mark in evidence.ledger.ends and not evidence.hit(start)
            if start.mark in marks and start.run < last and unharmed:
                yield job_id, f"effect {effect!r} called again after run {start.run}, which nobody killed"


def at_most_once_effects(evidence: Evidence) -> Found:
    for job, kind in _ended(evidence):
        for name in kind.at_most_once:
            calls = sum((call.job_id, call.effect) == (job.job_id, name) for call in evidence.ledger.calls)
            effect = job.effects.get(name)
            if calls > 1:
                yield job.job_id, f"at-most-once effect {name!r} called {calls} times"
            open_end = effect is not None and effect.status != EFFECT_COMPLETED
            if open_end and not unknown_outcome(job, kind) and not stalled_with_cause(job, evidence):
                yield job.job_id, f"at-most-once effect {name!r} never said how it ended, and the job is {job.state}"


def poison_started_too_often(evidence: Evidence) -> Found:
    for job, kind in _ended(evidence):
        starts = len(evidence.starts_of(job.job_id))
        if kind.poison and (starts > 1 + DEFAULT_STALL_LIMIT or job.error_class != FailureClass.STALLED):
            yield job.job_id, f"killed its worker {starts} times and ended {job.state}/{job.error_class}"


def messages_of_final_jobs(evidence: Evidence) -> Found:
    for lying in evidence.lying:
        job = None if lying.bell is None else evidence.records.get(lying.bell.job_id)
        if lying.bell is None or job is None:
            yield "?", f"a message of no job in {lying.queue}"
            continue
        current = job.state is State.DEAD and lying.bell.dead_letter and lying.bell.dispatch == job.dispatch
        if lying.dead_letter and not current:
            yield (
                job.job_id,
                f"in the DLQ with dispatch {lying.bell.dispatch}, while its job is {job.state} at {job.dispatch}",
            )
        if not lying.dead_letter and job.state in FINAL and lying.visible_at < evidence.now - 5:
            yield job.job_id, f"a message of dispatch {lying.bell.dispatch} that nobody takes from {lying.queue}"


def dead_without_a_copy(evidence: Evidence) -> Found:
    copies = {lying.bell.job_id for lying in evidence.lying if lying.dead_letter and lying.bell is not None}
    for job in evidence.records.values():
        if job.state is State.DEAD and job.job_id not in copies:
            yield job.job_id, f"dead, outbox {job.outbox}, and its DLQ holds no copy"


def two_of_a_key_at_once(evidence: Evidence) -> Found:
    by_key: dict[str, list[tuple[float, float, str]]] = {}
    for start in evidence.ledger.starts:
        if start.key:
            end = evidence.ledger.ends.get(start.mark)
            over = end.at if end is not None else evidence.died_at(start) or evidence.now
            by_key.setdefault(start.key, []).append((start.at, over, start.job_id))
    for key, runs in by_key.items():
        for before, after in pairwise(sorted(runs)):
            if after[0] < before[1]:
                yield after[2], f"began {before[1] - after[0]:.2f} s before {before[2]} of key {key!r} was over"


def vanished_without_cause(evidence: Evidence) -> Found:
    for start in evidence.ledger.starts:
        if start.mark not in evidence.ledger.ends and evidence.died_at(start) is None:
            yield start.job_id, f"run {start.run} in process {start.pid}, which nobody killed, never ended"


PROMISES: dict[str, Callable[[Evidence], Found]] = {
    "an accepted job has its record": accepted_without_record,
    "one key, one job": several_jobs_of_one_key,
    "every job comes to an end": not_at_an_end,
    "every job comes to its own end": at_the_wrong_end,
    "a completed job has all its effects": effects_missing,
    "a recorded effect is never called again": effects_after_their_record,
    "one run calls an effect once": effects_twice_in_a_run,
    "an effect done by a run that nobody killed is done": effects_again_without_cause,
    "an at-most-once effect is called once, or a human hears of it": at_most_once_effects,
    "a job that kills its worker is stopped": poison_started_too_often,
    "no message outlives its job": messages_of_final_jobs,
    "a dead job shows in its DLQ": dead_without_a_copy,
    "one at a time for each ordering key": two_of_a_key_at_once,
    "a run ends with a word unless it is killed": vanished_without_cause,
}


def _ended(evidence: Evidence) -> Iterator[tuple[Job, Kind]]:
    """The finished jobs, with what was planned for them."""
    for answered in evidence.answered:
        job = evidence.records.get(answered.planned.job_id)
        if job is not None and job.state in FINAL:
            yield job, answered.planned.kind


def stalled_with_cause(job: Job, evidence: Evidence) -> bool:
    """Dead as stalled, and its worker did vanish more often in a row than the limit allows."""
    stalled = job.state is State.DEAD and job.error_class == FailureClass.STALLED
    return stalled and job.run - evidence.last_word(job.job_id) > DEFAULT_STALL_LIMIT


def unknown_outcome(job: Job, kind: Kind) -> bool:
    """An at-most-once effect began and never said how it ended, so its job waits for a human."""
    left = any(job.effects[n].status != EFFECT_COMPLETED for n in kind.at_most_once if n in job.effects)
    return left and job.state is State.DEAD and job.error_class == FailureClass.UNKNOWN_OUTCOME
