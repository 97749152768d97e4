"""What can happen in a world by itself, by name. Each returns False, and nothing happens, where it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

from tests.histories import acting, faults
from tests.histories.plan import JobPlan
from tests.histories.promises import OPERATOR
from tests.histories.world import Action, World

ANOTHER_DELAY = 600
LONGEST_WAIT = timedelta(minutes=20)
"""One step to the next thing that happens goes no further, or everything would come after the deadlines."""


def perform(world: World, action: Action) -> bool:
    """Let it happen; False, and nothing happens, where it cannot."""
    return VERBS[str(action[0])](world, *action[1:])


def _run(world: World, name: str, fault: str = "") -> bool:
    thread = world.threads.get(name)
    if thread is None or not thread.can_go(world.now) or (fault and not thread.faults):
        return False
    if fault:
        thread.process.struck.append(fault)
    world.tell(f"{name}: {thread.label}{f' ({fault})' if fault else ''}")
    world.go(thread, fault)
    return True


def _submit(world: World, letter: str) -> bool:
    plan: JobPlan | None = next((one for one in world.plan.jobs if one.letter == letter), None)
    return plan is not None and world.begin(f"client-{letter}", lambda p: acting.ask(world, p, plan), letter)


def _submit_otherwise(world: World, letter: str) -> bool:
    """Under a key that was used: the same payload for another time, which is another content."""
    plan = next((one for one in world.plan.jobs if one.letter == letter and one.key is not None), None)
    if plan is None or letter not in world.asked:
        return False
    other = replace(plan, delay_seconds=0 if plan.delay_seconds else ANOTHER_DELAY)
    return world.begin(f"client-{letter}", lambda p: acting.ask(world, p, other), letter)


def _work(world: World, name: str, *messages: str) -> bool:
    plan = next((one for one in world.plan.workers if one.name == name), None)
    if plan is None or world.busy(name):
        return False
    box = world.sqs.work[plan.lane]
    got = world.sqs.receive(box, messages, box.queue.visibility_timeout)
    if not got:
        return False
    return world.begin(name, lambda process: acting.work(world, process, plan, got), [one.name for one in got])


def work_on_all(world: World) -> None:
    """Each worker gets what is visible on its lane."""
    for worker in world.plan.workers:
        box = world.sqs.work[worker.lane]
        visible: dict[str, str] = {}
        for one in box.visible(world.now):
            visible.setdefault(one.message_id, one.name)
        if visible:
            _work(world, worker.name, *list(visible.values())[: box.queue.batch_size])


def ring_all(world: World) -> None:
    """The relay gets all that the stream has."""
    for shard in sorted({one.shard for one in world.stream.pending}):
        while world.stream.of(shard):
            if not (_relay(world, f"relay{shard}", 3) or _relay(world, f"relay{shard}-again", 3)):
                break


def _away(world: World, hours: int) -> bool:
    """The table answers nobody for so long; who meets it then is not stopped at each call."""
    until = world.now + timedelta(hours=hours)
    world.stepwise, world.away = False, True
    while world.now < until and world.promises.broken is None:
        world.settle()
        ring_all(world)
        work_on_all(world)
        world.forward(min([*world.next_times(), until]) - world.now)
    world.stepwise, world.away = True, False
    return True


def _relay(world: World, name: str, count: int) -> bool:
    shard = int(name[5])
    records = world.stream.of(shard)[:count]
    return bool(records) and world.begin(name, lambda process: acting.ring(world, process, records))


def _promote(world: World, name: str) -> bool:
    return world.begin(name, lambda process: acting.promote_due(world, process))


def _sweep(world: World, name: str) -> bool:
    return world.begin(name, lambda process: acting.sweep(world, process))


def _look(world: World, name: str, lane: str) -> bool:
    return world.begin(name, lambda process: acting.look(world, process, lane))


def _cancel(world: World, job: str) -> bool:
    return _act(world, "cancel", job)


def _replay(world: World, job: str) -> bool:
    return _act(world, "replay", job)


def _act(world: World, verb: str, job: str) -> bool:
    job_id = world.jobs_by_name.get(job)
    return job_id is not None and world.begin(OPERATOR, lambda process: acting.act(world, process, verb, job_id))


def _clock(world: World, ms: int) -> bool:
    world.forward(timedelta(milliseconds=ms))
    return True


def _until_next(world: World, extra_ms: int) -> bool:
    times = world.next_times()
    if not times:
        return False
    world.forward(min(min(times) - world.now, LONGEST_WAIT) + timedelta(milliseconds=extra_ms))
    return True


VERBS: Mapping[str, Callable[..., bool]] = {
    "run": _run,
    "submit": _submit,
    "submit-otherwise": _submit_otherwise,
    "work": _work,
    "relay": _relay,
    "promote": _promote,
    "sweep": _sweep,
    "look": _look,
    "cancel": _cancel,
    "replay": _replay,
    "clock": _clock,
    "until-next": _until_next,
    "away": _away,
    **faults.VERBS,
}
