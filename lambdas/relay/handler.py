"""The relay's Lambda: parse the stream's records, ring, raise what is left for the stream to deliver again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from aws_lambda_powertools import Logger
from botocore.config import Config

from lambdas.relay.parse import outbox_record
from shared.adapters.dynamodb import DynamoJobStore
from shared.adapters.session import session
from shared.adapters.sqs import SqsDoorbell
from shared.adapters.system import PowertoolsLog, SystemClock
from shared.operations.relay import MARK_THREADS, RelayPorts, relay
from shared.queues import QUEUES
from shared.settings import RelaySettings

SESSION = session()
SETTINGS = RelaySettings.from_environment(os.environ)
CLIENT = Config(
    connect_timeout=1,
    read_timeout=3,
    retries={"mode": "standard", "total_max_attempts": 3},
    max_pool_connections=max(MARK_THREADS, 2 * len(QUEUES)),  # each queue and each DLQ has a thread
    parameter_validation=False,  # its requests are made by adapters alone
)
PORTS = RelayPorts(
    store=DynamoJobStore(SESSION.create_client("dynamodb", config=CLIENT), SETTINGS.jobs_table),
    doorbell=SqsDoorbell(SESSION.create_client("sqs", config=CLIENT), SETTINGS.prefix, SETTINGS.parked_queue),
    clock=SystemClock(),
    log=PowertoolsLog(Logger(service="relay")),
    queues=QUEUES,
    time_left=timedelta,
)


def handler(event: Mapping[str, Any], context: Any) -> None:
    """One batch of the jobs table's stream. Raises RingRefused when the stream must deliver it again."""
    ports = replace(PORTS, time_left=lambda: timedelta(milliseconds=context.get_remaining_time_in_millis()))
    relay([outbox_record(record) for record in event["Records"]], ports)
