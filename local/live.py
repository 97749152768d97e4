"""Each step of each job as it happens, read from the jobs table's own stream: every move is one change of a record, so
nothing has to be sampled, and nothing is missed between two looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from local.environment import client
from local.state import State
from local.story import Step, tell
from shared.adapters.wire import UnreadableRecordError, from_item
from shared.domain.job import Job


class Live:
    """The stream of one running local cloud, from its beginning.

    On AWS a third reader would slow the relay (two per shard); here the stream is a list in the emulator.
    """

    def __init__(self, up: State) -> None:
        table = client("dynamodb", up.endpoint).describe_table(TableName=up.outputs["JobsTable"])["Table"]
        self._streams = client("dynamodbstreams", up.endpoint)
        arn = table["LatestStreamArn"]
        shards = self._streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
        self._iterators = [
            self._streams.get_shard_iterator(StreamArn=arn, ShardId=s["ShardId"], ShardIteratorType="TRIM_HORIZON")[
                "ShardIterator"
            ]
            for s in shards
        ]

    def steps(self) -> Iterator[Step]:
        """The steps since the last call."""
        for number, iterator in enumerate(self._iterators):
            answer = self._streams.get_records(ShardIterator=iterator)
            self._iterators[number] = answer["NextShardIterator"]
            for record in answer["Records"]:
                change = record["dynamodb"]
                step = tell(_job(change.get("OldImage")), _job(change.get("NewImage")), datetime.now(UTC))
                if step is not None:
                    yield step


def _job(image: Mapping[str, Any] | None) -> Job | None:
    """The job of an image; None for the table's other items (payloads, history)."""
    if not image:
        return None
    try:
        return from_item(image)
    except UnreadableRecordError:
        return None
