"""One side of the benchmark in a process of its own: `python -m benchmarks.job.side ours 10 40` prints the CPU in
seconds that a job took, in 40 batches of ten after five that warmed it up.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from shared.domain.doorbell import Bell
from shared.domain.job import random_job_id
from shared.domain.retry import DEFAULT_POLICY
from tests.builders import NOW

WARM = 5
TYPE = "bench"


class Context:
    """Of an invocation with a quarter of an hour left."""

    function_name = memory_limit_in_mb = invoked_function_arn = aws_request_id = "bench"

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds."""
        return 900_000


class OneType:
    """A catalogue of one type that does nothing."""

    def __init__(self, job_type: Any) -> None:
        self._job_type = job_type

    def get(self, name: str) -> Any:
        """See Catalogue."""
        return self._job_type if name == TYPE else None


def ours() -> Callable[[Any, Any], Any]:
    """The worker's own Lambda, on the lane of its settings."""
    from lambdas.worker import handler as worker
    from shared.jobs import JobType, Payload
    from shared.operations.run import Lane

    class Order(Payload):
        tenant_id: str
        month: str

    job_type = JobType(
        name=TYPE,
        queue=worker.QUEUE,
        payload=Order,
        version=1,
        upgrades={},
        requires_result=False,
        handler=lambda *_: None,
        policy=DEFAULT_POLICY,
        deadline=timedelta(seconds=20),
        lease=timedelta(seconds=30),
        max_age=timedelta(hours=24),
    )
    worker.LANE = Lane(worker.QUEUE, OneType(job_type))  # type: ignore[arg-type]
    return worker.handler


def stock() -> Callable[[Any, Any], Any]:
    """The usual one."""
    from benchmarks.job import stock as usual

    return usual.handler


def event(size: int, number: int) -> Mapping[str, Any]:
    """A batch of so many messages, no two of one job."""
    records = []
    for place in range(size):
        job_id = random_job_id(NOW, (number * 100 + place).to_bytes(10, "big"))
        bell = Bell(job_id=job_id, dispatch=1, type=TYPE, payload_version=1)
        records.append(
            {
                "messageId": f"{number}-{place}",
                "receiptHandle": "r",
                "body": bell.body(),
                "attributes": {"ApproximateReceiveCount": "1"},
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:eu-west-1:000000000000:q",
                "awsRegion": "eu-west-1",
                "md5OfBody": "",
            }
        )
    return {"Records": records}


def main() -> None:
    """Raises AssertionError where a job was not done: its CPU would count for nothing."""
    handler = {"ours": ours, "stock": stock}[sys.argv[1]]()
    size, batches = int(sys.argv[2]), int(sys.argv[3])
    events = [event(size, number) for number in range(WARM + batches)]
    begun = 0.0
    for number, one in enumerate(events):
        begun = time.process_time() if number == WARM else begun
        assert handler(one, Context()) == {"batchItemFailures": []}, "a job was not done"
    print(f"\n{(time.process_time() - begun) / (size * batches)}")


if __name__ == "__main__":
    main()
