"""What can go wrong in a world, and what operators of AWS do there, by name. Each returns False where it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from tests.histories.sqs import Box, Standing
from tests.histories.threads import Process, Thread
from tests.histories.world import World


def _kill(world: World, name: str) -> bool:
    if not world.busy(name):
        return False
    process = world.processes[name]
    process.struck.append("kill")
    world.tell("it stood at: " + ", ".join(f"{one.name}: {one.label}" for one in process.threads if not one.over))
    process.end()
    world.reap()
    return True


def _freeze(world: World, name: str, seconds: int) -> bool:
    until = world.now + timedelta(seconds=seconds)
    if name.startswith("thread "):
        thread = world.threads.get(name.removeprefix("thread "))
        if thread is None:
            return False
        thread.frozen_until = until
        thread.process.struck.append("freeze")
        return True
    if not world.busy(name):
        return False
    world.processes[name].frozen_until = until
    world.processes[name].struck.append("freeze")
    return True


def _thaw(world: World, name: str) -> bool:
    """It goes on earlier: just while another is at its job, say."""
    process = world.processes.get(name)
    if process is None or not world.busy(name):
        return False
    places: list[Process | Thread] = [process, *process.threads]
    frozen = [one for one in places if one.frozen_until is not None]
    for one in frozen:
        one.frozen_until = None
    return bool(frozen)


def _record_lost(world: World, name: str) -> bool:
    found = [one for one in world.stream.pending if one.name == name]
    for one in found:
        world.stream.pending.remove(one)
    return bool(found)


def _record_again(world: World, name: str) -> bool:
    found = next((one for one in world.stream.had if one.name == name), None)
    if found is not None:
        world.record(found.name, found.shard, found.job, found.written_at, found.sequence)
    return found is not None


def _message(world: World, name: str) -> tuple[Box, Standing] | None:
    return next(((box, box.messages[name]) for box in world.sqs.work.values() if name in box.messages), None)


def _copy(world: World, name: str) -> bool:
    found = _message(world, name)
    if found is None or found[0].queue.fifo or (not found[1].receives and found[1].visible_at > world.now):
        return False  # not before its delay has passed
    world.sqs.copy(found[0], name)
    return True


def _purge(world: World, name: str) -> bool:
    found = _message(world, name)
    if found is None or "*" in name:
        return False
    del found[0].messages[name]
    return True


def _throttle(world: World, name: str, times: int) -> bool:
    """Received so often, each time by a poller whose invocation was refused."""
    found = _message(world, name)
    if found is None or found[1] not in found[0].visible(world.now):
        return False
    box = found[0]
    for _ in range(times):
        if name in box.messages:
            box.messages[name].throttled += 1
            world.sqs.receive(box, [name], timedelta())
    return True


def _redrive(world: World, name: str) -> bool:
    """StartMessageMoveTask, by an operator in the AWS console."""
    lane = next((lane for lane, box in world.sqs.dead.items() if name in box.messages), None)
    if lane is None:
        return False
    world.sqs.redrive(lane, name)
    return True


def _ttl(world: World, job: str) -> bool:
    found = world.store.get(world.jobs_by_name.get(job, ""))
    if found is None or found.expires_at is None or found.expires_at >= world.now:
        return False
    world.store.remove(found.job_id)
    world.forgotten.add(found.job_id)
    return True


VERBS: Mapping[str, Callable[..., bool]] = {
    "kill": _kill,
    "freeze": _freeze,
    "thaw": _thaw,
    "record-lost": _record_lost,
    "record-again": _record_again,
    "copy": _copy,
    "purge": _purge,
    "throttle": _throttle,
    "redrive": _redrive,
    "ttl": _ttl,
}
