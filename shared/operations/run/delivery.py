"""Delivery: a message and the job it rings for. Lease it, defer it, or do what the record found means. A refused write
brings the record it met, so deciding costs no read; each further write conditions on exactly that record, and a lost
race decides again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from shared.domain import writes
from shared.domain.doorbell import Bell
from shared.domain.found import End, Ours, Stale, TakeOver, Wait, found_by_message, wait
from shared.domain.job import Job
from shared.domain.lease import REDELIVERY_MARGIN, Lease
from shared.domain.outcome import Outcome
from shared.domain.states import DEFAULT_STALL_LIMIT, State
from shared.domain.waits import RECEIVE_LIMIT, elsewhere, leaves_its_message, unready
from shared.domain.writes import Terms, Write
from shared.errors import MoveRefused, StoreUnavailable
from shared.jobs import JobType
from shared.operations.mend import keep_payload, mend
from shared.operations.record import record_lapsed_run
from shared.operations.run.invocation import Invocation
from shared.ports import Message

T = TypeVar("T")

DECISIONS = 4
"""Races lost in a row before the message is left for later."""

TRIES_ELSEWHERE = 8
"""Receives up to which a suspect looks for a process with room. Then it is requeued, and its new doorbell says what it
is; on a FIFO lane, where it would lose its place, it waits for the healthy jobs beside it.
"""

NO_TIME_WAIT = timedelta(seconds=30)
"""A suspect waited for its neighbours until too little time was left: the next invocation is another one."""

NO_ROOM_WAIT = timedelta(seconds=30)
READ_BACK_TRIES, READ_BACK_EVERY = 10, timedelta(milliseconds=500)
ONE_CALL = timedelta(seconds=20)
"""What one call to the table may take with its repeats (lambdas/worker: three of 1 + 5 s), and the answer after it."""


@dataclass(slots=True)
class Delivery:
    """One message with its bell. holder: the token of its lease, "" before it asked for one.

    Its methods raise StoreUnavailable, and RingRefused where a message that belongs to no job cannot be set aside.
    """

    message: Message
    bell: Bell
    invocation: Invocation
    holder: str = ""

    def lease(self, job_type: JobType) -> Job | Outcome:
        """The leased job, or how the delivery ended without one."""
        if self.bell.suspect and (wait := self._room_alone(job_type)) is not None:
            return self._no_room(wait)
        self.holder = self.invocation.ports.token()
        try:
            return self._in_time(
                self._leased(lambda terms: writes.lease(self.bell.dispatch, terms), job_type), job_type
            )
        except MoveRefused as e:
            return self.follow(e.found, lambda found: self._take(found, job_type))

    def defer(self, why: str, wait: timedelta) -> Outcome:
        """Leave the job for another worker, without spending an attempt."""
        ports, now = self.invocation.ports, self.invocation.ports.clock.now()
        leaves = leaves_its_message(wait, self.message.receives, self.invocation.lane.queue.fifo)
        write = writes.defer_unleased(
            self.bell.job_id, self.bell.dispatch, why, now + wait, now, leaves_message=leaves
        )  # fmt: skip
        try:
            ports.store.make(self.bell.job_id, write)
        except MoveRefused as e:
            return self.follow(e.found, self._wait)
        if not leaves:
            self.invocation.come_back([self.message], [wait])
        self._say("deferred", level="warning", state=State.RETRYING, why=why)
        return Outcome.DEFERRED_IN_DUE if leaves else Outcome.DEFERRED

    def follow(self, found: Job | None, take: Callable[[Job], T]) -> T | Outcome:
        """What the record found means, and each that a lost race brings. take: what to do about a job that is this
        delivery's own, or whose worker vanished.
        """
        for _ in range(DECISIONS):
            try:
                return self._follow(found, take)
            except MoveRefused as e:
                found = e.found
        return self._wait(found)

    def requeue(self, found: Job) -> Outcome:
        """A fresh doorbell for a job whose worker vanished. Raises MoveRefused."""
        mend(found, writes.requeue(found, self.invocation.ports.clock.now()), self.invocation.ports)
        return Outcome.STALE

    def _follow(self, found: Job | None, take: Callable[[Job], T]) -> T | Outcome:
        if found is None:
            return self._orphaned()
        now = self.invocation.ports.clock.now()
        match found_by_message(found, self.bell, self.holder, now, DEFAULT_STALL_LIMIT):
            case Ours() | TakeOver():
                return take(found)
            case End(write, outcome):
                return self._end(found, write, outcome)
            case Stale():
                self._say("dropped", state=found.state, dispatch=self.bell.dispatch)
                return Outcome.STALE
            case Wait():
                return self._wait(found)

    def _orphaned(self) -> Outcome:
        self.invocation.ports.mailbox.set_aside(self.message, "no job has this id")
        self._say("orphaned", level="error", state="gone")
        return Outcome.ORPHANED

    def _end(self, found: Job, write: Write, outcome: Outcome) -> Outcome:
        ports = self.invocation.ports
        if outcome is Outcome.REPLAYED:
            keep_payload(found, write.changes["deadline_at"], ports.store)  # one that is gone: its run says so
        after = mend(found, write, ports)
        self._say(outcome.value, attempt=found.attempts, state=after.state)
        return outcome

    def _wait(self, found: Job | None) -> Outcome:
        for_ = wait(found, self.invocation.ports.clock.now(), unready(self.message.receives))
        self.invocation.come_back([self.message], [for_])
        state = "gone" if found is None else found.state
        self._say("waiting", state=state, wait_ms=for_ // timedelta(milliseconds=1))
        return Outcome.WAITING

    # ---- the lease ---------------------------------------------------------------------------------------------------

    def _leased(self, write: Callable[[Terms], Write], job_type: JobType) -> Job:
        ports = self.invocation.ports
        ends_at = self.invocation.hidden_since(self.message) + job_type.lease
        now = ports.clock.now()  # after that, which may have asked SQS: what holds then must hold
        terms = Terms(holder=self.holder, started_at=now, ends_at=ends_at, code_version=ports.code_version)
        try:
            return ports.store.apply(self.bell.job_id, write(terms))
        except StoreUnavailable:
            # The write may have landed without its answer. Left alone, the lease would lapse and count as a stall.
            landed = self._read_back()
            if landed is None or landed.holder != self.holder:
                raise
            return landed

    def _in_time(self, job: Job, job_type: JobType) -> Job:
        """A lease that was over before its answer came (the SDK's repeats take up to 18 s, a frozen process longer) is
        renewed before anything begins under it: another worker may have the job by now. Raises MoveRefused.
        """
        ports, own = self.invocation.ports, Lease(job.job_id, job.run, self.holder)
        now = ports.clock.now()
        if own.lasts(job, now):
            return job
        renewed = ports.store.apply(job.job_id, writes.renew(own, now + job_type.lease))
        ports.mailbox.hide([self.message], [job_type.lease + REDELIVERY_MARGIN])
        return self._in_time(renewed, job_type)

    def _take(self, found: Job, job_type: JobType) -> Job | Outcome:
        """Its own lease after all, or one that lapsed. Raises MoveRefused."""
        if found.holder == self.holder:
            return self._in_time(found, job_type)
        if (wait := self._room_alone(job_type)) is not None:
            return self._suspect_waits(found, wait)
        job = self._leased(lambda terms: writes.reclaim(found, terms), job_type)
        record_lapsed_run(found, State.RUNNING, self.invocation.ports)
        return self._in_time(job, job_type)

    def _read_back(self) -> Job | None:
        """The record, asked for until the table answers, for some seconds. Raises StoreUnavailable."""
        ports = self.invocation.ports
        for tries_left in reversed(range(READ_BACK_TRIES)):
            try:
                return ports.store.get(self.bell.job_id)
            except StoreUnavailable:
                if not tries_left or self.invocation.time_left() < ONE_CALL:
                    raise
                ports.pause(READ_BACK_EVERY)
        raise AssertionError("no try at all")

    # ---- suspects ----------------------------------------------------------------------------------------------------

    def _room_alone(self, job_type: JobType) -> timedelta | None:
        """Have the process to itself, before a job whose worker vanished is started again. None: it has; else there is
        no room, and the message shall wait this long: not at all where others are in the way, for another process to
        take it.

        A suspect that waited for its neighbours is content with its lease: its deadline is what is left then, and once
        it has failed at that it is no suspect any more.
        """
        fifo = self.invocation.lane.queue.fifo
        if not self.invocation.turns.alone(waits=fifo and self.message.receives > TRIES_ELSEWHERE):
            return timedelta()
        return None if self.invocation.has_time_for(min(job_type.deadline, job_type.lease)) else NO_TIME_WAIT

    def _suspect_waits(self, found: Job, wait: timedelta) -> Outcome:
        """There was no room for it alone: again soon, and after some tries under a new doorbell, which says that it is
        a suspect, so that its batch makes room first.
        """
        if self._soon_again(TRIES_ELSEWHERE, wait):
            return Outcome.RELEASED
        return self.requeue(found)

    def _no_room(self, wait: timedelta) -> Outcome:
        """As above, for a suspect that was requeued: nobody holds it, so a fresh doorbell is a wait in `due`."""
        if self._soon_again(RECEIVE_LIMIT, wait):
            return Outcome.RELEASED
        return self.defer("its worker vanished; waits to run alone", NO_ROOM_WAIT)

    def _soon_again(self, most_receives: int, wait: timedelta) -> bool:
        again = self.invocation.lane.queue.fifo or self.message.receives <= most_receives
        if again:
            self.invocation.come_back([self.message], [max(wait, elsewhere(self.message.receives))])
        return again

    def _say(self, event: str, *, level: str = "info", **fields: Any) -> None:
        self.invocation.ports.log.event(event, level=level, job=self.bell.job_id, type=self.bell.type, **fields)
