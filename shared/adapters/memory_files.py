"""The in-memory twin of the bucket, versions included: the same promises under the same suite."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from shared.domain.run import StoredFile
from shared.errors import DeterministicFailure, TransientFailure

PIECE = 64 * 1024


class MemoryFiles:
    """shared.domain.run.Files in a dictionary; safe to share between threads."""

    def __init__(self) -> None:
        self._versions: dict[str, list[bytes]] = {}
        self._lock = threading.Lock()

    def read(self, key: str) -> bytes:
        """See Files."""
        with self._lock:
            if key not in self._versions:
                raise DeterministicFailure(f"{key} is missing in memory", code="file-missing")
            return self._versions[key][-1]

    def read_version(self, key: str, version: str | None) -> bytes:
        """What a link to that version would show; the latest for None."""
        with self._lock:
            return self._versions[key][-1 if version is None else int(version)]

    @contextmanager
    def reading(self, key: str, start: int = 0, tag: str | None = None) -> Iterator[_Reading]:
        """See Files."""
        found = _Reading(self.read(key), start)
        if tag not in (None, found.tag):
            raise TransientFailure(f"{key} was changed while it was read", code="file-changed")
        yield found

    def write(self, key: str, data: bytes, content_type: str) -> StoredFile:
        """See Files."""
        with self._lock:
            versions = self._versions.setdefault(key, [])
            versions.append(bytes(data))
            return StoredFile(key, len(data), content_type, str(len(versions) - 1))

    @contextmanager
    def writing(self, key: str, content_type: str) -> Iterator[Any]:
        """See Files."""
        sink = _Writing()
        yield sink
        sink.stored = self.write(key, bytes(sink.data), content_type)


class _Reading:
    def __init__(self, data: bytes, start: int) -> None:
        self._data, self._start = data, start
        self.size, self.tag = len(data), hashlib.sha256(data).hexdigest()

    def __iter__(self) -> Iterator[bytes]:
        for at in range(self._start, self.size, PIECE):
            yield self._data[at : at + PIECE]


@dataclass
class _Writing:
    data: bytearray = field(default_factory=bytearray)
    stored: StoredFile = field(init=False)

    def write(self, data: bytes) -> None:
        self.data += data
