"""What a history is about, drawn from its seed: jobs, workers, clocks, and which faults it may meet."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from tests.histories.kinds import KINDS, ROOMY, VERSION

STANDARD, FIFO = "emails.high", "webhooks.partner-a"
LETTERS = "ABC"
FAULTS = (
    "kill", "freeze", "lost", "unheard", "repeat", "some", "record-lost", "record-again", "copy", "purge", "throttle",
    "away",
)  # fmt: skip
PAYLOAD_BEYOND_THE_RECORD = 500
TEN_DAYS = 10 * 24 * 3600

T = TypeVar("T")


class Dice:
    """Seeded choices, by random.random() alone: the one method whose sequence Python keeps over its versions."""

    def __init__(self, seed: int) -> None:
        self.throw = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.throw() < probability

    def below(self, end: int) -> int:
        """0 to end - 1."""
        return int(self.throw() * end)

    def pick(self, options: Sequence[T]) -> T:
        """One of them."""
        return options[int(self.throw() * len(options))]

    def weighted(self, options: Sequence[tuple[float, T]]) -> T:
        """One of them, by weight."""
        left = self.throw() * sum(weight for weight, _ in options)
        for weight, option in options:
            left -= weight
            if left < 0:
                return option
        return options[-1][1]


@dataclass(frozen=True)
class JobPlan:
    """One job. delay 600: on its message; 3600: scheduled. `key`: its Idempotency-Key."""

    letter: str
    kind: str
    lane: str
    key: str | None
    delay_seconds: int
    max_age_seconds: int | None
    ordering_key: str | None
    tenant: str | None

    @property
    def type(self) -> str:
        """Its job type's name."""
        return f"{self.kind}@{self.lane}"


@dataclass(frozen=True)
class WorkerPlan:
    """One worker environment. `lacks` and `version`: an older code version's catalogue; `knows_move`: it knows already
    that a type has moved.
    """

    name: str
    lane: str
    lacks: str | None
    version: int
    knows_move: bool = True


@dataclass(frozen=True)
class Plan:
    """A history before it happens.

    skew_ms       each clock is off by so much, one way or the other
    steps         how long everything goes wrong; budget: at most so many faults; acts: of operators
    fault_weight  how likely faults are beside other steps, until the budget is spent; clock_weight: moves of the clock
    days          it may let days pass
    moved         a job type that is moved to another lane
    """

    seed: int
    jobs: tuple[JobPlan, ...]
    workers: tuple[WorkerPlan, ...]
    most_receives: int | None
    old_receipts: bool
    skew_ms: int
    steps: int
    budget: int
    acts: int
    faults: tuple[str, ...]
    fault_weight: float
    clock_weight: float
    days: bool
    moved: str | None = None

    @property
    def lanes(self) -> list[str]:
        """Those of its jobs and workers."""
        return list(dict.fromkeys(one.lane for one in (*self.jobs, *self.workers)))


@dataclass(frozen=True)
class Focus:
    """What histories are to be about, where it is not everything. `acts`: of operators, `budget`: of faults, at least;
    `old`: how likely some workers have an older code version; `days` may pass; `age`: the jobs' longest, in seconds;
    `moves`: how likely a type moves to another lane.
    """

    kinds: tuple[str, ...] = tuple(KINDS)
    lanes: tuple[str, ...] | None = None
    faults: tuple[str, ...] | None = None
    acts: int = 0
    budget: int = 0
    old: float = 0.25
    days: bool = False
    moves: float = 0.1
    skew_ms: int | None = None
    age: int | None = None


EVERYTHING = Focus()
THEMES = (
    Focus(kinds=("poison", "crashes-once", "reports", "hangs-once"), lanes=(STANDARD,), faults=("throttle", "kill")),
    Focus(kinds=("poison", "crashes-once", "one"), lanes=(FIFO,), faults=("throttle", "kill"), old=0.6),
    Focus(faults=("throttle",), old=1.0),
    Focus(kinds=("broken", "hopeless", "poison"), faults=("freeze", "record-lost", "throttle"), acts=6),
    Focus(faults=("lost", "unheard", "repeat")),
    Focus(faults=("freeze", "copy")),
    Focus(kinds=("plain", "one", "broken"), faults=("kill", "throttle", "copy"), acts=3, days=True),
    Focus(kinds=("restless", "far", "flaky", "plain"), faults=("away", "throttle"), days=True, age=TEN_DAYS),
    Focus(moves=1.0),
)
"""What comes about too seldom where everything may happen."""


def draw(seed: int, focus: Focus = EVERYTHING) -> Plan:
    """The plan of this seed."""
    dice = Dice(seed)
    if focus is EVERYTHING and dice.chance(0.35):
        focus = dice.pick(THEMES)
    lanes = dice.weighted([(5.0, (STANDARD,)), (3.0, (FIFO,)), (2.0, (STANDARD, FIFO))])
    lanes = focus.lanes or lanes
    jobs = tuple(
        _job(LETTERS[place], lanes, focus, dice) for place in range(dice.weighted([(4.0, 1), (4.0, 2), (2.0, 3)]))
    )
    moved = jobs[0].type if dice.chance(focus.moves) else None
    used = list(dict.fromkeys([*(job.lane for job in jobs), *((ROOMY,) if moved else ())]))
    old = dice.chance(focus.old)
    workers = tuple(
        _worker(f"worker{place}", used[place % len(used)], old and place < 2, jobs, dice)
        for place in range(2 * len(used) + dice.below(2))
    )
    faults = tuple(fault for fault in FAULTS if dice.chance(0.5)) or ("kill",)
    return Plan(
        seed=seed,
        jobs=jobs,
        workers=workers,
        most_receives=None if dice.chance(0.6) else 5,
        old_receipts=dice.chance(0.5),
        skew_ms=dice.pick((0, 0, 900, 990)) if focus.skew_ms is None else focus.skew_ms,
        steps=40 + dice.below(160),
        budget=max(dice.weighted([(1.0, 0), (2.0, 1), (3.0, 2), (3.0, 4), (2.0, 8)]), focus.budget),
        acts=max(dice.weighted([(4.0, 0), (2.0, 1), (2.0, 3), (1.0, 6)]), focus.acts),
        faults=focus.faults or faults,
        fault_weight=dice.pick((0.5, 1.0, 1.0, 3.0)),
        clock_weight=dice.pick((0.3, 1.0, 1.0, 3.0)),
        days=dice.chance(0.1) or focus.days,
        moved=moved,
    )


def _job(letter: str, lanes: Sequence[str], focus: Focus, dice: Dice) -> JobPlan:
    lane = dice.pick(lanes)
    return JobPlan(
        letter=letter,
        kind=dice.pick(focus.kinds),
        lane=lane,
        key=f"key-{letter}" if dice.chance(0.5) else None,
        delay_seconds=dice.weighted([(7.0, 0), (1.0, 600), (1.0, 3600)]),
        max_age_seconds=focus.age or dice.weighted([(6.0, None), (1.0, 60), (1.0, 240), (1.0, 1200)]),
        ordering_key="same" if lane == FIFO and dice.chance(0.6) else None,
        tenant="acme" if dice.chance(0.3) else None,
    )


def _worker(name: str, lane: str, old: bool, jobs: Sequence[JobPlan], dice: Dice) -> WorkerPlan:
    knows_move = dice.chance(0.5)
    if not old:
        return WorkerPlan(name, lane, None, VERSION, knows_move)
    lacks, version = (jobs[0].kind, VERSION) if dice.chance(0.5) else (None, 1)
    return WorkerPlan(name, lane, lacks, version, knows_move)
