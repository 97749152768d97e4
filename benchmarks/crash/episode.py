"""One system's share of the run: start it, kill it in mid-job, watch it, count."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.crash.contender import Contender, NotStarted
from benchmarks.crash.journal import Line, Step, read
from benchmarks.crash.tally import Kill, Tally, interrupted_by, tally

FIRST_START_SECONDS = 60.0
QUIET_SECONDS = 1.0
"""No line for so long: all that the worker starts side by side is started, its effect is written, and where the
system records the effect it has had the time.
"""
LOOK_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class Episode:
    """A system whose worker was killed and replaced, and which is now being watched."""

    contender: Contender
    jobs: tuple[str, ...]
    kill: Kill

    def tally(self, window_seconds: float) -> Tally:
        """What had happened by so long after the kill."""
        end = self.kill.at + window_seconds
        return tally(self.jobs, [line for line in read(self.contender.journal) if line.at <= end], self.kill)

    def done(self) -> int:
        """Jobs that are done by now."""
        return len(self._done())

    def lost(self, unfinished: frozenset[str]) -> frozenset[str]:
        """Those that the system knows nothing of any more. Done meanwhile, or running now in a process that lives (some
        systems forget a job while it runs), is not lost.
        """
        kept = self.contender.keeps(sorted(unfinished))
        lines = read(self.contender.journal)  # after the store: what leaves it in between is in the journal by now
        living = frozenset(line.process for line in lines) - self.kill.processes
        return unfinished - kept - self._done() - interrupted_by(living, lines)

    def _done(self) -> frozenset[str]:
        return frozenset(line.job for line in read(self.contender.journal) if line.step is Step.DONE)


def begin(contender: Contender, count: int, work_seconds: float) -> Episode:
    """Up to the kill and the new worker. Raises NotStarted, also when nothing was there to be interrupted."""
    jobs = tuple(f"{contender.key}-{number:03}" for number in range(count))
    contender.start(jobs)
    _await_mid_job(contender, work_seconds)
    at = time.monotonic()
    processes = frozenset(contender.kill())
    if not interrupted_by(processes, read(contender.journal)):
        raise NotStarted(contender.about.name, "the kill interrupted no job: give the jobs more --seconds")
    return Episode(contender=contender, jobs=jobs, kill=Kill(at=at, processes=processes))


def _await_mid_job(contender: Contender, work_seconds: float) -> None:
    """Until the running jobs have had their effect, or the first of them is about to end."""
    latest = time.monotonic() + FIRST_START_SECONDS
    while not (lines := read(contender.journal)):
        contender.check()
        if time.monotonic() > latest:
            raise NotStarted(contender.about.name, f"no job started within {FIRST_START_SECONDS:.0f} s")
        time.sleep(LOOK_SECONDS)
    while not _mid_job(lines, work_seconds):
        time.sleep(LOOK_SECONDS)
        lines = read(contender.journal)


def _mid_job(lines: list[Line], work_seconds: float) -> bool:
    now = time.monotonic()
    first = min(line.at for line in lines if line.step is Step.START)
    return now - lines[-1].at >= QUIET_SECONDS or now - first >= work_seconds - QUIET_SECONDS
