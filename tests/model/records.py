"""The table at work on abstract records, and the decisions of the domain about them.

Every change is made by moves.allowed and moves.after with the rows of the table (or with one that was spoilt on
purpose); each distinct question is asked once and its answer kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from shared.domain.doorbell import Bell
from shared.domain.found import Meaning, found_by_message
from shared.domain.job import Job
from shared.domain.moves import after, allowed
from shared.domain.repair import Broken, broken, broken_by_message
from shared.domain.states import Seen, Transition
from tests.builders import NOW
from tests.model.record import AHEAD, EFFECT_NAME, PAST, Record, looks, record_of
from tests.model.writes import WRITTEN, changes

RETENTION = timedelta(days=20)
"""Of messages. Longer than PAST is ago: a doorbell is known to be lost by an empty queue, never by its age."""

LEASES: Mapping[str, datetime | None] = {"": None, "live": AHEAD, "lapsed": PAST}


class Records:
    """Every record met so far, and what the table makes of each.

    mutants  called with each question and its answer when it is asked first: for looking at spoilt tables beside it
    """

    def __init__(
        self,
        table: Mapping[str, Transition],
        stall_limit: int,
        mutants: Callable[[Job, Transition, Seen, dict[str, Any], Record | None], None] | None = None,
    ) -> None:
        self.table, self.stall_limit, self._mutants = table, stall_limit, mutants
        self._records: dict[tuple[object, ...], Record] = {}
        self._moves: dict[tuple[object, ...], Record | None] = {}
        self._times: dict[tuple[Record, str], Record] = {}
        self._meanings: dict[tuple[object, ...], Meaning] = {}
        self._repairs: dict[tuple[Record, bool], str | None] = {}
        self._fates: dict[tuple[object, ...], Broken | None] = {}

    def of(self, job: Job) -> Record:
        """The one record of all jobs that look alike to every guard."""
        key = looks(job)
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = record_of(job)
        return record

    def apply(
        self,
        record: Record | None,
        name: str,
        *,
        dispatch: int | None = None,
        run: int | None = None,
        holder: str | None = None,
        attempts: int | None = None,
        lease: str = "",
        outbox: str = "",
        marked: bool = False,
        reasoned: bool = False,
        page: int = 0,
        effect: str = "",
    ) -> Record | None:
        """The record after this move, or None where the table refuses it.

        dispatch … reasoned  what the caller had seen: a lease "live" or "lapsed", a mark of the relay,
                           a reason
        holder             also the token that a lease writes; page: the checkpoint; effect: the status written
        """
        if record is None:
            return None  # every move needs a record; only submit does not (see submit.py)
        key = (record, name, dispatch, run, holder, attempts, lease, outbox, marked, reasoned, page, effect)
        try:
            return self._moves[key]
        except KeyError:
            pass
        seen = self._seen(dispatch, run, holder, attempts, lease, outbox, marked, reasoned, page)
        row = self.table[name]
        written = changes(row, holder, page, effect, run)
        answer = self.ask(record.job, row, seen, written)
        if self._mutants is not None:
            self._mutants(record.job, row, seen, written, answer)
        self._moves[key] = answer
        return answer

    def _seen(
        self,
        dispatch: int | None,
        run: int | None,
        holder: str | None,
        attempts: int | None,
        lease: str,
        outbox: str,
        marked: bool,
        reasoned: bool,
        page: int,
    ) -> Seen:
        return Seen(
            now=NOW,
            dispatch=dispatch,
            run=run,
            holder=holder,
            attempts=attempts,
            lease_expires_at=LEASES[lease],
            outbox=outbox or None,
            published_at=PAST if marked else None,
            reason=WRITTEN["reason"] if reasoned else None,
            horizon=NOW,
            stall_limit=self.stall_limit,
            checkpoint={"page": page},
            effect=EFFECT_NAME,
        )

    def ask(self, job: Job, row: Transition, seen: Seen, changes: dict[str, Any]) -> Record | None:
        """What this row makes of the job."""
        return self.of(after(job, row, changes, seen.effect)) if allowed(job, row, seen) else None

    def lapse(self, record: Record) -> Record:
        """Its lease ends."""
        return self._in_time(record, "lease", lease_expires_at=PAST)

    def wait_over(self, record: Record) -> Record:
        """What it waits for has come."""
        times = {name: PAST for name in ("due_at", "next_attempt_at") if getattr(record.job, name) is not None}
        return self._in_time(record, "wait", **times)

    def grow_late(self, record: Record) -> Record:
        """Its deadline passes."""
        return self._in_time(record, "deadline", deadline_at=PAST)

    def rested(self, record: Record) -> Record:
        """The change of its lane was a while ago."""
        return self._in_time(record, "rest", rerouted_at=PAST)

    def _in_time(self, record: Record, what: str, **times: Any) -> Record:
        key = record, what
        if key not in self._times:
            self._times[key] = self.of(replace(record.job, **times))
        return self._times[key]

    def meaning(self, found: Record, dispatch: int, marked: bool, holder: str) -> Meaning:
        """What a worker makes of the record that a refused lease has found."""
        key = found, dispatch, marked, holder
        if key not in self._meanings:
            bell = _bell(found.job, dispatch, marked)
            self._meanings[key] = found_by_message(found.job, bell, holder, NOW, self.stall_limit)
        return self._meanings[key]

    def repair(self, record: Record, queue_empty: bool) -> str | None:
        """The move by which a sweeper would mend it."""
        key = record, queue_empty
        if key not in self._repairs:
            found = broken(record.job, NOW, queue_empty=queue_empty, retention=RETENTION, stall_limit=self.stall_limit)
            self._repairs[key] = None if found is None or found.write is None else found.write.move.name
        return self._repairs[key]

    def broken_by(self, found: Record, dispatch: int, marked: bool, away: bool = False) -> Broken | None:
        """What a message in the DLQ breaks. `away`: rung so long ago that the table may have been away."""
        key = found, dispatch, marked, away
        if key not in self._fates:
            job = replace(found.job, queued_at=PAST if away else NOW)
            self._fates[key] = broken_by_message(job, _bell(job, dispatch, marked), NOW)
        return self._fates[key]


def _bell(job: Job, dispatch: int, marked: bool) -> Bell:
    return Bell(job_id=job.job_id, dispatch=dispatch, type=job.type, payload_version=1, dead_letter=marked)
