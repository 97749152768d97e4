"""Very many histories, in two processes, and what they came to."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tqdm import tqdm

from shared.domain.states import TABLE
from tests.histories.history import Told, random_history
from tests.histories.plan import draw

PROCESSES = 2
CHUNK = 50

UNUSED_ROWS = frozenset({"reschedule"})
"""No operation makes this move yet."""


@dataclass
class Tally:
    """What many histories came to. `broken`: seeds by the promise that did not hold."""

    histories: int = 0
    steps: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    states: Counter[tuple[str, str]] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    broken: dict[str, list[int]] = field(default_factory=dict)

    def add(self, told: Told) -> None:
        """One more."""
        self.histories += 1
        self.steps += len(told.script)
        self.faults.update(told.faults)
        self.states.update(told.states)
        self.rows.update(told.rows)
        if told.broken is not None:
            self.broken.setdefault(told.broken.promise, []).append(told.plan.seed)

    def join(self, other: Tally) -> None:
        """All of another's."""
        self.histories += other.histories
        self.steps += other.steps
        self.faults.update(other.faults)
        self.states.update(other.states)
        self.rows.update(other.rows)
        for promise, seeds in other.broken.items():
            self.broken.setdefault(promise, []).extend(seeds)

    @property
    def failures(self) -> int:
        """Histories that broke a promise."""
        return sum(len(seeds) for seeds in self.broken.values())

    @property
    def never(self) -> list[str]:
        """Rows of the table that no history exercised."""
        return [row.name for row in TABLE if not self.rows[row.name] and row.name not in UNUSED_ROWS]

    def table(self) -> str:
        """For people."""
        faults = ", ".join(f"{name} {count}" for name, count in self.faults.most_common())
        kinds: dict[str, list[str]] = {}
        for (kind, state), count in sorted(self.states.items()):
            kinds.setdefault(kind, []).append(f"{state} {count}")
        lines = [f"{self.histories} histories, {self.steps} steps, {self.failures} broken promises", "", "faults, acts"]
        lines += [f"  {faults or 'none'}", "", "states reached"]
        lines += [f"  {kind:16} {', '.join(states)}" for kind, states in kinds.items()]
        lines += ["", "rows of the table"]
        lines += [f"  {self.rows[row.name]:9} {row.name}" for row in TABLE if row.name not in UNUSED_ROWS]
        never = ", ".join(self.never) or "none"
        lines += [f"  never exercised: {never}; made by no operation yet: {', '.join(sorted(UNUSED_ROWS))}"]
        return "\n".join(lines)


def explore(seeds: range) -> Tally:
    """These histories, one after the other."""
    tally = Tally()
    for seed in seeds:
        tally.add(random_history(draw(seed)))
    return tally


def soak(first: int, histories: int, *, keep_going: bool) -> Tally:
    """All of them, with a bar. Stops after the first chunk with a broken promise unless told to keep going."""
    tally, end = Tally(), first + histories
    chunks = [range(start, min(start + CHUNK, end)) for start in range(first, end, CHUNK)]
    with tqdm(total=histories, unit=" histories", smoothing=0.05, mininterval=1) as bar:
        for part in _parts(chunks):
            tally.join(part)
            bar.update(part.histories)
            bar.set_postfix(failures=tally.failures)
            if tally.failures and not keep_going:
                break
    return tally


def _parts(chunks: list[range]) -> Iterator[Tally]:
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        yield from pool.imap_unordered(explore, chunks)
