"""Everything the checks look at, and what can be read from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.domain.job import Job
from tests.crash.client import Answered
from tests.crash.kills import Kill
from tests.crash.ledger import Ledger, Start
from tests.crash.sight import Lying

POISON = "crash-poison"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """records: every job of the table by id · lying: the messages left after the last sweep · swept: job id and time
    of each repair of a sweep · lapsed: runs that were taken back from a silent worker · now: epoch seconds.
    """

    answered: Sequence[Answered]
    records: Mapping[str, Job]
    ledger: Ledger
    kills: Sequence[Kill]
    lying: Sequence[Lying]
    now: float
    swept: Sequence[tuple[str, float]] = ()
    lapsed: frozenset[tuple[str, int]] = frozenset()

    def starts_of(self, job_id: str) -> list[Start]:
        """The runs of a job that reached its handler, in order."""
        return [start for start in self.ledger.starts if start.job_id == job_id]

    def died_at(self, start: Start) -> float | None:
        """When the process of this run was killed, by the test or by a poison job in it; None for one that was not."""
        kills = [kill.at for kill in self.kills if kill.pid == start.pid]
        poison = [self._last_sign(start.pid)] if start.pid in self._poisoned else []
        return min([*kills, *poison], default=None)

    def hit(self, start: Start) -> bool:
        """Whether its process was killed while this run was current: in its handler, or between that and its record."""
        seen = {(hit.job_id, hit.run) for kill in self.kills for hit in kill.interrupted}
        return (start.job_id, start.run) in seen

    def vanished(self, job_id: str) -> int:
        """How many runs of a job ended without a word: killed in their handler, or between lease and handler."""
        began = self.starts_of(job_id)
        killed = [s for s in began if s.mark not in self.ledger.ends and self.died_at(s) is not None]
        # A run that ended its handler may still have been killed before its record; it was seen by the kill itself.
        seen = {(hit.job_id, hit.run) for kill in self.kills for hit in kill.interrupted}
        after_end = [s for s in began if s.mark in self.ledger.ends and (job_id, s.run) in seen]
        return len(killed) + len(after_end) + self.never_began(job_id)

    def last_word(self, job_id: str) -> int:
        """The last run of a job whose handler ended in a process that nobody killed meanwhile; 0 if none did."""
        seen = {(hit.job_id, hit.run) for kill in self.kills for hit in kill.interrupted}
        ended = [s.run for s in self.starts_of(job_id) if s.mark in self.ledger.ends and (job_id, s.run) not in seen]
        return max(ended, default=0)

    def never_began(self, job_id: str) -> int:
        """Runs that were leased and never reached their handler."""
        record = self.records.get(job_id)
        return 0 if record is None else record.run - len({start.run for start in self.starts_of(job_id)})

    @property
    def unrecorded(self) -> set[tuple[str, int]]:
        """Runs whose handler ended, in a process nobody killed, and whose end the table did not take."""
        seen = {(hit.job_id, hit.run) for kill in self.kills for hit in kill.interrupted}
        ended = {(start.job_id, start.run) for start in self.ledger.starts if start.mark in self.ledger.ends}
        return (self.lapsed & ended) - seen

    @property
    def _poisoned(self) -> set[int]:
        poison = {job_id for job_id, job in self.records.items() if job.type == POISON}
        return {start.pid for start in self.ledger.starts if start.job_id in poison}

    def _last_sign(self, pid: int) -> float:
        marks = {start.mark for start in self.ledger.starts if start.pid == pid}
        signs = [start.at for start in self.ledger.starts if start.pid == pid]
        return max([*signs, *(call.at for call in self.ledger.calls if call.mark in marks)])
