"""The world that effects change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Provider:
    """Counts what was done: (job id, effect, number of the run that did it)."""

    calls: list[tuple[str, str, int]] = field(default_factory=list)

    def do(self, name: str, run: Any) -> Callable[[], str]:
        """An effect of this name, for `run.once`."""

        def effect() -> str:
            self.calls.append((run.job_id, name, run._lease.run))
            return f"{name}-ref"

        return effect

    def runs(self, job_id: str, name: str) -> list[int]:
        """The runs that called this effect, in order."""
        return [run for job, effect, run in self.calls if (job, effect) == (job_id, name)]
