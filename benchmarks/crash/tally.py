"""What a system's journal says about one kill. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.crash.journal import Line, Step


@dataclass(frozen=True, kw_only=True)
class Kill:
    """When it was (monotonic seconds), and which processes died."""

    at: float
    processes: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Names of jobs, and seconds.

    interrupted  a run of it died with its process, started and not done
    recovered    of them, done by the end of the window
    next_starts  of each interrupted job that was started again: seconds from the kill to that start
    effects      of each interrupted job: how often its effect is in the journal
    waiting      not started when the kill came
    waited       of them, done by the end of the window
    unfinished   all jobs that are not done
    """

    interrupted: frozenset[str]
    recovered: frozenset[str]
    next_starts: tuple[float, ...]
    effects: tuple[int, ...]
    waiting: frozenset[str]
    waited: frozenset[str]
    unfinished: frozenset[str]

    @property
    def next_start(self) -> dict[str, float] | None:
        """The soonest, the median and the longest, in seconds; None when nothing was started again."""
        if not self.next_starts:
            return None
        return {"first": min(self.next_starts), "median": median(self.next_starts), "longest": max(self.next_starts)}


def tally(jobs: Collection[str], lines: Sequence[Line], kill: Kill) -> Tally:
    """Count. A run that went on in a process that did not die was not interrupted, whenever it started."""
    done = {line.job for line in lines if line.step is Step.DONE}
    begun = {line.job for line in lines if line.step is Step.START and line.at <= kill.at}
    interrupted = interrupted_by(kill.processes, lines)
    waiting = frozenset(jobs) - begun - interrupted
    effects = Counter(line.job for line in lines if line.step is Step.EFFECT)
    return Tally(
        interrupted=interrupted,
        recovered=interrupted & done,
        next_starts=tuple(first - kill.at for job, first in _restarts(lines, kill).items() if job in interrupted),
        effects=tuple(effects[job] for job in sorted(interrupted)),
        waiting=waiting,
        waited=waiting & done,
        unfinished=frozenset(jobs) - done,
    )


def interrupted_by(processes: Collection[int], lines: Sequence[Line]) -> frozenset[str]:
    """Jobs that one of these processes started and did not end."""
    ended = {(line.job, line.process) for line in lines if line.step is Step.DONE}
    started = {(line.job, line.process) for line in lines if line.step is Step.START}
    return frozenset(job for job, process in started - ended if process in processes)


def _restarts(lines: Sequence[Line], kill: Kill) -> dict[str, float]:
    """The first start of each job after the kill, by whoever lives."""
    firsts: dict[str, float] = {}
    for line in lines:
        if line.step is Step.START and line.at > kill.at and line.process not in kill.processes:
            firsts.setdefault(line.job, line.at)
    return firsts
