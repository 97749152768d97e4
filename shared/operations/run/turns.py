"""Turns: who may run beside whom in one worker process.

A job whose worker vanished may be what made it vanish. Were it started again beside others, its second crash would be
theirs too, and the stall limit would stop innocent jobs with it (SCENARIOS 3). So a reclaimed job runs alone.

Nobody waits long behind a suspect: after SECONDS_IN_THE_WAY the message goes back, and another process takes it. Else a
batch of ten that one crash returned would run one after the other, for as long as ten deadlines. Whether a suspect
waits for the healthy jobs beside it is its caller's to say (delivery.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

SECONDS_IN_THE_WAY = 0.3
"""Of another job, before the process is left to it: a short job is waited for, a long one is not."""


class Turns:
    """Any number of jobs side by side, or one suspect alone. `given_up`: nothing will free the way any more."""

    def __init__(self, given_up: Callable[[], bool]) -> None:
        self._changed = threading.Condition()
        self._given_up = given_up
        self._beside = 0
        self._alone_thread: int | None = None
        self._alone_since = 0.0

    def beside(self) -> bool:
        """Take a place beside others, once no suspect runs. False when given up, or behind a suspect for too long."""
        with self._changed:
            if not self._wait(lambda: self._alone_thread is None):
                return False
            self._beside += 1
            return True

    def alone(self, *, waits: bool) -> bool:
        """Exchange the place for the whole process, once all others have ended. False when given up, behind another
        suspect for too long, or unless it `waits` behind healthy jobs; the place is kept then.
        """
        with self._changed:
            if self._alone_thread == threading.get_ident():
                return True  # a race was lost and the takeover is tried again
            self._beside -= 1
            self._changed.notify_all()
            patience = None if waits else SECONDS_IN_THE_WAY
            if not self._wait(lambda: self._alone_thread is None and self._beside == 0, patience):
                self._beside += 1
                return False
            self._alone_thread, self._alone_since = threading.get_ident(), time.monotonic()
            return True

    def done(self) -> None:
        """The job of this place has ended."""
        with self._changed:
            if self._alone_thread == threading.get_ident():
                self._alone_thread = None
            else:
                self._beside -= 1
            self._changed.notify_all()

    def _wait(self, free: Callable[[], bool], patience: float | None = None) -> bool:
        begun = time.monotonic()
        while not self._given_up():
            if free():
                return True
            now = time.monotonic()
            if self._alone_thread is not None and now - max(self._alone_since, begun) > SECONDS_IN_THE_WAY:
                return False
            if self._alone_thread is None and patience is not None and now - begun > patience:
                return False
            self._changed.wait(0.05)
        return False
