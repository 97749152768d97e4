"""The world that effects change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shared.domain.job import Job


@dataclass
class Provider:
    """Counts what was done: (job id, effect, number of the run that did it). `strays`: those that were begun by a run
    which, by the record, had the job no longer.
    """

    look: Callable[[str], Job | None]
    calls: list[tuple[str, str, int]] = field(default_factory=list)
    strays: list[tuple[str, str, int]] = field(default_factory=list)

    def do(self, name: str, run: Any) -> Callable[[], str]:
        """An effect of this name, for `run.once`."""

        def effect() -> str:
            self.calls.append((run.job_id, name, run.held.lease.run))
            if not run.held.lease.is_of(self.look(run.job_id)):
                self.strays.append(self.calls[-1])
            return f"{name}-ref"

        return effect

    def runs(self, job_id: str, name: str) -> list[int]:
        """The runs that called this effect, in order."""
        return [run for job, effect, run in self.calls if (job, effect) == (job_id, name)]
