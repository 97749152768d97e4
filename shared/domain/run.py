"""What a handler sees while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file a job wrote: its key in the bucket, size in bytes and media type. A handler returns it as its result."""

    key: str
    size: int
    content_type: str


@dataclass(frozen=True, slots=True)
class Defer:
    """Returned by a handler: not now, look again after this long. Spends no attempt."""

    for_: timedelta
    reason: str = "deferred by its handler"


@dataclass(frozen=True, slots=True)
class Continue:
    """Returned by a handler: go on in another run from this checkpoint (small, JSON values, different from the last
    one). Spends no attempt.
    """

    checkpoint: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Returned by a handler: this job is not wanted any more."""

    reason: str


class Files(Protocol):
    """Job files in the bucket. Raises TransientFailure (code "s3-…") for throttling and outages."""

    def read(self, key: str) -> bytes:
        """The file's bytes. Raises DeterministicFailure (code "file-missing") naming the key."""

    def write(self, key: str, data: bytes, content_type: str) -> StoredFile:
        """Store the bytes under a deterministic key; a repeat overwrites with the same name. Atomic: no reader ever
        sees a part.
        """


class Run(Protocol):
    """What a handler knows and may do while it runs.

    last_error_code  how the last attempt failed, None if none did
    """

    job_id: str
    attempt: int
    last_error_code: str | None
    tenant: str | None
    idempotency_key: str
    files: Files
    checkpoint: Mapping[str, Any] | None
    stage: str

    @property
    def time_left(self) -> timedelta:
        """Until this attempt's deadline, or until the worker must end, whichever is first. A long handler that sees
        it shrink returns Continue.
        """

    def once(self, name: str, fn: Callable[[], T], *, at_most_once: bool = False) -> T:
        """Run `fn` at most once to success for this job, whatever is delivered or retried how often, and return its
        outcome: the stored one when it already succeeded. Outcomes are JSON values of at most 1 KB.

        A run that was interrupted inside `fn` leaves it to the next run, which calls `fn` again: give the provider
        `idempotency_key`. With at_most_once it is never called again; the job stops for a human (`unknown-outcome`).
        Raises LeaseLost when another worker has the job: let it pass.
        """

    def progress(self, done: int, total: int, unit: str) -> None:
        """Say how far the run has come. Renews the lease (at most each third of it) if the number moved; without
        movement the lease is left to end, so a hung handler loses its job. Raises LeaseLost when another worker has
        the job: let it pass.
        """
