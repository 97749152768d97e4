"""The in-memory twin of the jobs table: the same promises under the same suite, fast enough for a million moves."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from shared.domain.job import Job, RunRecord, own_runs
from shared.domain.moves import after, allowed
from shared.domain.quota import Standing
from shared.domain.share import charged
from shared.domain.states import SUBMIT, Seen
from shared.domain.writes import Write
from shared.errors import AlreadySubmitted, MoveRefused
from shared.ports import Row


class MemoryJobStore:
    """JobStore in a dictionary. `images` is its stream: every record as it was written, in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._payloads: dict[tuple[str, bytes], tuple[str, datetime]] = {}
        self._runs: dict[tuple[str, int], RunRecord] = {}
        self.rows: list[Row] = []
        self.images: list[Job] = []

    def submit(self, job: Job, now: datetime) -> None:
        """See JobStore."""
        self.submit_with(job, (), now)

    def submit_with(self, job: Job, rows: Sequence[Row], now: datetime) -> None:
        """See JobStore."""
        with self._lock:
            found = self._jobs.get(job.job_id)
            if not allowed(found, SUBMIT, Seen(now=now)):
                assert found is not None  # SUBMIT allows an absent record
                raise AlreadySubmitted(found)
            self._write(job)
            self.rows += rows

    def apply(self, job_id: str, write: Write) -> Job:
        """See JobStore."""
        write.move.check_changes(write.changes)
        with self._lock:
            found = self._jobs.get(job_id)
            if not allowed(found, write.move, write.seen) or found is None:
                raise MoveRefused(job_id, write.move.name, found)
            self._write(after(found, write.move, write.changes, write.seen.effect))
            return self._jobs[job_id]

    def make(self, job_id: str, write: Write) -> None:
        """See JobStore."""
        self.apply(job_id, write)

    def get(self, job_id: str) -> Job | None:
        """See JobStore."""
        with self._lock:
            return self._jobs.get(job_id)

    def due(self, shard: int, horizon: datetime) -> Sequence[str]:
        """See JobStore."""
        with self._lock:
            found = [j for j in self._jobs.values() if j.due_key == f"due#{shard}" and j.due_at and j.due_at <= horizon]
        return [job.job_id for job in sorted(found, key=lambda job: job.due_at or horizon)]

    def put_payload(self, job_id: str, ref: bytes, payload: str, expires_at: datetime) -> None:
        """See JobStore."""
        with self._lock:
            _, until = self._payloads.get((job_id, ref), ("", expires_at))
            self._payloads[job_id, ref] = payload, max(until, expires_at)

    def renew_payload(self, job_id: str, ref: bytes, expires_at: datetime) -> bool:
        """See JobStore."""
        payload = self.get_payload(job_id, ref)
        if payload is not None:
            self.put_payload(job_id, ref, payload, expires_at)
        return payload is not None

    def end_payload(self, job_id: str, ref: bytes, expires_at: datetime) -> None:
        """See JobStore."""
        with self._lock:
            if (kept := self._payloads.get((job_id, ref))) is not None:
                self._payloads[job_id, ref] = kept[0], min(kept[1], expires_at)

    def get_payload(self, job_id: str, ref: bytes) -> str | None:
        """See JobStore."""
        with self._lock:
            payload, _ = self._payloads.get((job_id, ref), (None, None))
            return payload

    def record_run(self, record: RunRecord) -> None:
        """See JobStore."""
        with self._lock:
            self._runs[record.job_id, record.run] = record

    def runs(self, job: Job) -> Sequence[RunRecord]:
        """See JobStore."""
        with self._lock:
            return own_runs(job, [self._runs[key] for key in sorted(self._runs) if key[0] == job.job_id])

    def expire_beside(self, now: datetime) -> None:
        """As TTL does, without its delay: payloads and history past their time are gone."""
        with self._lock:
            self._payloads = {key: kept for key, kept in self._payloads.items() if kept[1] >= now}
            self._runs = {key: run for key, run in self._runs.items() if run.expires_at >= now}

    def _write(self, job: Job) -> None:
        self._jobs[job.job_id] = job
        self.images.append(job)


class MemoryShares:
    """Shares in a dictionary."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._even_at: dict[tuple[str, str], datetime] = {}

    def even_at(self, queue: str, tenant: str) -> datetime | None:
        """See Shares."""
        with self._lock:
            return self._even_at.get((queue, tenant))

    def charge(self, queue: str, tenant: str, started_at: datetime, by: timedelta) -> None:
        """See Shares."""
        with self._lock:
            self._even_at[queue, tenant] = charged(self._even_at.get((queue, tenant)), started_at, by, share=1)


class MemoryCounters:
    """Counters in dictionaries."""

    def __init__(self) -> None:
        self._submits: Counter[tuple[str, int]] = Counter()
        self._open: dict[tuple[str, str], Standing] = {}

    def take(self, subject: str, minute: int, n: int) -> int:
        """See Counters."""
        self._submits[subject, minute] += n
        return self._submits[subject, minute]

    def standing(self, tenant: str) -> Standing:
        """See Counters."""
        months = [standing for (name, _), standing in self._open.items() if name == tenant]
        return Standing(sum(max(m.jobs, 0) for m in months), sum(max(m.waiting_bytes, 0) for m in months))

    def count(self, tenant: str, month: str, jobs: int, waiting_bytes: int) -> None:
        """See Counters."""
        old = self._open.get((tenant, month), Standing(0, 0))
        self._open[tenant, month] = Standing(old.jobs + jobs, old.waiting_bytes + waiting_bytes)
