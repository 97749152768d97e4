"""What a handler is given while it runs, for tests of handlers alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from shared.adapters.memory_files import MemoryFiles
from shared.domain.not_done import proves_not_done
from shared.domain.run import Files
from shared.errors import UnknownOutcome


@dataclass
class HandledRun:
    """A run of one job; give it to the handler again for the next attempt. `effects` are the outcomes it keeps."""

    job_id: str = "job_01K00000000000000000000000"
    attempt: int = 1
    last_error_code: str | None = None
    tenant: str | None = "acme-eu"
    idempotency_key: str = "job_01K00000000000000000000000"
    files: Files = field(default_factory=MemoryFiles)
    checkpoint: Mapping[str, Any] | None = None
    stage: str = "local"
    time_left: timedelta = timedelta(seconds=18)
    effects: dict[str, Any] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)

    def once(self, name: str, fn: Callable[[], Any], *, at_most_once: bool = False) -> Any:
        if name in self.effects:
            return self.effects[name]
        if at_most_once and name in self.begun:
            raise UnknownOutcome(f"{name} was begun before")
        self.begun.add(name)
        try:
            self.effects[name] = json.loads(json.dumps(fn()))
        except Exception as error:
            if proves_not_done(error):
                self.begun.discard(name)
            raise
        return self.effects[name]

    def progress(self, done: int, total: int, unit: str) -> None:
        """None of these handlers needs a heartbeat."""
