"""The jobs table, watched: every write is shown to those who check it, and every call is a stop of its process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from shared.adapters.memory import MemoryJobStore
from shared.domain.job import Job, RunRecord
from shared.domain.states import SUBMIT, SUBMIT_SCHEDULED, Seen, State, Transition
from shared.domain.writes import Write
from shared.errors import StoreUnavailable
from shared.ports import Row
from tests.histories.threads import Process

Watcher = Callable[[Job | None, Job, Transition, Seen], None]


class WatchedStore(MemoryJobStore):
    """The twin, telling `watch` (old record, new record, move, seen) of every write of a record, and `shortened` of a
    payload's job where it will be kept less long than before.
    """

    def __init__(self, watch: Watcher) -> None:
        super().__init__()
        self._watch = watch
        self.shortened: Callable[[str], None] = lambda job_id: None
        self._move: tuple[Transition, Seen] = (SUBMIT, Seen())

    def submit_with(self, job: Job, rows: Sequence[Row], now: datetime) -> None:
        """See JobStore."""
        self._move = (SUBMIT if job.state is State.QUEUED else SUBMIT_SCHEDULED, Seen(now=now))
        super().submit_with(job, rows, now)

    def apply(self, job_id: str, write: Write) -> Job:
        """See JobStore."""
        self._move = (write.move, write.seen)
        return super().apply(job_id, write)

    def put_payload(self, job_id: str, ref: bytes, payload: str, expires_at: datetime) -> None:
        """See JobStore."""
        before = self._payloads.get((job_id, ref))
        super().put_payload(job_id, ref, payload, expires_at)
        if before is not None and self._payloads[job_id, ref][1] < before[1]:
            self.shortened(job_id)

    def remove(self, job_id: str) -> None:
        """As TTL does."""
        del self._jobs[job_id]

    def peek(self, job_id: str) -> Job | None:
        """The record; asked inside a write too, where `get` would wait for itself."""
        return self._jobs.get(job_id)

    def jobs(self) -> list[Job]:
        """Every record, in the order of their submission."""
        return list(self._jobs.values())

    def _write(self, job: Job) -> None:
        old = self._jobs.get(job.job_id)
        super()._write(job)
        self.images.clear()  # the stream is kept by `watch`
        self._watch(old, job, *self._move)


def _unavailable() -> Exception:
    return StoreUnavailable("the table did not answer")


class Store:
    """JobStore of one process."""

    def __init__(self, process: Process, store: WatchedStore) -> None:
        self._process, self._store = process, store

    def submit(self, job: Job, now: datetime) -> None:
        self._call("submit", lambda: self._store.submit(job, now))

    def submit_with(self, job: Job, rows: Sequence[Row], now: datetime) -> None:
        self._call("submit", lambda: self._store.submit_with(job, rows, now))

    def apply(self, job_id: str, write: Write) -> Job:
        applied: Job = self._call(write.move.name, lambda: self._store.apply(job_id, write))
        return applied

    def make(self, job_id: str, write: Write) -> None:
        self._call(write.move.name, lambda: self._store.apply(job_id, write))

    def get(self, job_id: str) -> Job | None:
        found: Job | None = self._call("get", lambda: self._store.get(job_id))
        return found

    def due(self, shard: int, horizon: datetime) -> Sequence[str]:
        found: Sequence[str] = self._call("due", lambda: self._store.due(shard, horizon))
        return found

    def put_payload(self, job_id: str, ref: bytes, payload: str, expires_at: datetime) -> None:
        self._call("put payload", lambda: self._store.put_payload(job_id, ref, payload, expires_at))

    def renew_payload(self, job_id: str, ref: bytes, expires_at: datetime) -> bool:
        renewed: bool = self._call("renew payload", lambda: self._store.renew_payload(job_id, ref, expires_at))
        return renewed

    def end_payload(self, job_id: str, ref: bytes, expires_at: datetime) -> None:
        self._call("end payload", lambda: self._store.end_payload(job_id, ref, expires_at))

    def get_payload(self, job_id: str, ref: bytes) -> str | None:
        found: str | None = self._call("get payload", lambda: self._store.get_payload(job_id, ref))
        return found

    def record_run(self, record: RunRecord) -> None:
        self._call("record run", lambda: self._store.record_run(record))

    def runs(self, job: Job) -> Sequence[RunRecord]:
        return self._store.runs(job)

    def _call(self, label: str, act: Callable[[], Any]) -> Any:
        if self._process.world.away:
            self._process.struck.append("away")
            raise _unavailable()
        return self._process.call(label, act, _unavailable)
