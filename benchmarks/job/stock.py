"""The usual worker, as its tutorials have it: Powertools batch, Powertools idempotency on DynamoDB, a lease and a
completion of its own on the job's record, one log line at the start and the end, one metric.
"""

from __future__ import annotations

import time
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from pydantic import BaseModel


class Doorbell(BaseModel):
    """A message."""

    jobId: str


logger = Logger(service="worker")
metrics = Metrics(namespace="usual", service="worker")
dynamodb = boto3.client("dynamodb")
layer = DynamoDBPersistenceLayer(table_name="idempotency", boto3_client=dynamodb)
processor = BatchProcessor(event_type=EventType.SQS)


@idempotent_function(  # type: ignore[untyped-decorator]
    data_keyword_argument="job_id", persistence_store=layer, config=IdempotencyConfig()
)
def work(job_id: str) -> str:
    """Nothing: what is measured is what stands around it."""
    return job_id


def one(record: SQSRecord) -> None:
    """One message."""
    job_id = Doorbell.model_validate_json(record.body).jobId
    _write(
        job_id, "#state = :from", "SET #state = :state, #until = :at ADD #run :one", "queued", "running", {":one": 1}
    )
    logger.info("running", extra={"job": job_id})
    work(job_id=job_id)
    _write(job_id, "#state = :from", "SET #state = :state, #ended = :at", "running", "completed", {})
    logger.info("completed", extra={"job": job_id})
    metrics.add_metric("Completed", MetricUnit.Count, 1)


def _write(job_id: str, condition: str, update: str, was: str, now: str, numbers: dict[str, int]) -> None:
    values = {":from": {"S": was}, ":state": {"S": now}, ":at": {"N": str(int(time.time() * 1000))}}
    named = {name: name[1:] for name in ("#state", "#until", "#ended", "#run") if name in update + condition}
    dynamodb.update_item(
        TableName="jobs",
        Key={"pk": {"S": f"JOB#{job_id}"}, "sk": {"S": "JOB"}},
        ConditionExpression=condition,
        UpdateExpression=update,
        ExpressionAttributeNames=named,
        ExpressionAttributeValues=values | {name: {"N": str(number)} for name, number in numbers.items()},
        ReturnValues="ALL_NEW" if now == "running" else "NONE",
    )


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> Any:
    """One batch."""
    return process_partial_response(event=event, record_handler=one, processor=processor, context=context)
