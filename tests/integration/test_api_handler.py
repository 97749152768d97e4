"""The Lambda's own module: wired from its environment at cold start, once."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import boto3
import pytest
from moto import mock_aws

from shared.errors import SettingsError
from shared.settings import ApiSettings
from tests.aws import create_jobs_table

SETTINGS = ApiSettings(
    stage="test",
    prefix="holdfast-test",
    jobs_table="jobs",
    code_version="abc",
    exports_table="exports",
    controls_table="controls",
    bucket="files",
    auth="none",
    tenant_claim="-",
)


def imported() -> ModuleType:
    sys.modules.pop("lambdas.api.handler", None)
    return importlib.import_module("lambdas.api.handler")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    aws = {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    for name, value in (aws | SETTINGS.to_environment()).items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.fixture
def module(environment: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    with mock_aws():
        create_jobs_table(boto3.client("dynamodb"), "jobs")
        yield imported()


def event(method: str, path: str, body: object = None) -> dict[str, Any]:
    return {
        "rawPath": path,
        "headers": {"content-type": "application/json"},
        "body": json.dumps(body),
        "requestContext": {"stage": "$default", "requestId": "request-1", "http": {"method": method}},
    }


def test_the_wired_handler_accepts_a_job_and_shows_it(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    payload = {"tenantId": "acme-eu", "month": "2026-05"}
    accepted = module.handler(event("POST", "/jobs", {"type": "invoice-export", "payload": payload}), None)
    assert accepted["statusCode"] == 202
    found = module.handler(event("GET", accepted["headers"]["location"]), None)
    job_id = json.loads(found["body"])["jobId"]
    lines = [(record.getMessage(), vars(record)["status"], vars(record)["job"]) for record in caplog.records]
    assert lines == [("answered", 202, job_id), ("answered", 200, job_id)]


def test_a_missing_setting_stops_the_function_by_name(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("HOLDFAST_TENANT_CLAIM")
    with pytest.raises(SettingsError, match="HOLDFAST_TENANT_CLAIM"):
        imported()


def test_two_calls_at_their_slowest_end_before_the_gateway_gives_up(module: ModuleType) -> None:
    patience, tries = module.PATIENCE, module.PATIENCE.retries["total_max_attempts"]
    backoff = sum(2**n for n in range(tries - 1))  # standard mode waits up to 2^n seconds before each new try
    slowest = tries * (patience.connect_timeout + patience.read_timeout) + backoff
    assert 2 * slowest < 29
