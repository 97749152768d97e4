"""Slow answers, busy lanes, hung neighbours, long queues of the dead: what pressure must not do to a job."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.memory import MemoryJobStore
from shared.adapters.sqs import LOOKED_AT, message_of
from shared.adapters.system import SystemClock
from shared.domain.doorbell import Bell
from shared.domain.lease import as_found
from shared.domain.outcome import Outcome
from shared.domain.states import LEASE, RECLAIM, State
from shared.errors import StoreUnavailable
from shared.operations.batch import TRIES_ELSEWHERE
from shared.operations.run import run_batch
from shared.operations.sweep import SweeperPorts, sweep_dead_letters, sweep_job
from shared.queues import QUEUES
from tests.builders import NOW, RecordedLog, RecordedMeter, TestClock, a_job, a_message, a_running_job
from tests.histories.sqs import Sqs, event_record
from tests.world import Order, World

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def a_fresh_job(**fields: Any) -> Any:
    now = SystemClock().now()
    return a_job(created_at=now, run_at=now, available_at=now, deadline_at=now + timedelta(hours=1), **fields)


def test_a_retry_of_a_hung_job_starts_only_after_its_process_ended_though_a_neighbour_insists() -> None:
    """The neighbour has ended (the watch no longer counts it) and insists on its record until its own, longer lease is
    over; so long the process, and with it the hung thread, lives on.
    """
    released = threading.Event()
    world = World(clock=SystemClock(), deadline=timedelta(milliseconds=600), lease=timedelta(seconds=9))
    kinds = {"hangs": timedelta(milliseconds=800)}
    plain = world.store.apply
    insisted = threading.Event()

    def apply(job_id: str, move: Any, seen: Any, **changes: Any) -> Any:
        if move is LEASE and job_id == hangs.job_id:  # the lease of a type with a shorter one
            changes["lease_expires_at"] = changes["started_at"] + kinds["hangs"]
        if move.name == "complete":
            insisted.set()
            raise StoreUnavailable("throttled: this one partition")
        return plain(job_id, move, seen, **changes)

    world.store.apply = apply  # type: ignore[method-assign]
    world.handler = lambda payload, run: released.wait(20) and None if run.tenant == "hangs" else time.sleep(0.3)
    hangs, other = world.submitted(a_fresh_job(tenant="hangs")), world.submitted(a_fresh_job(tenant="other"))
    ended_at: list[Any] = []
    ports = replace(
        world.ports,
        pause=lambda for_: time.sleep(for_.total_seconds()),
        end_process=lambda: ended_at.append(SystemClock().now()),
    )
    ports = replace(ports, dice=lambda: 0.0)
    try:
        # the policy's own delay out of the way: what is asked is only that no retry starts beside the hung thread
        run_batch([hangs, other], ports)
    finally:
        released.set()
    job = world.found(hangs)
    assert insisted.is_set()
    assert job.state is State.RETRYING
    assert ended_at
    assert job.next_attempt_at is not None
    assert job.next_attempt_at >= ended_at[0], f"{ended_at[0] - job.next_attempt_at} beside the hung thread"


@pytest.mark.parametrize("how", ["unanswered", "answered late", "repeated and refused"])
@pytest.mark.parametrize("taken", [True, False])
def test_a_lease_that_is_over_before_its_answer_comes_starts_a_handler_only_once_it_is_renewed(
    how: str, taken: bool
) -> None:
    """Three tries of five seconds each, or a frozen process: meanwhile another worker may have the job."""
    leases: list[timedelta] = []
    world = World(handler=lambda payload, run: leases.append(run.lease_expires_at - world.clock.now()))
    message, plain = world.submitted(a_job()), world.store.apply

    def slow(job_id: str, move: Any, seen: Any, **changes: Any) -> Any:
        if move is not LEASE:
            return plain(job_id, move, seen, **changes)
        after = plain(job_id, move, seen, **changes)
        world.clock.forward(40 * SECOND)
        if taken:
            theirs = {"lease_expires_at": world.clock.now() + MINUTE, "started_at": NOW, "code_version": "abc1234"}
            plain(job_id, RECLAIM, as_found(after, world.clock.now()), holder="other", **theirs)
        if how == "unanswered":
            raise StoreUnavailable("landed, no answer")
        return after if how == "answered late" else plain(job_id, move, seen, **changes)

    world.store.apply = slow  # type: ignore[method-assign]
    outcome = world.deliver(message)
    if taken:
        assert not leases, "started beside the worker that has its job"
        assert world.found(message).holder == "other"
    else:
        assert (outcome, leases) == (Outcome.COMPLETED, [world.lease]), "a whole lease, and no stall"
        assert (world.found(message).stalls, world.found(message).attempts) == (0, 1)


def test_a_slow_answer_of_sqs_costs_a_handler_within_its_deadline_nothing() -> None:
    """Lease = deadline + margin, as every default is; scaled: 2.5 = 1 + 1.5 s. Each hide takes 2.4 s: as 3 x 5 s do
    for a lease of 20 + 10 s.
    """
    world = World(clock=SystemClock(), deadline=SECOND, lease=timedelta(seconds=2.5))
    plain = world.mailbox.hide

    def slow(messages: Any, for_: Any) -> Any:
        time.sleep(2.4)
        return plain(messages, for_)

    world.mailbox.hide = slow  # type: ignore[method-assign]
    world.handler = lambda payload, run: time.sleep(0.8)
    message = world.submitted(a_fresh_job())
    world.run_batch(message)
    assert world.ends == [], "the process was killed"
    assert world.found(message).state is State.COMPLETED, world.found(message).error_message


def test_a_suspect_on_a_busy_lane_of_long_jobs_starts_within_minutes() -> None:
    """Lane of ten minutes, worker of ten and a half, a type with its lane's deadline and the default lease: once its
    neighbours have taken 26 s there is never time for it, however often it waits for them. Every batch is full of
    healthy exports of one minute; its place in the batch is random; a call to the table takes 5 ms.
    """
    dice = random.Random(1)
    world = World(lease=timedelta(minutes=10, seconds=10))
    lane = QUEUES["exports.month-end"]
    started: list[str] = []
    plain = world.store.apply

    def apply(*args: Any, **changes: Any) -> Any:
        time.sleep(0.005)
        return plain(*args, **changes)

    world.store.apply = apply  # type: ignore[method-assign]

    def handler(payload: Order, run: Any) -> None:
        if run.tenant == "suspect":
            started.append(run.job_id)
            return
        time.sleep(0.05)
        world.time_left = lane.function_timeout - MINUTE

    world.handler = handler
    suspect = world.submitted(a_running_job(tenant="suspect", lease_expires_at=NOW))
    world.clock.forward(5 * SECOND)
    receives, doorbells, seen = TRIES_ELSEWHERE, 1, 0  # its tries elsewhere are over, for lack of an idle process
    for _ in range(60):
        receives, seen = receives + 1, seen + 1
        world.time_left = lane.function_timeout
        batch = [world.submitted(a_job(tenant="healthy", deadline_at=NOW + timedelta(days=9))) for _ in range(3)]
        batch.insert(dice.randrange(4), replace(suspect, receives=receives))
        run_batch(batch, world.ports)
        if started:
            break
        world.clock.forward(MINUTE + 30 * SECOND)
        job = world.found(suspect)
        if job.due_key is not None:
            world.promote()
            job = world.found(suspect)
        if job.dispatch != suspect.dispatch:
            suspect, receives, doorbells = (
                replace(a_message(job), suspect=job.stalls > 0),
                TRIES_ELSEWHERE,
                doorbells + 1,
            )
    assert started, f"no start in {seen} batches, {doorbells} doorbells, {world.clock.now() - NOW}"
    assert world.clock.now() - NOW < 5 * MINUTE, f"start after {seen} batches, {world.clock.now() - NOW}"


def test_reading_a_lease_back_leaves_the_invocation_time_to_answer_for_its_batch() -> None:
    """One try of the table is up to 3 x 5 s in the worker's own configuration; ten of them outlast most workers."""
    world = World(time_left=QUEUES["emails.high"].function_timeout)
    neighbour, message = world.submitted(a_job()), world.submitted(a_job())
    plain, plain_get = world.store.apply, world.store.get

    def passes(seconds: int) -> None:
        world.time_left -= seconds * SECOND
        world.clock.forward(seconds * SECOND)

    def apply(job_id: str, *args: Any, **changes: Any) -> Any:
        if job_id == message.job_id:
            passes(15)
            raise StoreUnavailable("no answer")
        return plain(job_id, *args, **changes)

    def get(job_id: str) -> Any:
        if job_id == message.job_id:
            passes(15)
            raise StoreUnavailable("no answer")
        return plain_get(job_id)

    world.store.apply, world.store.get = apply, get  # type: ignore[method-assign]
    world.deadline = 30 * SECOND
    world.run_batch(neighbour, message)
    assert world.time_left > timedelta(), f"the function was killed {-world.time_left} earlier, its answer with it"


def test_a_job_whose_cancellation_was_requested_is_cancelled_not_parked() -> None:
    store, clock, log = MemoryJobStore(), TestClock(), RecordedLog()
    job = a_running_job(cancel_request={"who": "ops", "why": "not wanted"})
    store.submit(job, NOW)
    clock.forward(timedelta(minutes=10))

    class Dlq:
        def __init__(self) -> None:
            self.standing = [a_message(job)]

        def receive(self, queue: Any) -> Any:
            got, self.standing = self.standing, []
            return got

        def delete(self, queue: Any, messages: Any) -> None: ...

    ports = SweeperPorts(store=store, dead_letters=Dlq(), clock=clock, log=log, meter=RecordedMeter(), queues=QUEUES)
    sweep_dead_letters(QUEUES[job.queue], ports)
    sweep_job(job.job_id, ports, queue_empty=False)
    found = store.get(job.job_id)
    assert found is not None
    assert found.state is State.CANCELLED, f"{found.state}, with the request still in it"


def test_a_crash_on_a_busy_fifo_lane_leaves_the_order_of_its_key() -> None:
    """The message of the interrupted job is there and first in its group; all workers are busy for two minutes (a batch
    of this lane may take 80 s). The sweeper requeues the job: a new doorbell at the end, the old one stale.
    """
    order: list[str] = []
    world = World(handler=lambda payload, run: order.append(run.tenant), queue="webhooks.partner-a")
    world.deadline = 18 * SECOND
    fields: dict[str, Any] = {"queue": "webhooks.partner-a", "ordering_key": "k"}
    first = replace(world.submitted(a_running_job(tenant="first", **fields)), group="k")
    second = replace(world.submitted(a_job(tenant="second", outbox=None, published_at=NOW, **fields)), group="k")
    world.clock.forward(2 * MINUTE)
    ports = SweeperPorts(
        store=world.store,
        dead_letters=None,
        clock=world.clock,
        log=world.log,
        meter=world.meter,
        queues=QUEUES,  # type: ignore[arg-type]
    )
    sweep_job(first.job_id, ports, queue_empty=False)
    assert world.run_batch(first, second) == []
    job = world.found(first)
    if job.state is State.QUEUED:
        world.run_batch(replace(a_message(job), group="k", suspect=True))
    assert order == ["first", "second"]


def test_a_retrying_fifo_job_whose_mark_never_landed_keeps_its_place_on_a_busy_lane() -> None:
    """The doorbell was sent, the job failed once and waits in place; only the relay's mark is missing. All workers are
    busy for a minute past its time: redispatched, it stands behind its successor.
    """
    order: list[str] = []
    world = World(handler=lambda payload, run: order.append(run.tenant), queue="webhooks.partner-a")
    world.deadline = 18 * SECOND
    fields: dict[str, Any] = {"queue": "webhooks.partner-a", "ordering_key": "k"}
    waits = a_job(tenant="first", state=State.RETRYING, run=1, attempts=1, next_attempt_at=NOW, **fields)
    first = replace(world.submitted(waits), group="k", receives=2)
    second = replace(world.submitted(a_job(tenant="second", outbox=None, published_at=NOW, **fields)), group="k")
    world.clock.forward(62 * SECOND)
    ports = SweeperPorts(
        store=world.store,
        dead_letters=None,
        clock=world.clock,
        log=world.log,
        meter=world.meter,
        queues=QUEUES,  # type: ignore[arg-type]
    )
    sweep_job(first.job_id, ports, queue_empty=False)
    assert world.run_batch(first, second) == []
    job = world.found(first)
    if job.state is State.QUEUED:
        world.run_batch(replace(a_message(job), group="k"))
    assert order == ["first", "second"]


def test_a_standard_dlq_with_six_hundred_dead_jobs_still_shows_what_lies_behind_them() -> None:
    """A look takes a hundred, each hidden five minutes: at a tick a minute the first are back before the 501st was
    seen, where SQS gives the oldest first (best effort, on a standard queue).
    """
    lane, store, clock = QUEUES["exports.month-end"], MemoryJobStore(), TestClock()
    sqs = Sqs([lane], most_receives=100, old_receipts=False, now=clock.now)
    box = sqs.dead[lane.name]

    class Dlq:
        def receive(self, queue: Any) -> Any:
            names = [one.name for one in box.visible(clock.now())][:10]
            return [message_of(event_record(one)) for one in sqs.receive(box, names, LOOKED_AT)]

        def delete(self, queue: Any, messages: Any) -> None:
            for message in messages:
                sqs.delete(box, message.receipt)

    def send(job: Any, mark: bool) -> None:
        bell = Bell(job_id=job.job_id, dispatch=job.dispatch, type=job.type, payload_version=1, dead_letter=mark)
        sqs.send(box, bell.body(), None, None, timedelta())

    for _ in range(600):
        dead = a_job(state=State.DEAD, dispatch=2, outbox=None, dead_at=NOW)
        store.submit(dead, NOW)
        send(dead, mark=True)
    stuck = a_job(outbox=None, published_at=NOW)
    store.submit(stuck, NOW)
    send(stuck, mark=False)
    ports = SweeperPorts(
        store=store, dead_letters=Dlq(), clock=clock, log=RecordedLog(), meter=RecordedMeter(), queues=QUEUES
    )
    for _ in range(60):
        sweep_dead_letters(lane, ports)
        clock.forward(MINUTE)
    found = store.get(stuck.job_id)
    assert found is not None
    assert found.state is State.DEAD, f"an hour of looks every minute, and the record still says {found.state}"


def test_a_job_whose_deadline_passed_while_its_message_was_being_hidden_does_not_start() -> None:
    """The time that the lease's condition compares with is read before the message is hidden, not after."""
    ran: list[str] = []
    world = World(handler=lambda payload, run: ran.append(run.job_id))
    message = world.submitted(a_job(deadline_at=NOW + 10 * SECOND))
    plain = world.mailbox.hide

    def slow(messages: Any, for_: Any) -> Any:
        world.clock.forward(15 * SECOND)
        return plain(messages, for_)

    world.mailbox.hide = slow  # type: ignore[method-assign]
    world.deliver(message)
    assert not ran, "started five seconds after its deadline"


def test_insisting_on_an_end_leaves_the_invocation_time_to_answer_for_its_batch() -> None:
    """A try is up to 3 x 5 s by the worker's own configuration; "what the last try may take" is said to be 2 s. The
    first try leaves 5 s, in which the batch could be answered; the second is begun, and the function is killed in it.
    """
    world = World(time_left=25 * SECOND, deadline=20 * SECOND, lease=30 * SECOND)
    plain = world.store.apply

    def passes(seconds: int) -> None:
        world.time_left -= seconds * SECOND
        world.clock.forward(seconds * SECOND)

    def apply(job_id: str, move: Any, *args: Any, **changes: Any) -> Any:
        if move.name == "complete":
            passes(15)
            raise StoreUnavailable("no answer")
        return plain(job_id, move, *args, **changes)

    world.store.apply = apply  # type: ignore[method-assign]
    world.handler = lambda payload, run: passes(5)
    world.run_batch(world.submitted(a_job()))
    assert world.time_left > timedelta(), f"the function was killed {-world.time_left} earlier, its answer with it"
