"""What may happen next, and how likely it is to be chosen."""

from __future__ import annotations

from collections.abc import Iterator

from shared.domain.states import FINAL, State
from tests.histories.plan import Dice
from tests.histories.promises import OPERATOR
from tests.histories.sqs import Standing
from tests.histories.threads import REPEATED
from tests.histories.world import Action, World

THROTTLED = (1, 2, 6, 25, 85, 450, 700)
"""Receives without an invocation: some, past a DLQ after five, past waits.RECEIVE_LIMIT, past what is `plenty` on a
standard and on a FIFO lane.
"""

AWAY_HOURS = (1, 1, 8, 20, 76)

FROZEN_SECONDS = (2, 15, 26, 28, 40, 90, 400)
DAY_MS = 24 * 3600 * 1000

Weighted = tuple[float, Action]


def options(world: World, dice: Dice, faults_left: int, acts_left: int) -> list[Weighted]:
    """Each thing that can happen now, with its weight. Details are drawn here, so that an action says all of itself."""
    found: list[Weighted] = [(9.0, ("run", name)) for name, t in world.threads.items() if t.can_go(world.now)]
    found += _thaws(world)
    found += _starts(world, dice)
    found += [(weight * world.plan.clock_weight, action) for weight, action in _clock(world, dice)]
    if acts_left:
        found += _acts(world, dice)
    if faults_left:
        faults = [*_process_faults(world, dice), *_other_faults(world, dice)]
        found += [(weight * world.plan.fault_weight, action) for weight, action in faults]
    return found


def is_fault(action: Action) -> bool:
    """It spends the budget of faults."""
    return (action[0] == "run" and len(action) > 2) or action[0] in _FAULTS


_FAULTS = frozenset({"kill", "freeze", "record-lost", "record-again", "copy", "purge", "throttle", "away"})
ACTS = frozenset({"cancel", "replay", "redrive"})


def _starts(world: World, dice: Dice) -> Iterator[Weighted]:
    left = list(world.letters_left())
    for letter in left[:1]:
        yield 5.0, ("submit", letter)
    for job in world.plan.jobs:
        if job.key is not None and job.letter not in left:
            gone = not any(world.store.get(job_id) for job_id in world.accepted.get(job.letter, ()))
            yield 2.0 if gone else 0.1, ("submit", job.letter)
            yield 0.1, ("submit-otherwise", job.letter)
    for worker in world.plan.workers:
        if not world.busy(worker.name) and (names := _batch(world, worker.lane, dice)):
            yield 3.0, ("work", worker.name, *names)
    for shard in {one.shard for one in world.stream.pending}:
        slot = _relay_slot(world, shard)
        if slot is not None:
            yield 4.0, ("relay", slot, dice.pick((1, 1, 2, 3)))
    waiting = any(job.due_key is not None for job in world.store.jobs())
    yield 1.5 if waiting else 0.02, ("promote", f"promoter{dice.below(2)}")
    yield 0.7, ("sweep", f"sweeper{dice.below(2)}")
    for lane, box in world.sqs.dead.items():
        if box.messages:
            yield 0.8, ("look", f"sweeper{dice.below(2)}", lane)


def _thaws(world: World) -> Iterator[Weighted]:
    at_work = [thread.process for thread in world.threads.values() if thread.can_go(world.now)]
    for process in {thread.process: None for thread in world.threads.values()}:
        frozen = process.frozen_until or any(thread.frozen_until for thread in process.threads)
        if frozen and any(other is not process and other.name[:4] == process.name[:4] for other in at_work):
            yield 3.0 if _repeats(world, process.name) else 0.5, ("thaw", process.name)


def _repeats(world: World, name: str) -> bool:
    """A write of this process has landed and is about to be made once more: what happens in between is what counts."""
    return any(REPEATED in thread.label for thread in world.threads.values() if thread.process.name == name)


def _relay_slot(world: World, shard: int) -> str | None:
    """One relay per shard; a second one where the first is frozen, and its event source gave it up."""
    for slot in (f"relay{shard}", f"relay{shard}-again"):
        if not world.busy(slot):
            return slot
        frozen = world.processes[slot].frozen_until
        if frozen is None or frozen <= world.now:
            return None
    return None


def _batch(world: World, lane: str, dice: Dice) -> list[str]:
    """A few visible messages; of a FIFO group its first ones."""
    box = world.sqs.work[lane]
    visible = box.visible(world.now)
    if not visible:
        return []
    if box.queue.fifo:
        return [one.name for one in visible[: 1 + dice.below(3)]]
    chosen: dict[str, Standing] = {}
    for _ in range(1 + dice.below(3)):
        one = dice.pick(visible)
        if all(one.message_id != other.message_id for other in chosen.values()):
            chosen[one.name] = one
    return list(chosen)


def _clock(world: World, dice: Dice) -> Iterator[Weighted]:
    working = bool(world.threads)
    yield 0.3, ("clock", 50 + dice.below(3000))
    yield 0.4 if working else 3.0, ("until-next", dice.pick((0, 0, 1, 500, 3000, 5000)))
    yield 0.1 if working else 0.4, ("clock", dice.pick((30_000, 61_000, 125_000, 310_000)))
    if world.plan.days and not working:
        yield 0.3, ("clock", dice.pick((1, 4, 5, 15, 31, 91)) * DAY_MS)
        for name, job_id in world.jobs_by_name.items():
            found = world.store.get(job_id)
            if found is not None and found.expires_at is not None and found.expires_at < world.now:
                yield 2.0, ("ttl", name)


def _acts(world: World, dice: Dice) -> Iterator[Weighted]:
    for name, job_id in world.jobs_by_name.items():
        found = world.store.get(job_id)
        if found is None or world.busy(OPERATOR):
            continue
        if found.state not in FINAL or found.state is State.DEAD:
            yield 0.5, ("cancel", name)
        if found.state in (State.DEAD, State.EXPIRED, State.CANCELLED):
            yield 2.0 if found.state is State.DEAD else 0.8, ("replay", name)
        elif found.state is not State.COMPLETED:
            yield 0.05, ("replay", name)
    for box in world.sqs.dead.values():
        for name, one in box.messages.items():
            if one.visible_at <= world.now:
                yield 4.0, ("redrive", name)


def _process_faults(world: World, dice: Dice) -> Iterator[Weighted]:
    kinds = world.plan.faults
    for name, thread in world.threads.items():
        if not thread.can_go(world.now):
            continue
        if thread.faults:
            weight = 1.0 if "send" in thread.label or "effect" in thread.label else 0.25
            if "some" in kinds and "send" in thread.label:
                yield 2.0, ("run", name, "some")
            for fault in ("lost", "unheard", "repeat"):
                if fault in kinds:
                    yield weight, ("run", name, fault)
        if "freeze" in kinds and "." in name:
            yield 0.15, ("freeze", f"thread {name}", dice.pick(FROZEN_SECONDS))
    for name in {thread.process.name: None for thread in world.threads.values()}:
        if "kill" in kinds:
            yield 0.4, ("kill", name)
        if "freeze" in kinds:
            weight = 0.8 if "worker" in name else 0.3
            yield weight * (10 if _repeats(world, name) else 1), ("freeze", name, dice.pick(FROZEN_SECONDS))


def _other_faults(world: World, dice: Dice) -> Iterator[Weighted]:
    kinds = world.plan.faults
    if "record-lost" in kinds:
        for one in world.stream.pending:
            yield 0.4, ("record-lost", one.name)
    if "away" in kinds and any(box.messages for box in world.sqs.work.values()):
        yield 0.3, ("away", dice.pick(AWAY_HOURS))
    if "record-again" in kinds and world.stream.had:
        yield 0.4, ("record-again", dice.pick(world.stream.had).name)
    for box in world.sqs.work.values():
        for name, message in box.messages.items():
            if "copy" in kinds and not box.queue.fifo:
                yield 0.3, ("copy", name)
            if "purge" in kinds:
                yield 0.15, ("purge", name)
            if "throttle" in kinds and message.visible_at <= world.now:
                yield 0.8, ("throttle", name, dice.pick(THROTTLED))
