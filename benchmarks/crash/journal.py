"""The journal: what jobs say about themselves, one line per step, appended by every worker of one system.

A line is `step job-name process-id time`, the time in seconds of the machine's monotonic clock, which all processes
share. Python, Node and the function processes of the local cloud write the same lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Step(StrEnum):
    """What a job says. The effect is the step that is counted."""

    START = "start"
    EFFECT = "effect"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Line:
    """One step of one run of a job: a run is known by its process, since no process runs a job twice in its life."""

    step: Step
    job: str
    process: int
    at: float


def read(path: Path) -> list[Line]:
    """Every whole line so far, in the order written; none while nobody has written."""
    if not path.exists():
        return []
    text = path.read_text()
    return [_line(raw) for raw in text[: text.rfind("\n") + 1].splitlines()]


def _line(raw: str) -> Line:
    step, job, process, at = raw.split()
    return Line(Step(step), job, int(process), float(at))
