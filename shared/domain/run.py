"""What a handler sees while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file a job wrote: its key in the bucket, size in bytes and media type. A handler returns it as its result.

    `version` tells this file from a later one under the same key, so that a completed job keeps the file it recorded;
    None in a bucket that keeps no versions.
    """

    key: str
    size: int
    content_type: str
    version: str | None = None


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


class Reading(Protocol):
    """A file that is read as it arrives. `size`: of all of it, in bytes; `tag`: another one for another content."""

    size: int
    tag: str

    def __iter__(self) -> Iterator[bytes]:
        """Its bytes from the start asked for, in pieces of at most 64 KiB."""


class Writing(Protocol):
    """A file that is written as it is made. `stored` is the file, once the `with` block that wrote it has ended."""

    stored: StoredFile

    def write(self, data: bytes) -> None:
        """The next bytes."""


class Files(Protocol):
    """Job files in the bucket. Raises TransientFailure (code "s3-…") for throttling and outages.

    A handler's reach no further than its own tenant's and job's, `<prefix><tenant>/…` and `work/<job id>/…`, under the
    prefixes of its lane (shared/queues.py) and those its type shares by name; other keys are a DeterministicFailure
    (code "file-out-of-reach").
    """

    def read(self, key: str) -> bytes:
        """The file's bytes. Raises DeterministicFailure (code "file-missing") naming the key."""

    def reading(self, key: str, start: int = 0, tag: str | None = None) -> AbstractContextManager[Reading]:
        """The file from byte `start` on, for what is too large to hold. Raises as `read`, and TransientFailure
        (code "file-changed") when it is not the file of that `tag` any more.
        """

    def write(self, key: str, data: bytes, content_type: str) -> StoredFile:
        """Store the bytes under a deterministic key; a repeat overwrites with the same name. Atomic: no reader ever
        sees a part.
        """

    def writing(self, key: str, content_type: str) -> AbstractContextManager[Writing]:
        """As `write`, for what is too large to hold. A block that raises stores nothing."""


class Run(Protocol):
    """What a handler knows and may do while it runs.

    last_error_code  how the last attempt failed, None if none did
    """

    job_id: str
    attempt: int
    last_error_code: str | None
    tenant: str | None
    idempotency_key: str
    checkpoint: Mapping[str, Any] | None
    stage: str

    @property
    def files(self) -> Files:
        """The files this job reaches."""

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
        Only what certainly was not done is begun again: refused (4xx), never sent, or NotDone raised by `fn`. So let
        such an `fn` make one call, by a client that makes one try.
        Raises LeaseLost when another worker has the job: let it pass.
        """

    def progress(self, done: int, total: int, unit: str) -> None:
        """Say how far the run has come. Renews the lease (at most each third of it) if the number moved; without
        movement the lease is left to end, so a hung handler loses its job. Raises LeaseLost when another worker has
        the job: let it pass.
        """
