"""Shorten a history that broke a promise: leave out what it can do without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.histories.history import Told, scripted_history
from tests.histories.plan import Plan
from tests.histories.world import Action

TRIES = 3000


class Shrinker:
    """Delta debugging over the script, then over the plan; each try must break the same promise."""

    def __init__(self, told: Told, tries: int = TRIES) -> None:
        assert told.broken is not None
        self._promise, self._left = told.broken.promise, tries
        self.best = told

    def shrink(self) -> Told:
        """The shortest history found."""
        before: Told | None = None
        while before is not self.best and self._left > 0:
            before = self.best
            self._script()
            self._plan()
        return self.best

    def _script(self) -> None:
        size = max(len(self.best.script) // 2, 1)
        while size and self._left > 0:
            start = 0
            while start < len(self.best.script) and self._left > 0:
                script = self.best.script
                if not self._try(self.best.plan, script[:start] + script[start + size :]):
                    start += size
            size //= 2

    def _plan(self) -> None:
        plan = self.best.plan
        self._try(replace(plan, skew_ms=0), self.best.script)
        for job in plan.jobs[1:] if len(plan.jobs) > 1 else ():
            now = self.best.plan
            self._try(replace(now, jobs=tuple(one for one in now.jobs if one is not job)), self.best.script)

    def _try(self, plan: Plan, script: Sequence[Action]) -> bool:
        self._left -= 1
        told = scripted_history(plan, script)
        same = told.broken is not None and told.broken.promise == self._promise
        shorter = len(told.script) < len(self.best.script) or plan != self.best.plan
        if same and shorter:
            self.best = told
        return same and shorter


def shrink(told: Told, tries: int = TRIES) -> Told:
    """A shorter history that breaks the same promise, with its story."""
    best = Shrinker(told, tries).shrink()
    return scripted_history(best.plan, best.script, story=True)
