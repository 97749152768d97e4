"""Where the systems are installed, and at which version."""

from __future__ import annotations

import json
from importlib.metadata import distributions
from pathlib import Path

from benchmarks.crash.contender import PROJECT
from benchmarks.crash.rival import Commands

BULLMQ = PROJECT / "benchmarks" / "crash" / "bullmq"
APPS = "benchmarks.crash.apps"
ABSENT = "not installed"


def programs(environment: str) -> Path:
    """The programs of one of the Python environments in .build."""
    return PROJECT / ".build" / environment / "bin"


def python_commands(app: str, worker: tuple[str, ...], environment: str = "rivals", **variables: str) -> Commands:
    """For a system in Python: its worker command, and apps/submit.py with its app."""
    submit = ("python", "-m", f"{APPS}.submit", app)
    return Commands(programs=programs(environment), worker=worker, submit=submit, variables=variables)


def python_version(distribution: str, environment: str = "rivals") -> str:
    """As installed there, or ABSENT."""
    site = [str(path) for path in programs(environment).parent.glob("lib/python3*/site-packages")]
    return next((found.version for found in distributions(name=distribution, path=site)), ABSENT)


def bullmq_version() -> str:
    """As installed in bullmq/node_modules, or ABSENT."""
    package = BULLMQ / "node_modules" / "bullmq" / "package.json"
    return str(json.loads(package.read_text())["version"]) if package.exists() else ABSENT
