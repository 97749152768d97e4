"""The usual worker: Powertools batch and idempotency, a pydantic payload, DynamoDB for jobs and SQS for their hides."""

from __future__ import annotations

import os
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from pydantic import BaseModel


class Payload(BaseModel):
    """A job."""

    job_id: str
    text: str


logger = Logger(service="worker")
metrics = Metrics(namespace="usual", service="worker")
dynamodb = boto3.client("dynamodb")
sqs = boto3.client("sqs")
table = os.environ.get("TABLE", "idempotency")
layer = DynamoDBPersistenceLayer(table_name=table, boto3_client=dynamodb)
processor = BatchProcessor(event_type=EventType.SQS)


@idempotent_function(  # type: ignore[untyped-decorator]
    data_keyword_argument="job_id", persistence_store=layer, config=IdempotencyConfig()
)
def run(job_id: str) -> str:
    """The work."""
    return job_id


def one(record: SQSRecord) -> str:
    """One message."""
    return str(run(job_id=Payload.model_validate_json(record.body).job_id))


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> Any:
    """One batch."""
    return process_partial_response(event=event, record_handler=one, processor=processor, context=context)
