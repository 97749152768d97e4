"""The API Lambda: settings and clients, once per environment."""

from __future__ import annotations

import os
from typing import Any

from aws_lambda_powertools import Logger
from botocore.config import Config

from lambdas.api.app import App
from lambdas.api.dispatch import answer
from lambdas.api.identity import Identity
from shared.adapters.counters import DynamoCounters
from shared.adapters.dynamodb import DynamoJobStore
from shared.adapters.first_use import OnFirstUse
from shared.adapters.links import S3Links
from shared.adapters.session import session
from shared.adapters.system import PowertoolsLog, SystemClock
from shared.jobs import Catalogue
from shared.operations.admit import Admission
from shared.settings import ApiSettings

_SESSION = session()
# Three tries of 3 s, twice (payload and record), stay under API Gateway's 29 s with room for the backoff between.
PATIENCE = Config(connect_timeout=1, read_timeout=2, retries={"mode": "standard", "total_max_attempts": 3})
_SIGNING = Config(signature_version="s3v4", s3={"addressing_style": "virtual"})


def _wired(settings: ApiSettings) -> App:
    dynamodb, clock = _SESSION.create_client("dynamodb", config=PATIENCE), SystemClock()
    log = PowertoolsLog(Logger(service="api"))
    return App(
        store=DynamoJobStore(dynamodb, settings.jobs_table),
        links=S3Links(
            OnFirstUse(lambda: _SESSION.create_client("s3", config=PATIENCE.merge(_SIGNING))), settings.bucket
        ),
        clock=clock,
        log=log,
        identity=Identity(settings.auth, settings.tenant_claim),
        exports_table=settings.exports_table,
        admission=Admission(DynamoCounters(dynamodb, settings.controls_table), clock, log),
        entropy=os.urandom,
        catalogue=Catalogue(),
    )


_APP = _wired(ApiSettings.from_environment(os.environ))


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:  # noqa: ARG001
    """Answers one HTTP API request (payload format 2.0)."""
    return answer(_APP, event)
