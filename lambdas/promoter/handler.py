"""The promoter's Lambda: one tick a minute."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from aws_lambda_powertools import Logger
from botocore.config import Config

from shared.adapters.dynamodb import DynamoJobStore
from shared.adapters.session import session
from shared.adapters.system import PowertoolsLog, SystemClock
from shared.operations.promote import THREADS, PromoterPorts, promote
from shared.queues import QUEUES
from shared.settings import PromoterSettings

LOOK_AHEAD = timedelta(minutes=3)
"""EventBridge Scheduler fires anywhere inside its minute, so two ticks may lie 119 s apart."""

SESSION = session()
SETTINGS = PromoterSettings.from_environment(os.environ)
CLIENT = Config(
    connect_timeout=1,
    read_timeout=3,
    retries={"mode": "standard", "total_max_attempts": 3},
    max_pool_connections=THREADS,
)
PORTS = PromoterPorts(
    store=DynamoJobStore(SESSION.create_client("dynamodb", config=CLIENT), SETTINGS.jobs_table),
    clock=SystemClock(),
    log=PowertoolsLog(Logger(service="promoter")),
    queues=QUEUES,
)


def handler(event: Mapping[str, Any], context: object) -> None:  # noqa: ARG001
    """Promote what is due. Two ticks at once are harmless: each promotion is one conditional write."""
    promoted = promote(PORTS, LOOK_AHEAD)
    PORTS.log.event("ticked", promoted=promoted)
