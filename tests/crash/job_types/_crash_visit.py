"""What every job type of the crash test does besides its own thing: it tells the provider when it starts and ends."""

from __future__ import annotations

import http.client
import json
import os
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Self

from shared.domain.retry import RetryPolicy
from shared.domain.run import Run
from shared.jobs import Payload

SECOND = timedelta(seconds=1)
QUICK = RetryPolicy((0 * SECOND, *[SECOND] * 3, *[2 * SECOND] * 8), spread=SECOND)
"""Many attempts, a second or two apart: what AWS throws at a run costs attempts, and a test has no hour to wait."""

ANSWER_SECONDS = 10


class Work(Payload):
    """provider: its port on 127.0.0.1 · seconds: how long the handler works · key: the ordering key of its job."""

    provider: int
    seconds: float
    key: str = ""


class Visit:
    """One run of a handler as the provider sees it. `mark` is fresh in each, so no two runs look alike."""

    def __init__(self, work: Work, run: Run) -> None:
        self._work, self._run, self.mark = work, run, uuid.uuid4().hex

    def __enter__(self) -> Self:
        self._tell("start", attempt=self._run.attempt, pid=os.getpid(), key=self._work.key)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._tell("end", how="returned" if kind is None else kind.__name__)

    def works(self, share: float) -> None:
        """Busy for this share of the job's seconds."""
        time.sleep(self._work.seconds * share)

    def effect(self, name: str) -> Callable[[], str]:
        """A call of the provider that nobody wants twice; answers its mark."""

        def call() -> str:
            self._tell("effect", effect=name, idempotencyKey=self._run.idempotency_key)
            return self.mark

        return call

    def _tell(self, what: str, **said: object) -> None:
        provider = http.client.HTTPConnection("127.0.0.1", self._work.provider, timeout=ANSWER_SECONDS)
        try:
            body = json.dumps({"jobId": self._run.job_id, "mark": self.mark, **said})
            provider.request("POST", f"/{what}", body, {"Content-Type": "application/json"})
            answer = provider.getresponse()
            answer.read()
            if answer.status != 200:
                raise ConnectionError(f"the provider answered {answer.status} to {what}")
        finally:
            provider.close()
