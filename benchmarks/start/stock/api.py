"""The usual API: Powertools' router with its pydantic validation, DynamoDB for the record, S3 to sign links."""

from __future__ import annotations

from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from pydantic import BaseModel


class Submission(BaseModel):
    """A body."""

    type: str
    payload: dict[str, Any]


logger = Logger(service="api")
metrics = Metrics(namespace="usual", service="api")
dynamodb = boto3.client("dynamodb")
s3 = boto3.client("s3")
app = APIGatewayHttpResolver(enable_validation=True)


@app.post("/jobs")
def submit(body: Submission) -> dict[str, Any]:
    """Writes the record."""
    dynamodb.put_item(TableName="jobs", Item={"pk": {"S": body.type}})
    return {"jobId": body.type}


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """One request."""
    return app.resolve(event, context)
