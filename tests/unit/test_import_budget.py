"""A cold start imports what its function runs, counted in modules: milliseconds differ by machine and by hour."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from benchmarks.start.__main__ import Function, functions
from local.place import PROJECT

BUDGET = {"worker": 510, "api": 515, "relay": 420, "promoter": 415, "tally": 415}
"""Modules in a process whose handler is imported, Python's own included; some twenty above what is there today."""

UNNEEDED = (
    "boto3",  # the functions use plain botocore
    "s3transfer",
    "aws_lambda_powertools.utilities.idempotency",  # the first effect imports it
    "aws_lambda_powertools.utilities.batch",
    "aws_lambda_powertools.event_handler",
    "reportlab",
    "PIL",
    "bidi",
)
_SAID = "import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"


@pytest.mark.parametrize("function", functions(), ids=lambda one: one.name)
def test_a_cold_start_imports_nothing_its_function_does_not_run(function: Function) -> None:
    base = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "COV_"))}
    base |= {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "t", "AWS_SECRET_ACCESS_KEY": "t"}

    done = subprocess.run(
        [sys.executable, "-c", _SAID.format(module=function.module)],
        env=base | function.settings.to_environment(),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )

    modules = set(json.loads(done.stdout))
    assert not modules & set(UNNEEDED)
    assert len(modules) <= BUDGET[function.name.split()[0]]
    only_with_payloads = function.name.startswith(("worker", "api"))
    assert ("pydantic" in modules) is only_with_payloads
