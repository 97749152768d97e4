"""Batch: the messages of one invocation, side by side; a handler that hangs ends the process after its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import timedelta

from shared.operations.run.deliver import deliver
from shared.operations.run.invocation import Invocation
from shared.operations.run.ports import Lane, WorkerPorts
from shared.ports import Measured, Message


def run_batch(
    messages: Sequence[Message], ports: WorkerPorts, lane: Lane, time_left: Callable[[], timedelta]
) -> list[str]:
    """Run every job of a batch; returns the ids of the messages that must not be deleted. Never raises for a job.

    Standard lane: all side by side. FIFO lane: one after the other within a group; behind one that stays, the rest
    of its group is released unstarted, which keeps the order. time_left: of this invocation.
    """
    invocation, started_at = Invocation(lane, ports, time_left), ports.clock.now()
    invocation.hide(messages)
    groups: dict[str, list[Message]] = {}
    for message in messages:
        in_order = lane.queue.fifo and message.group is not None
        groups.setdefault(f"g:{message.group}" if in_order else f"m:{message.message_id}", []).append(message)
    _make_room(groups, invocation)
    pool = ThreadPoolExecutor(lane.queue.parallelism)
    running = {pool.submit(_run_group, group, invocation) for group in groups.values()}
    _supervise(running, invocation)
    pool.shutdown(wait=False)
    ports.share.charge(started_at, _worker_time(invocation.measured))
    try:
        ports.meter.emit(lane.queue.name, invocation.measured)
    except Exception as e:  # a batch that cannot be counted is still done
        ports.log.event("not-measured", level="error", job="", error=e)
    if invocation.hangs:
        _leave(messages, invocation)
    return [message.message_id for message in messages if message.message_id in invocation.kept]


def _worker_time(measured: Sequence[Measured]) -> dict[str, timedelta]:
    """What the runs of a batch took, by tenant."""
    took: dict[str, timedelta] = {}
    for one in measured:
        if one.tenant is not None and one.ran is not None:
            took[one.tenant] = took.get(one.tenant, timedelta()) + one.ran
    return took


def _make_room(groups: dict[str, list[Message]], invocation: Invocation) -> None:
    """A suspect that its doorbell names comes first: it would find room on no busy lane. All others go to other
    processes at once, at the price of a receive.
    """
    suspects = [name for name, (first, *_) in groups.items() if first.bell is not None and first.bell.suspect]
    if suspects:
        first, *behind = groups.pop(suspects[0])
        invocation.release([*behind, *(message for group in groups.values() for message in group)])
        groups.clear()
        groups[suspects[0]] = [first]


def _supervise(running: set[Future[None]], invocation: Invocation) -> None:
    """Until every group ended, or only hung handlers are left."""
    watch = invocation.watch
    while len(running) > sum(not one.returned for one in watch.hung):
        timeout = watch.seconds_to_next_deadline()
        ended, running = wait(running, timeout=0.05 if timeout is None else timeout + 0.01, return_when=FIRST_COMPLETED)
        for future in ended:
            future.result()
        watch.fence_overdue()


def _leave(messages: Sequence[Message], invocation: Invocation) -> None:
    """A handler hangs, so this process must end, and with it the answer that would acknowledge the others."""
    ports = invocation.ports
    for hung in invocation.watch.hung:
        if hung.outcome is not None and hung.outcome.acknowledged:
            invocation.done.append(hung.message)
    done = {message.message_id for message in invocation.done}
    invocation.kept |= {message.message_id for message in messages} - done
    ports.mailbox.acknowledge(invocation.done)
    ports.log.event("process-ends", level="error", job="", hung=[one.message.job_id for one in invocation.watch.hung])
    ports.end_process()


def _run_group(group: Sequence[Message], invocation: Invocation) -> None:
    for place, message in enumerate(group):
        if not invocation.has_time(message):
            invocation.release(group[place:], behind=place > 0)
            return
        outcome = deliver(message, invocation)
        if outcome is not None and outcome.acknowledged:
            invocation.done.append(message)
            continue
        invocation.kept.add(message.message_id)
        invocation.release(group[place + 1 :], behind=True)
        return
