"""The worker's Lambda, the same code for every lane: parse the messages, run them, answer with those to keep."""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from aws_lambda_powertools import Logger
from botocore.config import Config

from shared.adapters.dynamodb import DynamoJobStore
from shared.adapters.files import S3Files
from shared.adapters.first_use import OnFirstUse
from shared.adapters.session import session
from shared.adapters.shares import DynamoShares
from shared.adapters.sqs import SqsMailbox, message_of
from shared.adapters.system import PowertoolsLog, PowertoolsMeter, SystemClock
from shared.jobs import Catalogue
from shared.operations.run import Lane, WorkerPorts, run_batch
from shared.operations.run.share import LaneShare
from shared.ports import Guarded
from shared.queues import QUEUES
from shared.settings import WorkerSettings

SESSION = session()
SETTINGS = WorkerSettings.from_environment(os.environ)
QUEUE = QUEUES[SETTINGS.queue]
CLIENT = Config(
    connect_timeout=1,
    read_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 3},
    max_pool_connections=max(QUEUE.parallelism, 10),
)
UNCHECKED = CLIENT.merge(Config(parameter_validation=False))
"""For requests that only adapters make, compiled from the table: botocore would walk each one again before it is sent.
S3's keys are made by handlers, so its client checks them.
"""
LOG = PowertoolsLog(Logger(service=f"worker {QUEUE.name}"))
DYNAMODB = SESSION.create_client("dynamodb", config=UNCHECKED)
LANE = Lane(QUEUE, Catalogue())
STORE = DynamoJobStore(DYNAMODB, SETTINGS.jobs_table)


class Effects:
    """PowertoolsEffects, whose module the first effect imports: it brings Powertools' own DynamoDB layer, and boto3."""

    def once(self, guarded: Guarded, fn: Callable[[], Any]) -> Any:
        """See ports.Effects."""
        from shared.adapters.effects import PowertoolsEffects

        return PowertoolsEffects(STORE, SystemClock()).once(guarded, fn)


PORTS = WorkerPorts(
    stage=SETTINGS.stage,
    store=STORE,
    mailbox=SqsMailbox(SESSION.create_client("sqs", config=UNCHECKED), SETTINGS.prefix, QUEUE, LOG),
    files=S3Files(OnFirstUse(lambda: SESSION.create_client("s3", config=CLIENT)), SETTINGS.bucket),
    effects=Effects(),
    clock=SystemClock(),
    log=LOG,
    meter=PowertoolsMeter(own_metrics=LANE.catalogue.own_metrics),
    share=LaneShare(QUEUE, DynamoShares(DYNAMODB, SETTINGS.controls_table), SystemClock(), LOG),
    code_version=SETTINGS.code_version,
    dice=random.random,
    token=lambda: secrets.token_hex(8),
    pause=lambda for_: time.sleep(for_.total_seconds()),
    end_process=lambda: os._exit(1),  # no clean-up: it would wait for the very thread that hangs
)


def handler(event: Mapping[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
    """One batch of the lane. Answers with the messages that must come back; never raises for a job's failure."""
    messages = [message_of(record) for record in event["Records"]]
    kept = run_batch(messages, PORTS, LANE, lambda: timedelta(milliseconds=context.get_remaining_time_in_millis()))
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in kept]}
