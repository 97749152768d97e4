"""Watch: the deadlines of a batch's running handlers. Threads cannot be killed, so a hung one is fenced and the
process ends as soon as its neighbours are done (DESIGN §6).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from shared.domain.outcome import Outcome
from shared.ports import Clock, Message


@dataclass(eq=False, slots=True)
class Running:
    """One handler at work.

    lease_ends_at  asked anew each time: a handler that renews has a short lease and a long deadline
    shut           lets it begin no effect and report no progress any more
    fence          shuts it out and records the attempt as failed, told when this process ends; None if it ended first
    """

    message: Message
    deadline_at: datetime
    lease_ends_at: Callable[[], datetime]
    shut: Callable[[], None]
    fence: Callable[[datetime], Outcome | None]
    outcome: Outcome | None = None
    returned: bool = False

    @property
    def ends_at(self) -> datetime:
        """Its deadline, or the end of a lease it no longer renews: then another worker may take its job."""
        return min(self.deadline_at, self.lease_ends_at())


@dataclass(slots=True)
class Watch:
    """What runs now, and what was fenced. Once anything is fenced no new message starts."""

    clock: Clock
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _running: list[Running] = field(default_factory=list)
    hung: list[Running] = field(default_factory=list)

    def start(self, running: Running) -> None:
        """A handler is about to be called."""
        with self._lock:
            self._running.append(running)

    def end(self, running: Running) -> None:
        """It returned, or raised."""
        with self._lock:
            self._running = [one for one in self._running if one is not running]

    def seconds_to_next_deadline(self) -> float | None:
        """None when nothing runs; never negative."""
        with self._lock:
            waits = [(one.ends_at - self.clock.now()).total_seconds() for one in self._running]
        return max(min(waits), 0.0) if waits else None

    def fence_overdue(self) -> None:
        """Fence every handler past its deadline."""
        now = self.clock.now()
        with self._lock:
            overdue = [one for one in self._running if one.ends_at <= now]
            process_ends_at = max([one.deadline_at for one in self._running if one not in overdue], default=now)
        for one in overdue:
            one.shut()  # all of them before the first fence, which asks the table
        for one in overdue:
            one.outcome = one.fence(process_ends_at)
            self.end(one)
            if one.outcome is not None:
                self.hung.append(one)
