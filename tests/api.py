"""The API as a client meets it: events in, answers out. Real parts but for the cloud."""

from __future__ import annotations

import base64
import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config

from lambdas.api.app import App
from lambdas.api.dispatch import answer
from lambdas.api.identity import Identity
from shared.adapters.links import S3Links
from shared.adapters.memory import MemoryCounters, MemoryJobStore
from shared.jobs import Catalogue
from shared.operations.admit import Admission
from shared.ports import JobStore
from tests.builders import RecordedLog, TestClock

JSON = {"content-type": "application/json"}
EXPORT = {"tenantId": "acme-eu", "month": "2026-05"}
EXPORT_JOB = {"type": "invoice-export", "tenantId": "acme-eu", "payload": EXPORT}


@functools.cache
def offline_links() -> S3Links:
    """Signs links as on AWS; signing needs no network."""
    signing = Config(signature_version="s3v4", s3={"addressing_style": "virtual"})
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return S3Links(boto3.client("s3", region_name="eu-west-1", config=signing, **keys), "files")


@dataclass(frozen=True)
class Answered:
    """One answer, header names as they were sent."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def pointers(self) -> list[str]:
        return [error["pointer"] for error in self.json.get("errors", ())]


@dataclass
class Client:
    """Calls the API the way API Gateway does (payload format 2.0)."""

    store: JobStore = field(default_factory=MemoryJobStore)
    identity: Identity = field(default_factory=lambda: Identity("none", "-"))
    catalogue: Catalogue = field(default_factory=Catalogue)
    clock: TestClock = field(default_factory=TestClock)
    log: RecordedLog = field(default_factory=RecordedLog)
    counters: MemoryCounters = field(default_factory=MemoryCounters)

    @functools.cached_property
    def admission(self) -> Admission:
        return Admission(self.counters, self.clock, self.log)

    @property
    def app(self) -> App:
        return App(
            store=self.store,
            links=offline_links(),
            clock=self.clock,
            log=self.log,
            identity=self.identity,
            exports_table="exports",
            admission=self.admission,
            entropy=os.urandom,
            catalogue=self.catalogue,
        )

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        claims: Mapping[str, Any] | None = None,
    ) -> Answered:
        """`body`: bytes go as base64, a str as it is, anything else as JSON."""
        event: dict[str, Any] = {
            "version": "2.0",
            "rawPath": path,
            "headers": JSON if headers is None else {**JSON, **headers},
            "requestContext": {"stage": "$default", "requestId": "request-1", "http": {"method": method}},
        }
        if claims is not None:
            event["requestContext"]["authorizer"] = {"jwt": {"claims": claims, "scopes": None}}
        if isinstance(body, bytes):
            event |= {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}
        elif body is not None:
            event |= {"body": body if isinstance(body, str) else json.dumps(body), "isBase64Encoded": False}
        answered = answer(self.app, event)
        return Answered(answered["statusCode"], answered["headers"], answered["body"])

    def post(self, path: str, body: object, headers: Mapping[str, str] | None = None, **more: Any) -> Answered:
        return self.call("POST", path, body, headers, **more)

    def get(self, path: str, headers: Mapping[str, str] | None = None, **more: Any) -> Answered:
        return self.call("GET", path, None, headers, **more)
