"""A cold start imports what its function runs, counted in modules: milliseconds differ by machine and by hour."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest

from benchmarks.start.__main__ import Function, functions
from local.place import PROJECT

BUDGET = {"worker": 515, "api": 515, "relay": 420, "promoter": 415, "tally": 415}
"""Modules in a process whose handler is imported, Python's own included; some ten above what is there today."""

CLIENTS = {
    "worker": {"dynamodb", "sqs"}, "api": {"dynamodb"}, "relay": {"dynamodb", "sqs"}, "promoter": {"dynamodb"},
    "tally": {"dynamodb"},
}  # fmt: skip
"""Services whose model is read before the first event: each costs a client. S3 is for the first job or link."""

PACKAGES = {
    "aws_lambda_powertools", "botocore", "certifi", "dateutil", "jmespath", "lambdas", "shared", "six",
    "typing_extensions", "urllib3",
}  # fmt: skip
WITH_PAYLOADS = {"annotated_types", "pydantic", "pydantic_core", "typing_inspection"}
"""In worker and api alone. relay, promoter and tally know no payloads, so none of shared/jobs either."""

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
_SAID = """
import sys
machines = [one for one in sys.modules if one.partition(".")[0] not in sys.stdlib_module_names]  # sitecustomize
import json, re
read = set()
def note(event, given):
    found = re.search(r"/([a-z0-9-]+)/[0-9-]+/service-2[.]json", str(given[0])) if event == "open" else None
    read.update(found.groups() if found else ())
sys.addaudithook(note)
import {module}
print(json.dumps([sorted(set(sys.modules).difference(machines)), sorted(read)]))
"""


@pytest.mark.parametrize("function", functions(), ids=lambda one: one.name)
def test_a_cold_start_imports_nothing_its_function_does_not_run(function: Function) -> None:
    modules, _ = _started(function)
    folder = function.folder
    packages = PACKAGES | (WITH_PAYLOADS if folder in ("worker", "api") else set())

    assert sorted(modules & set(UNNEEDED)) == []
    assert sorted(one for one in modules if _package(one) not in packages and _is_foreign(one)) == []
    others = {"api", "promoter", "relay", "tally", "worker"} - {folder}
    theirs = tuple(f"lambdas.{other}" for other in others)
    assert sorted(one for one in modules if one.startswith(theirs)) == []
    if folder in ("promoter", "relay", "tally"):
        allowed = ("shared.operations", f"shared.operations.{folder.replace('promoter', 'promote')}")
        assert sorted(one for one in modules if one.startswith("shared.operations") and one not in allowed) == []
        assert sorted(one for one in modules if one.startswith("shared.jobs")) == []
    assert len(modules) <= BUDGET[folder], f"{folder} imports {_counted(modules)}"


@pytest.mark.parametrize("function", functions(), ids=lambda one: one.name)
def test_a_cold_start_makes_only_the_clients_that_every_invocation_uses(function: Function) -> None:
    _, services = _started(function)
    assert services == CLIENTS[function.folder]


@cache
def _started(function: Function) -> tuple[set[str], set[str]]:
    """The modules of a process in which the function is ready, and the services whose model it has read."""
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
    modules, services = json.loads(done.stdout)
    return set(modules), set(services)


def _package(module: str) -> str:
    return module.partition(".")[0]


def _is_foreign(module: str) -> bool:
    """Not Python's own; nor what starts with every process of an environment."""
    package = _package(module)
    return package not in sys.stdlib_module_names and not package.startswith(("__", "_distutils", "_sysconfigdata"))


def _counted(modules: set[str]) -> str:
    """By package, and each module of our own: whoever broke the budget looks for theirs there."""
    counted = Counter(_package(one) if _is_foreign(one) else "Python's own" for one in modules)
    own = sorted(one for one in modules if one.startswith(("lambdas", "shared")))
    return f"{len(modules)} modules: {dict(counted.most_common())}; ours: {', '.join(own)}"
