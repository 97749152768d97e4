"""The files that one run reaches: those of its own tenant and job, under the prefixes of its lane."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from shared.domain.run import Files, Reading, StoredFile, Writing
from shared.errors import DeterministicFailure
from shared.queues import WORK, Queue

OUT_OF_REACH = "file-out-of-reach"


class OwnFiles:
    """shared.domain.run.Files within `<prefix><tenant>/` for every prefix of the lane, `work/<job id>/`, and what the
    job type shares by name. A job without a tenant has no files but its own work and the shared ones.

    Raises DeterministicFailure (file-out-of-reach) for any other key: a handler makes keys of its payload, and one that
    a caller chose well would be another tenant's.
    """

    def __init__(self, files: Files, queue: Queue, tenant: str | None, job_id: str, shared: Sequence[str]) -> None:
        self._files = files
        self._reads = _own(queue.reads, tenant, job_id, shared)
        self._writes = _own(queue.writes, tenant, job_id, shared)

    def read(self, key: str) -> bytes:
        """See Files."""
        return self._files.read(_within(self._reads, key, "read"))

    def reading(self, key: str, start: int = 0, tag: str | None = None) -> AbstractContextManager[Reading]:
        """See Files."""
        return self._files.reading(_within(self._reads, key, "read"), start, tag)

    def write(self, key: str, data: bytes, content_type: str) -> StoredFile:
        """See Files."""
        return self._files.write(_within(self._writes, key, "write"), data, content_type)

    def writing(self, key: str, content_type: str) -> AbstractContextManager[Writing]:
        """See Files."""
        return self._files.writing(_within(self._writes, key, "write"), content_type)

    def check_result(self, stored: StoredFile) -> None:
        """A result is handed to whoever may see the job, by a link that asks nobody: it must be the job's own."""
        _within((*self._reads, *self._writes), stored.key, "have as its result")


def _own(prefixes: Sequence[str], tenant: str | None, job_id: str, shared: Sequence[str]) -> tuple[str, ...]:
    owners = {prefix: job_id if prefix == WORK else tenant for prefix in prefixes}
    own = [f"{prefix}{owner}/" for prefix, owner in owners.items() if owner is not None]
    return (*own, *(prefix for prefix in shared if prefix.startswith(tuple(prefixes))))


def _within(reach: Sequence[str], key: str, verb: str) -> str:
    walks = any(part in ("", ".", "..") for part in key.split("/"))  # S3 takes "../" as it stands, others do not
    if walks or not key.startswith(tuple(reach)):
        found = ", ".join(reach) or "no files"
        raise DeterministicFailure(f"this job may not {verb} {key!r:.120}; it reaches {found}", code=OUT_OF_REACH)
    return key
