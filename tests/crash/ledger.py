"""What the provider wrote down: when each run of a handler started and ended, and every call of an effect.

Times are epoch seconds of this machine, which functions, provider and emulator share.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A handler began. `run` and `leased_at` are its job's record at that moment, read strongly; `spawned_at` is when
    its process was started.
    """

    job_id: str
    mark: str
    run: int
    attempt: int
    pid: int
    at: float
    leased_at: float
    spawned_at: float
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A handler returned or raised (`how`); one that was killed never says so."""

    mark: str
    at: float
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The provider was called for an effect."""

    job_id: str
    effect: str
    mark: str
    at: float


@dataclass(slots=True)
class Ledger:
    """Filled by the provider's threads, read by everyone."""

    starts: list[Start] = field(default_factory=list)
    ends: dict[str, End] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def open_runs(self) -> list[Start]:
        """Runs that have started and not said how they ended, of killed processes too."""
        with self.lock:
            return [start for start in self.starts if start.mark not in self.ends]

    def latest_of(self, pid: int) -> list[Start]:
        """The last run of each job in this process, oldest first."""
        with self.lock:
            return list({start.job_id: start for start in self.starts if start.pid == pid}.values())

    def run_of(self, mark: str) -> int | None:
        """The number of the run that called itself by this mark; None for one that never started here."""
        with self.lock:
            return next((start.run for start in self.starts if start.mark == mark), None)
