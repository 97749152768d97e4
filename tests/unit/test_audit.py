"""`make audit`: that it looks at every lock file, and takes no silence for a yes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from local.audit import CLEAN, NOT_CHECKED, VULNERABLE, locks, main, verdict

ROOT = Path(__file__).parents[2]
FINE = {"name": "boto3", "version": "1.0", "vulns": []}
UNKNOWN = {"name": "ours", "skip_reason": "Dependency not found on PyPI and could not be audited: ours (1.0)"}
FLAWED = {
    "name": "pillow",
    "version": "9.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["9.1"]}, {"id": "PYSEC-2", "fix_versions": []}],
}


@pytest.mark.parametrize(
    ("packages", "status", "said"),
    [
        ([FINE], CLEAN, "1 locked packages, no known vulnerability"),
        ([FINE, FLAWED], VULNERABLE, "pillow 9.0: PYSEC-1, mended in 9.1"),
        ([FINE, FLAWED], VULNERABLE, "pillow 9.0: PYSEC-2, mended in no release yet"),
        ([FINE, UNKNOWN], NOT_CHECKED, "not checked, because the index does not know them: ours"),
        ([FLAWED, UNKNOWN], VULNERABLE, "not checked, because the index does not know them: ours"),
        ([UNKNOWN, UNKNOWN], NOT_CHECKED, "nothing was checked"),
        ([], NOT_CHECKED, "nothing was checked"),
    ],
)
def test_what_was_not_checked_is_never_called_clean(packages: list[dict[str, Any]], status: int, said: str) -> None:
    found, lines = verdict(packages)
    assert found == status
    assert any(line.startswith(said) for line in lines), lines


@pytest.mark.parametrize("program", ["echo 'no route to host' >&2; exit 1", "exit 1", "echo none; exit 0"])
def test_where_no_advisories_are_reachable_it_says_so(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pip-audit").write_text(f"#!/bin/sh\n{program}\n")
    (tmp_path / "pip-audit").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert main() == NOT_CHECKED
    assert capsys.readouterr().out.startswith("audit: not everything was checked: ")


def test_every_lock_file_is_looked_at() -> None:
    listed = subprocess.run(["git", "grep", "-l", "-e", "--hash=sha256:"], cwd=ROOT, capture_output=True, text=True)
    hashed = {ROOT / name for name in listed.stdout.split() if name.endswith(".txt")}
    if not hashed:
        pytest.skip("no git here")
    assert set(locks()) >= hashed
