"""The tally's Lambda: count what a batch of the jobs table's stream opened and ended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools import Logger
from botocore.config import Config

from lambdas.tally.parse import change
from shared.adapters.counters import DynamoCounters
from shared.adapters.session import session
from shared.adapters.system import PowertoolsLog
from shared.operations.tally import tally
from shared.settings import TallySettings

SESSION = session()
SETTINGS = TallySettings.from_environment(os.environ)
CLIENT = Config(connect_timeout=1, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 3})
LOG = PowertoolsLog(Logger(service="tally"))
COUNTERS = DynamoCounters(SESSION.create_client("dynamodb", config=CLIENT), SETTINGS.controls_table)


def handler(event: Mapping[str, Any], context: object) -> None:  # noqa: ARG001
    """One batch of the stream. Raises StoreUnavailable, and the stream delivers it again."""
    tally((change(record) for record in event["Records"]), COUNTERS)
    LOG.event("tallied", records=len(event["Records"]))
