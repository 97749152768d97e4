"""What a handler sees while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file a job wrote: its key in the bucket, size in bytes and media type. A handler returns it as its result."""

    key: str
    size: int
    content_type: str


class Files(Protocol):
    """Job files in the bucket. Raises TransientFailure (code "s3-…") for throttling and outages."""

    def read(self, key: str) -> bytes:
        """The file's bytes. Raises DeterministicFailure (code "file-missing") naming the key."""

    def write(self, key: str, data: bytes, content_type: str) -> StoredFile:
        """Store the bytes under a deterministic key; a repeat overwrites with the same name. Atomic: no reader ever
        sees a part.
        """


class Run(Protocol):
    """What a handler knows and may do while it runs."""

    job_id: str
    attempt: int
    tenant: str | None
    idempotency_key: str
    files: Files

    def progress(self, done: int, total: int, unit: str) -> None:
        """Say how far the run has come. Renews the lease (at most each third of it) if the number moved; without
        movement the lease is left to end, so a hung handler loses its job. Raises LeaseLost when another worker has
        the job: let it pass.
        """
