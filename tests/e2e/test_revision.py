"""The code version: what stands in every record, and must not name a commit whose code is not what runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from local.revision import code_version


def git(project: Path, *arguments: str) -> str:
    """One git command, whatever the developer has configured."""
    own = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    ran = subprocess.run(["git", *own, "-C", str(project), *arguments], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A committed tree with one job type."""
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    (tmp_path / "shared" / "jobs").mkdir(parents=True)
    (tmp_path / "shared" / "jobs" / "old.py").write_text("")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_a_committed_tree_is_named_by_its_commit(project: Path) -> None:
    assert code_version(project) == git(project, "rev-parse", "--short=12", "HEAD")


@pytest.mark.parametrize(
    "file", ["shared/jobs/old.py", "shared/jobs/new.py", "lambdas/new/handler.py", "stacks/new.py"]
)
def test_a_tree_with_a_change_or_a_file_nobody_has_added_is_dirty(project: Path, file: str) -> None:
    (project / file).parent.mkdir(parents=True, exist_ok=True)
    (project / file).write_text("print()\n")

    assert code_version(project).endswith("-dirty")


def test_files_that_are_not_deployed_do_not_count(project: Path) -> None:
    for file in ("notes.txt", "shared/jobs/old.pyc"):
        (project / file).write_text("")

    assert not code_version(project).endswith("-dirty")


def test_a_long_tag_with_signs_that_cdk_context_refuses_still_gives_a_version(project: Path) -> None:
    git(project, "tag", "-am", "tag", f"release@{'x' * 60}")

    assert len(code_version(project)) == 40
    assert "@" not in code_version(project)


def test_a_tree_without_git_is_unversioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    assert code_version(tmp_path) == "unversioned"
