"""How a history ends: no more faults, everyone takes turns, the clock goes on until nothing is left to do; then what
must be true of the whole.
"""

from __future__ import annotations

from datetime import timedelta

from shared.domain.doorbell import parse
from shared.domain.job import Job
from shared.domain.states import FINAL, State
from tests.histories.explanations import explain
from tests.histories.kinds import VERSION
from tests.histories.lives import record
from tests.histories.steps import perform, ring_all, work_on_all
from tests.histories.world import World

ROUNDS = 3000
"""A message close to its queue's last receive is hidden for an hour at a time, some 49 rounds; two restless jobs under
one ordering key come back 26 times each.
"""
LAST_LOOKS = 3
LONGEST_STEP = timedelta(hours=12)
SHORT_TICKS = 40
IDLE_STEP = timedelta(seconds=29)
LOOK_STEP = timedelta(minutes=6)


def end_fairly(world: World) -> None:
    """Until quiet. Notes a broken promise where that takes too long, or where the end is not right."""
    world.stepwise, world.deployed = False, True
    for letter in world.letters_left():
        perform(world, ("submit", letter))
    looks, idle = 0, 0
    for _ in range(ROUNDS):
        before = world.writes
        _round(world)
        if world.promises.broken is not None:
            return
        looks = looks + 1 if _quiet(world) else 0
        if looks > LAST_LOOKS:
            _check(world)
            return
        step, awaited = (LOOK_STEP, True) if looks else _step(world, idle)
        idle = 0 if awaited or world.writes != before else idle + 1
        world.forward(step)
    world.promises.fail("ends", f"not quiet after {ROUNDS} rounds: {_left(world)}")


def _left(world: World) -> str:
    jobs = [f"{world.name_of(job.job_id)} {record(job)}" for job in world.store.jobs()]
    messages = [
        f"{name} received {one.receives} times" for box in world.sqs.work.values() for name, one in box.messages.items()
    ]
    threads = [f"{one.name} at {one.label}" for one in world.threads.values()]
    return f"{jobs}, messages {messages}, stream {[one.name for one in world.stream.pending]}, threads {threads}"


def _round(world: World) -> None:
    world.settle()
    ring_all(world)
    work_on_all(world)
    perform(world, ("promote", "promoter0"))
    perform(world, ("sweep", "sweeper0"))
    for lane in world.plan.lanes:
        perform(world, ("look", "sweeper0", lane))


def _step(world: World, idle: int) -> tuple[timedelta, bool]:
    """To the next thing that happens by itself (True), or to the sweeper's next tick; where many of those found
    nothing to do, ever longer ones, because the sweeper backs off.
    """
    times = world.next_times()
    tick: timedelta = min(IDLE_STEP * 2 ** min(max(idle - SHORT_TICKS, 0), 10), LONGEST_STEP)
    next_thing = min(times) - world.now if times else LONGEST_STEP
    return min(next_thing, tick), next_thing <= tick


def _quiet(world: World) -> bool:
    jobs = world.store.jobs()
    return (
        all(job.state in FINAL and (job.outbox is None or job.state is State.COMPLETED) for job in jobs)
        and not world.stream.pending
        and not world.threads
        and not any(box.messages for box in world.sqs.work.values())
    )


def _check(world: World) -> None:
    struck = any(process.struck for process in world.every_process)
    newest = all(worker.lacks is None and worker.version == VERSION for worker in world.plan.workers)
    untroubled = not struck and newest and world.plan.most_receives is None and world.happened.isdisjoint(TROUBLE)
    for job in world.store.jobs():
        moved = any(job_id == job.job_id for job_id, _ in world.sqs.moved)
        explain(world.promises, job, moved, untroubled)
        _check_history(world, job)
    repairs = [name for name in REPAIRS if world.promises.rows[name]]
    if untroubled and repairs:
        world.promises.fail("repairs", f"{repairs}, though nothing had gone wrong")
    _check_dead_letters(world)
    _check_results(world)
    for letter, job_ids in world.accepted.items():
        for job_id in sorted(job_ids):
            if world.store.peek(job_id) is None and job_id not in world.forgotten:
                world.promises.fail("durable", f"{letter} was accepted and is gone")


def _check_history(world: World, job: Job) -> None:
    """A job's history tells of its own runs, and of none that an earlier job under the same key had."""
    life = world.promises.lives[job.job_id]
    own = {(run.number, run.holder) for run in life.runs.values()}
    foreign = [run for run in world.store.runs(job) if (run.run, run.holder) not in own]
    world.promises.hold("history", not foreign, lambda: f"{record(job)} shows {foreign} as its own")


def _check_dead_letters(world: World) -> None:
    """A marked copy at the dispatch of every dead job, and nothing else but orphans."""
    for job in world.store.jobs():
        name = f"{world.name_of(job.job_id)}.{job.dispatch}*"
        there = any(one.rstrip("'") == name for one in world.sqs.dead[job.queue].messages)
        if job.state is State.DEAD and not there and name not in world.expired_copies:
            world.promises.fail("dlq", f"the DLQ has no copy {name} of a dead job")
    for box in world.sqs.dead.values():
        for one in box.messages.values():
            bell = parse(one.body)
            found = None if bell is None else world.store.peek(bell.job_id)
            if bell is None or found is None:
                continue
            if not (found.state is State.DEAD and bell.dead_letter and bell.dispatch == found.dispatch):
                world.promises.fail("dlq", f"{one.name} is in the DLQ, its job: {record(found)}")


def _check_results(world: World) -> None:
    """A completed job's link shows the file that job wrote, whoever wrote under the same key since."""
    for job in world.store.jobs():
        if job.result is not None:
            file = job.result["file"]
            shown = world.files.read_version(file["key"], file.get("version"))
            if shown != job.job_id.encode():
                world.promises.fail("result", f"{world.name_of(job.job_id)} shows the file of {shown.decode()}")


REPAIRS = ("ring again", "redispatch", "requeue", "reclaim", "park", "park (lapsed)")
"""Moves that mend what is lost. Where nothing was, one of them hides a fault, or did work for nothing."""

TROUBLE = frozenset({"cancel", "replay", "redrive", "ttl", "dawdled", "fault"})
