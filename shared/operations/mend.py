"""Mend: the write that ends, replays or rings anew a job which nobody runs; a worker's and the sweeper's alike."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from shared.domain.job import Job, beside_expires_at
from shared.domain.outcome import Alert
from shared.domain.states import State
from shared.domain.writes import Write
from shared.operations.record import RecordPorts, record_lapsed_run
from shared.ports import JobStore, Meter


class MendPorts(RecordPorts, Protocol):
    """What mending needs of a worker's or a sweeper's ports."""

    @property
    def meter(self) -> Meter: ...


def mend(found: Job, write: Write, ports: MendPorts) -> Job:
    """Make this move of the job that was found; returns the record after it. A run whose worker vanished is recorded,
    and of a job that grows too old a person is told.

    Raises MoveRefused where the job has moved on, StoreUnavailable.
    """
    if write.move.target is State.EXPIRED:
        ports.meter.alert(Alert.EXPIRED, queue=found.queue, type=found.type, job=found.job_id)
    after = ports.store.apply(found.job_id, write)
    if found.state is State.RUNNING:
        record_lapsed_run(found, after.state, ports)
    return after


def keep_payload(found: Job, deadline_at: datetime, store: JobStore) -> bool:
    """Keep the stored payload, if there is one, for a replay that ends at `deadline_at` the latest: its time to live
    was fixed for the job's former age. False: it is gone. Raises StoreUnavailable.
    """
    until = beside_expires_at(deadline_at)
    return found.payload_ref is None or store.renew_payload(found.job_id, found.payload_ref, until)
