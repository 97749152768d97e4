"""kill -9, at moments drawn from the seed, of function processes that have work in hand."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shared.domain.states import State
from tests.crash.ledger import Ledger
from tests.crash.processes import cpu_ns, lives
from tests.crash.provider import Look
from tests.e2e.functions import processes_of

WORKER, RELAY, API = "worker", "relay", "api"
PATIENCE_SECONDS = 10.0
"""How long a kill waits for a victim that is at work."""


Schedule = Mapping[str, Sequence[int]]
"""By kind of victim, after how many accepted jobs each kill comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """A job whose run was under way, and its lease alive, when its process was killed."""

    job_id: str
    run: int
    mark: str
    lease_expires_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One kill -9 (`at`: epoch seconds) and what it hit."""

    kind: str
    pid: int
    at: float
    interrupted: tuple[Interrupted, ...] = ()


@dataclass(slots=True)
class Killer:
    """Kills while its block lasts. prefix: of the functions' names · emulator: the process whose children they are."""

    ledger: Ledger
    look: Look
    prefix: str
    emulator: int
    dice: random.Random
    kills: list[Kill] = field(default_factory=list)

    @contextlib.contextmanager
    def at_work(self, schedule: Schedule, accepted: Callable[[], int]) -> Iterator[None]:
        """Carry out the schedule beside the block; `accepted` counts the jobs that have their 202."""
        over = threading.Event()

        def work(kind: str, moments: Sequence[int]) -> None:
            for moment in moments:
                while accepted() < moment:
                    if over.wait(0.02):
                        return
                self._kill(kind)

        threads = [threading.Thread(target=work, args=each) for each in schedule.items()]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def _kill(self, kind: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            pid = self._busy_worker() if kind == WORKER else self._busy_function(kind)
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.kills.append(self._told(kind, pid, time.time()))
                return
            time.sleep(0.02)

    def _busy_worker(self) -> int | None:
        working = sorted(pid for pid in {start.pid for start in self.ledger.open_runs()} if lives(pid, self.emulator))
        return self.dice.choice(working) if working else None

    def _busy_function(self, kind: str) -> int | None:
        """One whose CPU clock moves: relay and API have work for milliseconds at a time."""
        before = {pid: cpu_ns(pid) for pid in processes_of(f"{self.prefix}-{kind}", self.emulator)}
        time.sleep(0.01)
        return next((pid for pid, used in before.items() if cpu_ns(pid) > used), None)

    def _told(self, kind: str, pid: int, at: float) -> Kill:
        """The dead write nothing, so what their jobs' records say now is what they had in hand."""
        time.sleep(0.1)
        hit = []
        for start in self.ledger.latest_of(pid) if kind == WORKER else []:
            job = self.look(start.job_id)
            if job is not None and (job.state, job.run) == (State.RUNNING, start.run) and job.lease_expires_at:
                ends_at = job.lease_expires_at.timestamp()
                hit.append(Interrupted(job_id=job.job_id, run=job.run, mark=start.mark, lease_expires_at=ends_at))
        return Kill(kind=kind, pid=pid, at=at, interrupted=tuple(hit))


def schedule(jobs: int, dice: random.Random) -> Schedule:
    """A worker for each ten jobs, the relay and the API for each thirty. Told in jobs, not in seconds: on a slow
    machine the kills would else be over before there is work.
    """
    often = {WORKER: max(jobs // 10, 1), RELAY: max(jobs // 30, 1), API: max(jobs // 30, 1)}
    return {kind: sorted(dice.randint(1, jobs - 1 or 1) for _ in range(times)) for kind, times in often.items()}
