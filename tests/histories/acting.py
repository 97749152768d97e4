"""What each process of a history does: the real operations, on ports that stop at every call."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from shared.adapters.effects import PowertoolsEffects
from shared.adapters.memory_files import MemoryFiles
from shared.adapters.sqs import SqsDeadLetters, SqsDoorbell, SqsMailbox, message_of
from shared.domain.job import DUE_SHARDS, shard
from shared.domain.outcome import Alert
from shared.domain.run import StoredFile
from shared.errors import (
    KeyReused,
    MoveRefused,
    NotDone,
    PayloadMissing,
    RingRefused,
    StoreUnavailable,
    TransientFailure,
)
from shared.jobs import Ending
from shared.operations.promote import PromoterPorts, promote_job
from shared.operations.redrive import OperatorPorts, cancel, replay
from shared.operations.relay import OutboxRecord, RelayPorts, relay
from shared.operations.run import Lane, WorkerPorts, run_batch
from shared.operations.run.share import LaneShare
from shared.operations.submit import JobRequest, submit
from shared.operations.sweep import SweeperPorts, sweep_dead_letters, sweep_job
from shared.ports import Measured
from shared.queues import QUEUES
from tests.histories.kinds import KINDS, Kind, Kinds
from tests.histories.plan import PAYLOAD_BEYOND_THE_RECORD, JobPlan, WorkerPlan
from tests.histories.sqs import PREFIX, Client, Standing, event_record
from tests.histories.store import Store
from tests.histories.threads import Killed, Process, current

if TYPE_CHECKING:
    from tests.histories.stream import Pending
    from tests.histories.world import World

LOOK_AHEAD = timedelta(minutes=3)
"""The promoter's, as its Lambda has it."""

RELAY_TIME = timedelta(minutes=1)


@dataclass(frozen=True)
class Log:
    """Log: every line into the story; a surprise is a promise broken."""

    world: World

    def event(self, name: str, /, *, level: str = "info", error: BaseException | None = None, **fields: Any) -> None:
        if name in ("surprise", "not-measured"):
            self.world.promises.fail("surprise", f"{type(error).__name__}: {error}")
        self.world.tell(f"log {name}" + ("" if error is None else f" {type(error).__name__}: {error}"))


@dataclass(frozen=True)
class Meter:
    """Meter: what a person hears of; counts are tested elsewhere."""

    world: World

    def emit(self, queue: str, counted: Sequence[Measured]) -> None:
        pass

    def alert(self, alert: Alert, *, queue: str, type: str, job: str) -> None:
        self.world.promises.alerted.add((alert, job))
        self.world.tell(f"alert {alert}")
        current().stop(f"told of {alert}")


@dataclass(frozen=True)
class Files:
    """Files of one process."""

    process: Process
    files: MemoryFiles

    def read(self, key: str) -> bytes:
        data: bytes = self.process.call("read file", lambda: self.files.read(key), _no_bucket)
        return data

    def write(self, key: str, data: bytes, content_type: str) -> StoredFile:
        act = lambda: self.files.write(key, data, content_type)  # noqa: E731
        stored: StoredFile = self.process.call("write file", act, _no_bucket)
        return stored


def _no_bucket() -> Exception:
    return TransientFailure("the bucket did not answer", code="s3-unavailable")


@dataclass(frozen=True)
class Acting:
    """Stage (see kinds) for one call of a handler."""

    world: World
    run: Any

    def pause(self, label: str) -> None:
        current().stop(f"handler {label}")

    def sleep(self, seconds: float) -> None:
        until = self.world.now + timedelta(seconds=seconds)
        current().wait("handler takes its time", lambda: False, until)

    def effect(self, name: str, *, at_most_once: bool = False, fails: bool = False, refused: bool = False) -> None:
        promises, raised = self.world.promises, list[Exception]()

        def call() -> str:
            promises.effect_begins(self.run, name)
            current().stop(f"about to {name}")
            promises.effect_called(self.run.job_id, self.run.held.lease.run, name, at_most_once, done=not refused)
            current().stop(f"after its {name}")
            if fails or refused:
                raised.append(TransientFailure(f"{name} failed"))
                raise NotDone(raised[0]) if refused else raised[0]
            return f"{name}-reference"

        try:
            self.run.once(name, call, at_most_once=at_most_once)
        except Exception as error:
            promises.effect_failed(self.run, name, error, raised)
            raise

    def times(self, what: str) -> int:
        key = (self.run.job_id, what)
        self.world.counters[key] = self.world.counters.get(key, 0) + 1
        return self.world.counters[key]

    def crash(self) -> None:
        process = current().process
        process.dead = True
        process.struck.append("crash")
        raise Killed

    def hang(self) -> None:
        current().process.struck.append("hang")
        current().wait("handler hangs", lambda: False, None)


def play(world: World, kind: Kind, run: Any) -> Ending:
    """One call of a handler, watched."""
    handling = world.promises.handler_called(run)
    try:
        ending = kind.behave(Acting(world, run), run)
    except BaseException:
        world.promises.handler_returned(handling, finished=False)
        raise
    world.promises.handler_returned(handling, finished=ending is None or isinstance(ending, StoredFile))
    return ending


def work(world: World, process: Process, plan: WorkerPlan, messages: Sequence[Standing]) -> None:
    """One invocation of a worker; what it does not answer with, its event source deletes."""
    records = [event_record(one) for one in messages]
    queue, started_at = replace(QUEUES[plan.lane], writes=("exports/",)), world.now
    store, client, log = Store(process, world.store), Client(process, world.sqs), Log(world)

    def served(kind: Kind, run: Any) -> Ending:
        world.promises.served(run.job_id, queue, known, started_at)
        return play(world, kind, run)

    kinds = Kinds(served, moved=world.plan.moved)
    known = kinds if world.deployed else kinds.older(plan.lacks, plan.version, kinds.moved if plan.knows_move else None)
    ports = WorkerPorts(
        stage="histories",
        store=store,
        mailbox=SqsMailbox(client, PREFIX, queue, log),
        files=Files(process, world.files),
        effects=PowertoolsEffects(store, process),
        clock=process,
        log=log,
        meter=Meter(world),
        share=LaneShare(queue, world.shares, process, log),
        code_version="1",
        dice=lambda: 0.5,
        token=lambda: _token(process, world),
        pause=lambda for_: current().wait("pauses", lambda: False, world.now + for_),
        end_process=lambda: _end(process),
    )
    lane = Lane(queue, known)  # type: ignore[arg-type]
    time_left = lambda: queue.function_timeout - (world.now - started_at)  # noqa: E731
    kept = run_batch([message_of(record) for record in records], ports, lane, time_left)
    current().stop("answers for its batch")
    for record in records:
        if record["messageId"] not in kept:
            world.sqs.delete(world.sqs.work[plan.lane], record["receiptHandle"])


def _token(process: Process, world: World) -> str:
    world.tokens += 1
    return f"{process.name}-{world.tokens}"


def _end(process: Process) -> None:
    process.dead = True
    process.struck.append("ended itself")
    raise Killed


def ring(world: World, process: Process, records: Sequence[Pending]) -> None:
    """One invocation of the relay; what it fails at stays in the stream."""
    log, client, started_at = Log(world), Client(process, world.sqs), world.now
    ports = RelayPorts(
        store=Store(process, world.store),
        doorbell=SqsDoorbell(client, PREFIX, "parked"),
        clock=process,
        log=log,
        queues=QUEUES,
        time_left=lambda: RELAY_TIME - (world.now - started_at),
    )
    try:
        relay([OutboxRecord({}, one.job) for one in records], ports)
    except RingRefused:
        return
    for one in records:
        world.stream.done(one)


def promote_due(world: World, process: Process) -> None:
    """One tick of the promoter."""
    store, now = Store(process, world.store), process.now()
    ports = PromoterPorts(store=store, clock=process, log=Log(world), queues=QUEUES)
    for place in sorted({shard(job.job_id, DUE_SHARDS) for job in world.store.jobs() if job.due_key is not None}):
        try:
            for job_id in store.due(place, now + LOOK_AHEAD):
                promote_job(job_id, now, LOOK_AHEAD, ports)
        except StoreUnavailable:
            continue


def _sweeper(world: World, process: Process) -> SweeperPorts:
    log = Log(world)
    return SweeperPorts(
        store=Store(process, world.store),
        dead_letters=SqsDeadLetters(Client(process, world.sqs), PREFIX, log),
        clock=process,
        log=log,
        meter=Meter(world),
        queues=QUEUES,
    )


def sweep(world: World, process: Process) -> None:
    """One tick of the sweeper over every record it knows."""
    empty = {name: not box.messages for name, box in world.sqs.work.items()}
    jobs = [(job.job_id, job.queue) for job in world.store.jobs()]
    current().stop("knows which queues are empty")
    for job_id, queue in jobs:
        try:
            sweep_job(job_id, _sweeper(world, process), queue_empty=empty[queue])
        except StoreUnavailable:
            continue


def look(world: World, process: Process, lane: str) -> None:
    """The sweeper looks through one DLQ."""
    try:
        sweep_dead_letters(QUEUES[lane], _sweeper(world, process))
    except RingRefused:
        return


def act(world: World, process: Process, verb: str, job_id: str) -> None:
    """An operator cancels or replays a job."""
    ports = OperatorPorts(store=Store(process, world.store), clock=process, log=Log(world))
    try:
        if verb == "cancel":
            cancel(job_id, "operator", "no longer wanted", ports)
        else:
            replay(job_id, "operator", "mended", ports)
    except PayloadMissing as e:
        world.promises.payload_missing(e.job_id)
    except (MoveRefused, StoreUnavailable) as e:
        world.tell(f"{verb} refused: {e}")


def ask(world: World, process: Process, plan: JobPlan) -> None:
    """A client submits its job."""
    world.asked[plan.letter] = asked = world.asked.get(plan.letter, 0) + 1
    large = KINDS[plan.kind].large
    kinds = Kinds(lambda kind, run: None, moved=world.plan.moved if world.deployed else None)
    job_type = kinds.get(plan.type)
    assert job_type is not None
    lane = job_type.queue
    request = JobRequest(
        type=plan.type,
        payload={"text": "x" * PAYLOAD_BEYOND_THE_RECORD if large else ""},
        tenant=plan.tenant,
        idempotency_key=plan.key,
        delay=timedelta(seconds=plan.delay_seconds) if plan.delay_seconds else None,
        max_age=None if plan.max_age_seconds is None else timedelta(seconds=plan.max_age_seconds),
        ordering_key=plan.ordering_key if lane.fifo else None,  # the door refuses it on a lane without an order
    )
    entropy = hashlib.sha256(f"{plan.letter} {asked}".encode()).digest()[:10]
    store = Store(process, world.store)
    try:
        accepted = submit(request, catalogue=kinds, store=store, now=process.now(), entropy=entropy)  # type: ignore[arg-type]
    except (StoreUnavailable, KeyReused) as e:
        world.tell(f"{plan.letter} is answered {503 if isinstance(e, StoreUnavailable) else 422}")
        return
    world.accepted.setdefault(plan.letter, set()).add(accepted.job.job_id)
    one = plan.key is None or len(world.accepted[plan.letter]) == 1
    world.promises.hold("key", one, lambda: f"{plan.key} names {world.accepted[plan.letter]}")
