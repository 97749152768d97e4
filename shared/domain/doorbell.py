"""The doorbell: what a message carries, and nothing else matters."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.domain.job import JOB_ID, Job, tenants_own, to_ms
from shared.domain.states import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Bell:
    """The body of a message.

    type, payload_version  hints that let a worker refuse before it leases
    dead_letter            it is, or was redriven from, a copy that the relay sent to a DLQ
    suspect                its job's last worker vanished: the next one runs it alone in its process
    tenant                 whose job it is, on lanes with a share, where it waits for its turn; None elsewhere, and
                           where an older relay rang
    """

    job_id: str
    dispatch: int
    type: str
    payload_version: int
    dead_letter: bool = False
    suspect: bool = False
    tenant: str | None = None

    def body(self) -> str:
        """The JSON text of the message."""
        said = {
            "jobId": self.job_id,
            "dispatch": self.dispatch,
            "type": self.type,
            "payloadVersion": self.payload_version,
        }
        marks: dict[str, Any] = {
            name: True for name, holds in (("deadLetter", self.dead_letter), ("suspect", self.suspect)) if holds
        }
        marks |= {} if self.tenant is None else {"tenant": self.tenant}
        return json.dumps(said | marks, separators=(",", ":"))

    def deduplication_id(self, rung_at: datetime | None) -> str:
        """For FIFO queues. A relay that repeats itself is swallowed there; a repair that rings again is not."""
        said = f"{self.body()} {'' if rung_at is None else to_ms(rung_at)}"
        return hashlib.sha256(said.encode()).hexdigest()


def bell_of(job: Job, *, shared: bool) -> Bell:
    """The doorbell of a job that waits to run, or its copy for the DLQ. shared: its lane gives each tenant a share."""
    dead = job.state is State.DEAD
    return Bell(
        job_id=job.job_id,
        dispatch=job.dispatch,
        type=job.type,
        payload_version=job.payload_version,
        dead_letter=dead,
        suspect=not dead and job.stalls > 0,
        tenant=job.tenant if shared and not dead else None,
    )


def fifo_group(job: Job) -> str:
    """What a FIFO lane runs one at a time and in order: one tenant's one ordering key. A job without a key is ordered
    with nothing. A digest, because both in full can exceed the 128 characters of an SQS group.
    """
    return job.job_id if job.ordering_key is None else tenants_own(job.tenant, job.ordering_key).hex()


def parse(body: str) -> Bell | None:
    """The doorbell in a message body; None for a message that no relay sent."""
    try:
        said = json.loads(body)
        bell = Bell(
            job_id=said["jobId"],
            dispatch=said["dispatch"],
            type=said["type"],
            payload_version=said["payloadVersion"],
            dead_letter=said.get("deadLetter", False),
            suspect=said.get("suspect", False),
            tenant=said.get("tenant"),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    kinds = (str, int, str, int, bool, bool)
    values = (bell.job_id, bell.dispatch, bell.type, bell.payload_version, bell.dead_letter, bell.suspect)
    right = all(type(value) is kind for value, kind in zip(values, kinds, strict=True))
    right = right and (bell.tenant is None or type(bell.tenant) is str)
    return bell if right and JOB_ID.fullmatch(bell.job_id) else None
