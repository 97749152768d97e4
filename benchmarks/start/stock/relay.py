"""The usual relay: Powertools' batch over the stream, DynamoDB to mark and SQS to send."""

from __future__ import annotations

from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord

logger = Logger(service="relay")
metrics = Metrics(namespace="usual", service="relay")
dynamodb = boto3.client("dynamodb")
sqs = boto3.client("sqs")
processor = BatchProcessor(event_type=EventType.DynamoDBStreams)


def one(record: DynamoDBRecord) -> None:
    """One record of the stream."""
    sqs.send_message(QueueUrl="queue", MessageBody=str(record.event_id))


def handler(event: dict[str, Any], context: Any) -> Any:
    """One batch."""
    return process_partial_response(event=event, record_handler=one, processor=processor, context=context)
