"""The whole run: every system is started and killed in turn, then all are watched together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tqdm import tqdm

from benchmarks.crash.contender import About, Contender, NotStarted
from benchmarks.crash.episode import Episode, begin
from benchmarks.crash.tally import Tally
from local.processes import undisturbed


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Jobs per system; seconds that a job works; seconds that each system is watched after its kill."""

    jobs: int
    work_seconds: float
    window_seconds: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one system came to."""

    about: About
    tally: Tally
    lost: int

    @property
    def kept(self) -> int:
        """Not done within the window, but still known to the system."""
        return len(self.tally.unfinished) - self.lost


def run(contenders: Sequence[Contender], plan: Plan) -> tuple[list[Row], list[NotStarted]]:
    """A row for each system that ran whole, and what is wrong with the others. Ends all it started, also at Ctrl-C."""
    failures: list[NotStarted] = []
    try:
        episodes = _begin_all(contenders, plan, failures)
        _watch(episodes, plan.window_seconds)
        return _rows(episodes, plan, failures), failures
    finally:
        with undisturbed():
            for contender in contenders:
                contender.end()


def _begin_all(contenders: Sequence[Contender], plan: Plan, failures: list[NotStarted]) -> list[Episode]:
    episodes = []
    with tqdm(contenders, unit="system", bar_format="{desc:<40} {bar} {n_fmt}/{total_fmt} {elapsed}") as bar:
        for contender in bar:
            bar.set_description_str(f"starting and killing {contender.about.name}")
            try:
                episodes.append(begin(contender, plan.jobs, plan.work_seconds))
            except NotStarted as failure:
                failures.append(failure)
    return episodes


def _watch(episodes: Sequence[Episode], seconds: float) -> None:
    """Until the youngest kill is `seconds` old, or every job of every system is done."""
    if not episodes:
        return
    began, end = time.monotonic(), max(episode.kill.at for episode in episodes) + seconds
    jobs = sum(len(episode.jobs) for episode in episodes)
    with tqdm(total=round(end - began), unit="s", bar_format="{desc:<40} {bar} {n_fmt}/{total_fmt} s") as bar:
        while (now := time.monotonic()) < end and (done := sum(episode.done() for episode in episodes)) < jobs:
            bar.set_description_str(f"watching: {done} of {jobs} jobs done", refresh=False)
            bar.update(round(now - began) - bar.n)
            time.sleep(1)


def _rows(episodes: Sequence[Episode], plan: Plan, failures: list[NotStarted]) -> list[Row]:
    rows = []
    for episode in episodes:
        try:
            rows.append(_row(episode, plan))
        except NotStarted as failure:
            failures.append(failure)
    return rows


def _row(episode: Episode, plan: Plan) -> Row:
    """Raises NotStarted where the new worker has ended by itself."""
    episode.contender.check()
    counted = episode.tally(plan.window_seconds)
    return Row(about=episode.contender.about, tally=counted, lost=len(episode.lost(counted.unfinished)))
