"""What must hold at the end of every history, whatever died in it."""

from __future__ import annotations

from itertools import pairwise

from shared.domain.job import EFFECT_COMPLETED, EFFECT_STARTED, Job
from shared.domain.outcome import Alert
from shared.domain.retry import FailureClass
from shared.domain.states import TABLE, State
from tests.builders import NOW
from tests.chaos.cloud import Cloud

MOVES = {(state, row.target or state) for row in TABLE for state in row.sources}
BORN = {row.target for row in TABLE if not row.arms}


def check(cloud: Cloud) -> None:
    """Raises AssertionError with the promise that broke."""
    assert len(cloud.jobs) == len(cloud.accepted) == len(set(cloud.accepted)), "one record per accepted job"
    for job in cloud.jobs:
        _ended_as_it_may(job, cloud)
        _effects_once(job, cloud)
        _moved_along_the_table(job, cloud)
        copies = [message for message in cloud.dlq if message.job_id == job.job_id]
        true = [copy for copy in copies if copy.bell and copy.bell.dead_letter and copy.bell.dispatch == job.dispatch]
        assert copies == true, f"the DLQ holds what is not true: {copies}"
        assert bool(true) == (job.state is State.DEAD), f"{len(true)} copies of a {job.state} job"
    assert not cloud.provider.strays, f"begun by a run that had lost its job: {cloud.provider.strays}"
    assert not cloud.queue, "no message lives on for a final job"
    took = cloud.clock.now() - NOW
    assert cloud.kind.within is None or took <= cloud.kind.within, f"ended after {took}"


def _ended_as_it_may(job: Job, cloud: Cloud) -> None:
    stalled = cloud.worker_deaths >= 2 and job.error_class == FailureClass.STALLED
    assert job.state in cloud.kind.ends or (job.state is State.DEAD and stalled), job
    if job.state is State.DEAD:
        assert stalled or job.error_class in cloud.kind.dead_as, job
    told = {alert for alert, job_id in cloud.world.meter.alerts if job_id == job.job_id}
    assert told >= cloud.kind.tells, f"nobody heard of {set(cloud.kind.tells) - told}"
    assert job.state is not State.EXPIRED or Alert.EXPIRED in told, "it ended outside the DLQ and nobody heard of it"
    assert job.attempts <= job.max_attempts
    assert job.stalls <= 1
    assert job.expires_at is not None, "every record ends some day"


def _effects_once(job: Job, cloud: Cloud) -> None:
    for name, effect in job.effects.items():
        runs = cloud.provider.runs(job.job_id, name)
        assert all(later > earlier for earlier, later in pairwise(runs)), f"{name} twice in one run: {runs}"
        if effect.status == EFFECT_COMPLETED:
            assert runs, f"{name} is on record and was never done"
            assert runs[-1] == effect.run, f"{name} done again after run {effect.run} had recorded it: {runs}"
        if effect.status == EFFECT_STARTED:
            assert job.state is not State.COMPLETED, f"completed without {name}"
    bank = cloud.provider.runs(job.job_id, "notify-bank")
    assert len(bank) <= 1, f"an at-most-once effect was begun in runs {bank}"
    done = {name for job_id, name, _ in cloud.provider.calls if job_id == job.job_id}
    if job.state is State.COMPLETED:
        assert done == set(job.effects), "an effect was done and left no record"


def _moved_along_the_table(job: Job, cloud: Cloud) -> None:
    images = [image for image in cloud.store.images if image.job_id == job.job_id]
    assert images[0].state in BORN
    for before, after in pairwise(images):
        assert (before.state, after.state) in MOVES, f"{before.state} -> {after.state} is no move"
        assert after.run - before.run in (0, 1)
        assert after.dispatch - before.dispatch in (0, 1)
        for name, effect in before.effects.items():
            if effect.status == EFFECT_COMPLETED:
                assert after.effects.get(name) == effect, f"an effect on record was done again: {name}"
        if after.state is State.EXPIRED:
            assert (before.reason or "") in str(after.reason), "what stood in its way is not told"
        assert after.holder == before.holder or after.run == before.run + 1, "a new holder without a new run"
