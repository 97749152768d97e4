"""The sweeper's repairs, driven from here: its operations on the real adapters, for every job of the table that is not
at its end. Its own timer and its walk through the index are not part of this test.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.adapters.dynamodb import DynamoJobStore
from shared.adapters.sqs import SqsDeadLetters
from shared.adapters.system import PowertoolsMeter, SystemClock
from shared.domain.job import Job
from shared.domain.states import FINAL, State
from shared.errors import RingRefused, StoreUnavailable
from shared.operations.sweep import Repaired, SweeperPorts, sweep_dead_letters, sweep_job
from shared.queues import QUEUES, Queue
from tests.e2e.cloud import Cloud

EVERY_SECONDS = 3.0
COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


class NoLog:
    """The repairs are counted by what the operations return."""

    def event(self, name: str, /, *, level: str = "info", error: BaseException | None = None, **fields: Any) -> None:
        """See shared.ports.Log."""


@dataclass(slots=True)
class Sweeping:
    """`repaired`: everything found broken so far, with the time (epoch seconds)."""

    cloud: Cloud
    records: Callable[[], Mapping[str, Job]]
    repaired: list[tuple[float, Repaired]] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _surprise: Exception | None = None

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Sweep every few seconds beside the block. Raises, at its end, what no sweep ought to raise."""
        thread = threading.Thread(target=self._go_on)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
        if self._surprise is not None:
            raise self._surprise

    def once(self) -> None:
        """One sweep over everything."""
        prefix, log = self.cloud.up.outputs["Prefix"], NoLog()
        ports = SweeperPorts(
            store=DynamoJobStore(self.cloud.dynamodb, self.cloud.up.outputs["JobsTable"]),
            dead_letters=SqsDeadLetters(self.cloud.sqs, prefix, log),
            clock=SystemClock(),
            log=log,
            meter=PowertoolsMeter(),
            queues=QUEUES,
        )
        empty = {name: self._is_empty(queue) for name, queue in QUEUES.items()}
        for job in self.records().values():
            if job.state not in FINAL or job.state is State.DEAD:
                self._note(sweep_job(job.job_id, ports, queue_empty=empty[job.queue]))
        for queue in QUEUES.values():
            self._note(*sweep_dead_letters(queue, ports))

    def counted(self, since: float, until: float) -> Counter[str]:
        """The repairs made in this time, by invariant."""
        return Counter(one.invariant for at, one in self.repaired if since <= at < until and one.done)

    def _go_on(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            try:
                with contextlib.suppress(StoreUnavailable, RingRefused):
                    self.once()
            except Exception as e:
                self._surprise = e
                return

    def _note(self, *found: Repaired | None) -> None:
        self.repaired += [(time.time(), one) for one in found if one is not None]

    def _is_empty(self, queue: Queue) -> bool:
        url = self.cloud.sqs.get_queue_url(QueueName=queue.physical_name(self.cloud.up.outputs["Prefix"]))["QueueUrl"]
        counts = self.cloud.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(COUNTS))["Attributes"]
        return not any(int(counts[name]) for name in COUNTS)
