"""The effects of one run: what was called, how it ended, and what of that the table has not taken yet."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from shared.domain.failures import classify
from shared.domain.job import Job
from shared.domain.not_done import proves_not_done
from shared.domain.reasons import before_that
from shared.domain.writes import Write
from shared.errors import DeterministicFailure, NotDone, StoreUnavailable, TransientFailure, UnknownOutcome
from shared.operations.run.held import Held
from shared.operations.run.insist import insist
from shared.ports import Guarded

T = TypeVar("T")
A = TypeVar("A")


@dataclass(slots=True)
class RunEffects:
    """See shared.domain.run.Run.once."""

    held: Held
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _active: set[str] = field(default_factory=set)
    _done: dict[str, Any] = field(default_factory=dict)
    _open: dict[str, BaseException] = field(default_factory=dict)
    _unsaid: dict[str, bool] = field(default_factory=dict)
    """By name, those whose last write was not answered, and whether they are at-most-once."""

    def once(self, name: str, fn: Callable[[], T], *, at_most_once: bool) -> T:
        """The outcome, of this call or of an earlier one. Raises what Effects.once raises, and for NotDone the failure
        that it carries.
        """
        with self._lock:
            if name in self._active:  # inside itself, or in another thread of the handler
                raise DeterministicFailure(f"effect {name!r} is already in progress in this run", code="effect-nested")
            self._active.add(name)
        try:
            return self._guarded(name, lambda: self._called(name, fn), at_most_once, self.held.has_time)
        except NotDone as e:
            not_done = e.failure
        finally:
            with self._lock:
                self._active.discard(name)
        raise not_done

    def report_unsaid(self) -> None:
        """What the table did not take while the handler ran, it is told before the run's end: what was done, so that no
        later run does it again, and which at-most-once start nothing began after, so that one may.
        """
        for name, at_most_once in list(self._unsaid.items()):
            settled = name in self._done or (at_most_once and name not in self._open)
            if settled and name not in self._active and self.held.may_report(timedelta()):
                with contextlib.suppress(Exception):
                    self._guarded(name, partial(self._as_it_ended, name), at_most_once, self.held.may_report)

    def _as_it_ended(self, name: str) -> Any:
        if name in self._done:
            return self._done[name]
        raise NotDone(TransientFailure(f"effect {name!r} was never begun"))

    def _guarded(self, name: str, fn: Callable[[], T], at_most_once: bool, has_time: Callable[[timedelta], bool]) -> T:
        ports, job_id = self.held.ports, self.held.job.job_id

        def apply(write: Write) -> Job:
            return self._insisting(name, at_most_once, lambda: ports.store.apply(job_id, write), has_time)

        def make(write: Write) -> None:
            self._insisting(name, at_most_once, lambda: ports.store.make(job_id, write), has_time)

        before = self._open.get(name)
        guarded = Guarded(self.held.lease, name, at_most_once, open=before is not None, apply=apply, make=make)
        try:
            outcome: T = ports.effects.once(guarded, fn)
        except UnknownOutcome as e:
            if before is None:
                raise
            failure = classify(before, ports.clock.now())
            raise UnknownOutcome(before_that(str(e), failure.for_callers)) from before
        return outcome

    def _insisting(
        self, name: str, at_most_once: bool, call: Callable[[], A], has_time: Callable[[timedelta], bool]
    ) -> A:
        try:
            answer = insist(call, has_time, self.held.job.job_id, self.held.ports)
        except StoreUnavailable:
            self._unsaid[name] = at_most_once
            raise
        self._unsaid.pop(name, None)
        return answer

    def _called(self, name: str, fn: Callable[[], T]) -> T:
        """Its outcome. Called again in the same run where the table did not take that, it is only recorded."""
        self.held.raise_if_closed(f"effect {name!r}")
        if name in self._done:
            outcome: T = self._done[name]
            return outcome
        try:
            self._done[name] = outcome = fn()
        except BaseException as e:
            if isinstance(e, NotDone):
                raise
            if isinstance(e, Exception) and proves_not_done(e):
                raise NotDone(e) from e
            self._open[name] = e
            raise
        return outcome
