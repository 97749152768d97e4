"""What is printed at the end: a table of the phases, the times from kill to start, and every broken promise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.domain.states import State
from tests.crash.checks import Broken, stalled_with_cause, unknown_outcome
from tests.crash.evidence import Evidence
from tests.crash.faults import ABORTED, REFUSED
from tests.crash.faults import LOST as LOST_ANSWER
from tests.crash.kills import API, RELAY, WORKER
from tests.crash.phases import Ran
from tests.crash.takeover import PROMISED_SECONDS, Takeover, median_p95_max

LOST = {"an accepted job has its record", "every job comes to an end"}
DOUBLED = {
    "one key, one job",
    "a recorded effect is never called again",
    "one run calls an effect once",
    "an at-most-once effect is called once, or a human hears of it",
    "one at a time for each ordering key",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One phase, judged."""

    ran: Ran
    broken: Sequence[Broken]
    takeovers: Sequence[Takeover]
    repairs: str
    evidence: Evidence

    def row(self) -> list[str]:
        """Its line of the table."""
        ended = [(self.evidence.records.get(one.job_id), one.kind) for one in self.ran.planned]
        jobs = [(job, kind) for job, kind in ended if job is not None]
        return [
            self.ran.phase.name,
            f"{sum(a.accepted_at is not None for a in self.ran.answered)}/{len(self.ran.planned)}",
            "/".join(str(sum(kill.kind == kind for kill in self.ran.kills)) for kind in (WORKER, RELAY, API)),
            "/".join(str(self._fired(kind)) for kind in (REFUSED, ABORTED, LOST_ANSWER)),
            str(self._count(LOST)),
            str(self._count(DOUBLED)),
            str(sum(job.state is State.DEAD and kind.ends is State.DEAD for job, kind in jobs)),
            str(sum(unknown_outcome(job, kind) for job, kind in jobs)),
            str(sum(not kind.poison and stalled_with_cause(job, self.evidence) for job, kind in jobs)),
            str(len(self.evidence.unrecorded)),
            str(len(self.takeovers)),
            _times([one.total for one in self.takeovers if one.first]),
            _times([one.total for one in self.takeovers]),
        ]

    def _count(self, promises: set[str]) -> int:
        return len({broken.job_id for broken in self.broken if broken.promise in promises})

    def _fired(self, kind: str) -> int:
        return sum(times for name, times in self.ran.fired.items() if name.endswith(f" {kind}"))


HEAD = [
    "phase", "accepted", "kills w/r/a", "faults r/a/l", "lost", "doubled", "dead as due", "unknown outcome",
    "hit twice", "end not recorded", "interrupted", "kill→start first", "kill→start all",
]  # fmt: skip


def _times(seconds: Sequence[float]) -> str:
    return "–" if not seconds else " / ".join(f"{value:.1f}" for value in median_p95_max(seconds))


def table(results: Iterable[Result]) -> str:
    """The phases, a line each, under their headings."""
    rows = [HEAD, *(result.row() for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def slowest(takeovers: Sequence[Takeover], most: int = 12) -> str:
    """The longest waits from kill to start, and what each consisted of."""
    late = sorted(takeovers, key=lambda one: -one.total)[:most]
    lines = [
        f"  {one.job_id}  {one.total:5.1f} s = lease and margin {one.lease:5.1f} + poll {one.poll:4.1f} + cold "
        f"{one.cold:4.1f} + behind another {one.behind:4.1f} + handler {one.handler:4.1f}"
        f"{' *' * one.first}{' swept' * one.swept}"
        for one in late
    ]
    over = sum(one.total > PROMISED_SECONDS for one in takeovers)
    return "\n".join(
        [f"{over} of {len(takeovers)} later than {PROMISED_SECONDS:.0f} s; the longest (* first of its kill):", *lines]
    )
