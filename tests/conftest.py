"""What the tests measured, said at the end of the run; and which of them share a process when several run at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent
FIGURES = pytest.StashKey[list[str]]()

TOGETHER = ("e2e", "infrastructure")
"""Folders whose tests share what is dear to make: a running cloud, synthesised stages. Elsewhere a file's tests do."""

FIRST = ("e2e", "infrastructure", "model", "chaos", "histories")
"""The longest first, so that no process is left with one of them at the end."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = []


@pytest.fixture(scope="session")
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """figure("7 write units"): a line for the end of the run, from whichever process measured it."""
    return request.config.stash[FIGURES].append


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of xdist: whole folders or files go to one process. Its own marks do nothing under this pytest, whose test ids
    they can no longer lengthen (xdist 3.8, pytest 9.2).
    """
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            folder = path.split("/")[1]
            return folder if folder in TOGETHER else path

    return Together(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _rank(item.path.relative_to(ROOT)))


def _rank(path: Path) -> int:
    return FIRST.index(path.parts[0]) if path.parts[0] in FIRST else len(FIRST)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["figures"] = session.config.stash[FIGURES]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of xdist ended and left what it had measured."""
    node.config.stash[FIGURES].extend(getattr(node, "workeroutput", {}).get("figures", ()))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if lines := config.stash[FIGURES]:
        terminalreporter.section("measured")
        for line in lines:
            terminalreporter.write_line(line)
