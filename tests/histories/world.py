"""The world of one history: its parts, its processes and its time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from shared.adapters.memory import MemoryShares
from shared.adapters.memory_files import MemoryFiles
from shared.domain.doorbell import parse
from shared.domain.job import Job
from shared.domain.states import FINAL, OUTBOX_OPEN, Seen, State, Transition
from shared.queues import QUEUES
from tests.histories.plan import Plan
from tests.histories.promises import Promises
from tests.histories.sqs import Box, Sqs, Standing
from tests.histories.store import WatchedStore
from tests.histories.stream import SHARDS, Pending, Stream
from tests.histories.threads import Process, Thread, current

START = datetime(2026, 5, 31, 12, 0, tzinfo=UTC)
SLOW = timedelta(seconds=3)
LONG = timedelta(hours=1)

Action = tuple[str | int, ...]


class World:
    """Everything one history consists of."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.now, self.stepwise, self.deployed, self.away = START, True, False, False
        self.promises = Promises(
            get=lambda job_id: self.store.peek(job_id),
            doorbells=self._doorbells,
            ahead=self._ahead,
            rung=lambda job: (job.job_id, job.dispatch) in self.sqs.rung,
        )
        self.store = WatchedStore(self._written)
        self.store.shortened = lambda job_id: self.promises.fail("payload", f"{job_id}'s is kept less long")
        self.files, self.shares = MemoryFiles(), MemoryShares()
        lanes = [QUEUES[lane] for lane in plan.lanes]
        self.sqs = Sqs(lanes, plan.most_receives, plan.old_receipts, lambda: self.now)
        self.sqs.names, self.sqs.tell = self.name_of, self.tell
        self.sqs.sending = lambda box, body, group: self.promises.sending(self._is_dlq(box), box, body, group)
        self.sqs.deleting = lambda box, one: self.promises.deleting(self._is_dlq(box), box, one)
        self.sqs.hiding, self.sqs.moving = self.promises.hiding, self._moving
        self.stream = Stream()
        self.threads: dict[str, Thread] = {}
        self.processes: dict[str, Process] = {}
        self.counters: dict[tuple[str, str], int] = {}
        self.asked: dict[str, int] = {}
        self.accepted: dict[str, set[str]] = {}
        self.names: dict[str, str] = {}
        self.jobs_by_name: dict[str, str] = {}
        self.expired_copies: set[str] = set()
        self.tokens = self.writes = 0
        self.story: list[str] | None = None
        self.happened: set[str] = set()
        self.forgotten: set[str] = set()
        self.every_process: list[Process] = []

    # ---- what happened ----------------------------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        """A line of the story, if someone reads it."""
        if self.story is not None:
            self.story.append(f"      {text}")

    def name_of(self, job_id: str) -> str:
        """The job's short name: its letter, and a number where one letter was accepted twice."""
        return self.names.get(job_id, "?")

    def _written(self, old: Job | None, new: Job, move: Transition, seen: Seen) -> None:
        if new.job_id not in self.names:
            self._christen(new)
        self.writes += 1
        self.promises.written(old, new, move, seen)
        if self.story is not None:
            before = "nothing" if old is None else old.state
            self.tell(
                f"{self.names[new.job_id]}: {move.name}: {before} -> {new.state} "
                f"(run {new.run}, dispatch {new.dispatch}, attempts {new.attempts}, stalls {new.stalls})"
            )
        if new.outbox == OUTBOX_OPEN and new.state in (State.QUEUED, State.DEAD):
            name = f"{self.names[new.job_id]}.{new.dispatch}{'*' if new.state is State.DEAD else ''}"
            self.record(name, ord(self.names[new.job_id][0]) % SHARDS, new, self.now)

    def _doorbells(self, job: Job, process: Process) -> list[str]:
        """Names of the messages this process was given that are this job's doorbells at this dispatch."""
        name = f"{self.names[job.job_id]}.{job.dispatch}"
        given: Sequence[str] = process.about if isinstance(process.about, list) else ()
        return [one for one in given if one.rstrip("'*") == name]

    def _ahead(self, job: Job, process: Process) -> list[str]:
        box = self.sqs.work[job.queue]
        mine = [box.messages[name] for name in self._doorbells(job, process) if name in box.messages]
        if not box.queue.fifo or not mine:
            return []
        first = min(one.sequence for one in mine)
        before = [one for one in box.messages.values() if one.group == mine[0].group and one.sequence < first]
        return [one.name for one in before if self._needed(one)]

    def _needed(self, one: Standing) -> bool:
        bell = parse(one.body)
        found = None if bell is None else self.store.peek(bell.job_id)
        return bell is not None and found is not None and found.state not in FINAL and bell.dispatch == found.dispatch

    def _christen(self, job: Job) -> None:
        letter = str(current().process.about)
        count = sum(name[0] == letter for name in self.jobs_by_name)
        name = letter if count == 0 else f"{letter}{count + 1}"
        self.names[job.job_id], self.jobs_by_name[name] = name, job.job_id

    def record(self, name: str, shard: int, job: Job, written_at: datetime, sequence: int | None = None) -> None:
        """Put a record into the stream: a new one, or one that is delivered again, before all that came after it."""
        taken = {one.name for one in self.stream.pending}
        while name in taken:
            name += "'"
        self.stream.add(Pending(name, shard, job, written_at, self.writes if sequence is None else sequence))

    def _moving(self, box: Box, one: Standing) -> None:
        if self.plan.most_receives is None:
            self.promises.moving(one)

    def _is_dlq(self, box: Box) -> bool:
        return box is self.sqs.dead[box.queue.name]

    # ---- processes --------------------------------------------------------------------------------------------------

    def add_thread(self, thread: Thread) -> None:
        """See Timed."""
        self.threads[thread.name] = thread

    def busy(self, name: str) -> bool:
        """A process of this name is at work."""
        process = self.processes.get(name)
        return process is not None and not process.dead and any(not one.over for one in process.threads)

    def begin(self, name: str, act: Callable[[Process], None], about: object = None) -> bool:
        """Start a process, unless its place is taken."""
        if self.busy(name):
            return False
        process = Process(name, self, self.skew(name), about)
        self.processes[name] = process
        self.every_process.append(process)
        process.start(name, lambda: act(process))
        if not self.stepwise:
            self.settle()
        return True

    def skew(self, name: str) -> timedelta:
        """Each place's clock is off by its own amount, always the same."""
        sign = 1 if sum(map(ord, name)) % 2 else -1
        return timedelta(milliseconds=self.plan.skew_ms * sign)

    def go(self, thread: Thread, fault: str = "") -> None:
        """One step of one thread, and what comes of it."""
        thread.go(fault)
        self.reap()
        for one in thread.process.threads:
            if one.error is not None and one.over:
                self.promises.fail("surprise", f"{one.name}: {type(one.error).__name__}: {one.error}")

    def reap(self) -> None:
        """Every thread of a process that ended ends."""
        for process in list(self.processes.values()):
            if process.dead and any(not one.over for one in process.threads):
                process.end()
        self.threads = {name: one for name, one in self.threads.items() if not one.over}

    def settle(self) -> None:
        """Everything that can go on does, until nothing can."""
        while ready := [one for one in self.threads.values() if one.can_go(self.now)]:
            self.go(ready[0])
            if self.promises.broken is not None:
                return

    def end(self) -> None:
        """Unwind every process."""
        for process in self.processes.values():
            process.end()

    # ---- time -------------------------------------------------------------------------------------------------------

    def forward(self, by: timedelta) -> None:
        """The clock moves; who stood at a call all the while was slow."""
        if by > SLOW and self.stepwise:
            for thread in self.threads.values():
                due = thread.until is not None and thread.until + SLOW < self.now + by
                if thread.ready is None or due:
                    thread.process.struck.append("slow")
            if by > LONG or self.threads or self.stream.pending or self._something_due():
                self.happened.add("dawdled")
        self.now += by
        self.store.expire_beside(self.now)
        self.stream.expire(self.now)
        for box in self.sqs.urls.values():
            self.expired_copies |= {name.rstrip("'") for name in box.expire(self.now)}

    def _something_due(self) -> bool:
        due = any(job.due_at is not None and job.due_at <= self.now for job in self.store.jobs())
        return due or any(box.visible(self.now) for box in self.sqs.urls.values())

    def next_times(self) -> list[datetime]:
        """When something may happen by itself."""
        times = [one.visible_at for box in self.sqs.work.values() for one in box.messages.values()]
        for thread in self.threads.values():
            times += [at for at in (thread.until, thread.frozen_until, thread.process.frozen_until) if at is not None]
        for job in self.store.jobs():
            if job.state not in FINAL:
                marks = (job.next_attempt_at, job.due_at, job.deadline_at, job.available_at)
                times += [at for at in marks if at is not None]
                if job.lease_expires_at is not None:
                    times += [job.lease_expires_at + timedelta(seconds=after) for after in (0, 4, 64)]
        return [at for at in times if at > self.now]

    def letters_left(self) -> Sequence[str]:
        """Jobs nobody submitted yet."""
        return [one.letter for one in self.plan.jobs if one.letter not in self.asked]
