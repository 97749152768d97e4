"""A crash test's evidence made by hand: jobs that ended as they should, in which a test then plants a violation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from shared.domain.doorbell import Bell
from shared.domain.job import EFFECT_COMPLETED, Effect, Job
from shared.domain.retry import FailureClass
from shared.domain.states import State
from tests.builders import NOW, a_job
from tests.crash.client import Answered
from tests.crash.evidence import Evidence
from tests.crash.kills import WORKER, Interrupted, Kill
from tests.crash.ledger import Call, End, Ledger, Start
from tests.crash.plan import KINDS, Kind, Planned
from tests.crash.sight import Lying

BY_TYPE = {kind.type: kind for kind in KINDS}
LATER = 10_000.0


@dataclass
class Story:
    """What happened. Times are seconds; every run takes one, and no two of them overlap unless a test says so."""

    answered: list[Answered] = field(default_factory=list)
    records: dict[str, Job] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    kills: list[Kill] = field(default_factory=list)
    lying: list[Lying] = field(default_factory=list)
    clock: float = 0.0

    @property
    def evidence(self) -> Evidence:
        return Evidence(
            answered=self.answered,
            records=self.records,
            ledger=self.ledger,
            kills=self.kills,
            lying=self.lying,
            now=LATER,
        )

    def accepted(self, type: str = "crash-plain", **fields: Any) -> str:
        """A job of this type with its 202 and its record, at its due end; nothing about its runs. Answers its id."""
        kind = BY_TYPE[type]
        planned = Planned(
            phase="kills",
            idempotency_key=f"key-{len(self.answered)}",
            kind=kind,
            seconds=1.0,
            tenant=None,
            ordering_key="north" if kind.ordered else None,
        )
        self.answered.append(Answered(planned, tries=1, job_ids={planned.job_id}, accepted_at=self.clock))
        job = a_job(job_id=planned.job_id, type=type, queue=kind.queue, state=kind.ends, outbox=None)
        self.records[job.job_id] = replace(job, **_end_of(kind), **fields)
        if kind.ends is State.DEAD:
            self.in_dead_letters(job.job_id)
        return planned.job_id

    def completed(self, type: str = "crash-plain") -> str:
        """The same, with its one run and each of its effects called once."""
        job_id, kind = self.accepted(type, run=1), BY_TYPE[type]
        self.ran(job_id, effects=kind.effects)
        self.record(job_id, effects={name: done(1) for name in kind.effects})
        return job_id

    def ran(self, job_id: str, run: int = 1, *, pid: int = 1, effects: tuple[str, ...] = (), ends: bool = True) -> str:
        """One run of one second; answers its mark."""
        mark, key = f"{job_id}-{run}-{self.clock}", "north" if self.records[job_id].type == "crash-ordered" else ""
        self.ledger.starts.append(
            Start(
                job_id=job_id, mark=mark, run=run, attempt=run, pid=pid, at=self.clock, leased_at=self.clock,
                spawned_at=0.0, key=key,
            )
        )  # fmt: skip
        for name in effects:
            self.called(job_id, name, mark)
        if ends:
            self.ledger.ends[mark] = End(mark=mark, at=self.clock + 1.0, how="returned")
        self.clock += 2.0
        return mark

    def called(self, job_id: str, effect: str, mark: str) -> None:
        self.ledger.calls.append(Call(job_id=job_id, effect=effect, mark=mark, at=self.clock))

    def killed(self, pid: int, *interrupted: Interrupted) -> None:
        self.kills.append(Kill(kind=WORKER, pid=pid, at=self.clock - 0.5, interrupted=interrupted))

    def record(self, job_id: str, **fields: Any) -> None:
        """Change its record."""
        self.records[job_id] = replace(self.records[job_id], **fields)

    def in_dead_letters(self, job_id: str, dispatch: int = 1, *, marked: bool = True) -> None:
        """A copy in its lane's DLQ."""
        self._lies(job_id, dispatch, marked=marked, dead_letter=True)

    def in_its_lane(self, job_id: str, *, visible_at: float = 0.0) -> None:
        """A doorbell still in its queue."""
        self._lies(job_id, 1, marked=False, dead_letter=False, visible_at=visible_at)

    def _lies(self, job_id: str, dispatch: int, *, marked: bool, dead_letter: bool, visible_at: float = 0.0) -> None:
        job = self.records[job_id]
        bell = Bell(job_id=job_id, dispatch=dispatch, type=job.type, payload_version=1, dead_letter=marked)
        self.lying.append(Lying(queue=job.queue, dead_letter=dead_letter, bell=bell, visible_at=visible_at))


def done(run: int) -> Effect:
    """An effect that this run completed."""
    return Effect(status=EFFECT_COMPLETED, run=run, at=NOW, outcome='{"outcome":1}')


def _end_of(kind: Kind) -> dict[str, Any]:
    if kind.ends is State.COMPLETED:
        return {}
    failure = FailureClass.STALLED if kind.poison else FailureClass.DETERMINISTIC
    return {"error_class": failure.value, "error_code": kind.error_code, "dead_at": NOW}
