"""docs/what-broke-others.md names, for each case, tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "what-broke-others.md"
CASES = range(1, 57)
ROW = re.compile(r"^\| (\d+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
NAME = re.compile(r"`([^`\s]+\.py)::([^`\s]+)`")


def rows(page: str) -> list[tuple[int, list[tuple[str, str]]]]:
    """(case, its (path, test)s) of every row."""
    return [(int(case), NAME.findall(tests)) for case, _, _, tests in ROW.findall(page)]


@cache
def promises_in(path: Path) -> frozenset[str]:
    """Names of the tests that pytest collects in a file: its functions, nested ones and fixtures not."""
    if not path.is_file():
        return frozenset()
    found = ast.parse(path.read_text()).body
    return frozenset(one.name for one in found if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"))


def missing(page: str) -> list[str]:
    """What the page names and is not there."""
    return [f"{path}::{name}" for path, name in NAME.findall(page) if name not in promises_in(ROOT / path)]


def without_a_test(page: str) -> list[int]:
    """Cases that have no row, or one that names no test."""
    proven = {case for case, tests in rows(page) if tests}
    return [case for case in CASES if case not in proven]


def test_every_test_that_the_page_names_exists() -> None:
    assert missing(PAGE.read_text()) == []


def test_every_case_has_one_row_and_at_least_one_test() -> None:
    page = PAGE.read_text()
    assert without_a_test(page) == []
    assert [case for case, _ in rows(page)] == list(CASES)


def test_every_row_of_the_page_is_read() -> None:
    """A row that the search above does not see could name what it likes."""
    lines = [line for line in PAGE.read_text().splitlines() if re.match(r"\| *\d", line)]
    assert len(lines) == len(rows(PAGE.read_text()))
    assert PAGE.read_text().count(".py::") == len(NAME.findall(PAGE.read_text()))


@pytest.mark.parametrize(
    ("row", "gone", "bare"),
    [
        ("| 1 | a | b | `tests/promises/test_leases.py::test_no_such_promise` |", True, False),
        ("| 1 | a | b | `tests/unit/test_gone.py::test_a` |", True, False),
        ("| 1 | a | b | not yet |", False, True),
    ],
)
def test_a_row_that_names_nothing_real_is_found(row: str, gone: bool, bare: bool) -> None:
    assert bool(missing(row)) == gone
    assert (1 in without_a_test(row)) == bare
