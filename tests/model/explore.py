"""A small explicit-state model checker: breadth first, so every trace is a shortest one.

Liveness is "from every reachable state some continuation without further faults reaches the goal" (AG EF over the fair
steps): on a finite graph, progress under a strongly fair scheduler.
"""

from __future__ import annotations

import gc
import sys
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

BOUND = "bound"
"""In place of a broken promise: the step leads out of what is explored, and nothing is said about what follows."""


class Step(NamedTuple):
    """One thing that may happen.

    fair    it happens without a fault: time, retries and repairs are fair, crashes and failing handlers are not
    broken  the promise that this step breaks; None if none
    """

    label: str
    state: Hashable
    fair: bool = True
    broken: str | None = None


class Explorable(Protocol):
    """What can be explored."""

    goals: Mapping[str, Callable[[Hashable], bool]]

    def initial(self) -> Hashable:
        """Where everything begins."""

    def steps(self, state: Hashable) -> Iterable[Step]:
        """Everything that may happen next."""


@dataclass(slots=True)
class Exploration:
    """What was found.

    broken    by promise: the shortest trace that breaks it
    stuck     by goal: the trace to a state from which it is out of reach
    bounds    by bound: how often it cut a step
    complete  every reachable state within the bounds was seen
    """

    states: int = 0
    steps: int = 0
    depth: int = 0
    complete: bool = True
    broken: dict[str, list[str]] = field(default_factory=dict)
    stuck: dict[str, list[str]] = field(default_factory=dict)
    bounds: dict[str, int] = field(default_factory=dict)

    @property
    def counterexamples(self) -> dict[str, list[str]]:
        """Every broken promise, with its trace."""
        return self.broken | {
            f"never {goal} again, without further faults": steps for goal, steps in self.stuck.items()
        }


def explore(model: Explorable, most_states: int, *, until_broken: bool = False) -> Exploration:
    """Walk every interleaving, up to so many states. `until_broken`: the first counterexample is enough."""
    collecting = gc.isenabled()
    gc.disable()  # it would walk the millions of tuples kept here again and again, and none of them is in a cycle
    try:
        return _Explorer(model, most_states, until_broken).run()
    finally:
        if collecting:
            gc.enable()


class _Explorer:
    def __init__(self, model: Explorable, most_states: int, until_broken: bool) -> None:
        self.model, self.most_states, self.until_broken = model, most_states, until_broken
        self.found = Exploration()
        self.order: list[Hashable] = []
        self.index: dict[Hashable, int] = {}
        self.parent, self.depth = array("l"), array("l")
        self.via: list[str] = []
        self.cut = bytearray()  # states with a step that was cut: liveness says nothing about them
        self.sources, self.targets = array("l"), array("l")

    def run(self) -> Exploration:
        """Everything within the bound."""
        self._discover(self.model.initial(), -1, "")
        at = 0
        while at < len(self.order) and not (self.until_broken and self.found.broken):
            if len(self.order) >= self.most_states:
                self.found.complete = False
                break
            self._expand(at)
            at += 1
        self.found.states, self.found.depth = len(self.order), self.depth[-1]
        if not self.found.broken or not self.until_broken:
            self._check_goals(at)
        return self.found

    def _expand(self, at: int) -> None:
        for label, state, fair, broken in self.model.steps(self.order[at]):
            self.found.steps += 1
            if broken is not None:
                self._cut(at, label, broken)
                continue
            target = self.index.get(state)
            if target is None:
                target = self._discover(state, at, label)
            if fair and target != at:
                self.sources.append(at)
                self.targets.append(target)

    def _discover(self, state: Hashable, parent: int, label: str) -> int:
        at = self.index[state] = len(self.order)
        self.order.append(state)
        self.parent.append(parent)
        self.depth.append(self.depth[parent] + 1 if at else 0)
        self.via.append(sys.intern(label))
        self.cut.append(0)
        return at

    def _cut(self, at: int, label: str, broken: str) -> None:
        self.cut[at] = 1
        if broken == BOUND:
            self.found.bounds[label] = self.found.bounds.get(label, 0) + 1
        elif broken not in self.found.broken:
            self.found.broken[broken] = [*self._trace(at), label]

    def _trace(self, at: int) -> list[str]:
        labels = []
        while at > 0:
            labels.append(self.via[at])
            at = self.parent[at]
        return labels[::-1]

    def _check_goals(self, expanded: int) -> None:
        starts, before = self._backwards()
        for name, reached in self.model.goals.items():
            lost = self._cannot_reach(reached, expanded, starts, before)
            if lost is not None:
                self.found.stuck[name] = self._trace(lost)

    def _backwards(self) -> tuple[array[int], array[int]]:
        """Every fair step turned round, by its target: those into state n are before[starts[n] : starts[n + 1]]."""
        starts = array("l", [0]) * (len(self.order) + 1)
        for target in self.targets:
            starts[target + 1] += 1
        for n in range(len(self.order)):
            starts[n + 1] += starts[n]
        free, before = array("l", starts), array("l", [0]) * len(self.targets)
        for source, target in zip(self.sources, self.targets, strict=True):
            before[free[target]] = source
            free[target] += 1
        return starts, before

    def _cannot_reach(
        self, reached: Callable[[Hashable], bool], expanded: int, starts: array[int], before: array[int]
    ) -> int | None:
        """The first state from which no fair continuation reaches the goal, if there is one."""
        good = bytearray(n >= expanded or self.cut[n] or reached(state) for n, state in enumerate(self.order))
        todo = [n for n, is_good in enumerate(good) if is_good]
        while todo:
            at = todo.pop()
            for edge in range(starts[at], starts[at + 1]):
                source = before[edge]
                if not good[source]:
                    good[source] = 1
                    todo.append(source)
        lost = good.find(0)
        return None if lost < 0 else lost
