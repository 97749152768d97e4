"""A job type that no worker could load stops the synthesis, whatever the stage."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.infrastructure.stages import CONTEXTS, ROOT

SOUND = '''
from shared.domain.run import Run
from shared.jobs import Payload, job_type

class Reminder(Payload):
    text: str

@job_type("reminder", queue="emails.high")
def reminder(payload: Reminder, run: Run) -> None:
    """Reminds."""
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a synthesis reads of this project, but for what bundling needs: that must not be reached."""
    copy = tmp_path_factory.mktemp("project")
    for part in ("shared", "stacks", "lambdas"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "app.py", copy)
    return copy


def synthesise(project: Path, stage: str, file: str, content: str) -> subprocess.CompletedProcess[str]:
    """`python app.py`, as `cdk` runs it, with one job file more."""
    env = os.environ | {"CDK_CONTEXT_JSON": json.dumps(CONTEXTS[stage])}
    job_file = project / "shared" / "jobs" / file
    job_file.write_text(content)
    try:
        command = [sys.executable, "app.py"]
        return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=60, check=False)
    finally:
        job_file.unlink()


@pytest.mark.parametrize(
    ("stage", "file", "content", "says"),
    [
        ("dev", "reminder.py", SOUND.replace("emails.high", "emails.hihg"), ", line 8: job type 'reminder': queue"),
        ("local", "reminder.py", SOUND.replace("emails.high", "emails.hihg"), ", line 8: job type 'reminder': queue"),
        ("prod", "reminders.py", SOUND, ": shared.jobs.reminders: one file declares one job type"),
        ("jwt", "reminder.py", SOUND.replace("run: Run", "run"), ", line 8: job type 'reminder': the handler takes"),
        ("dev", "reminder.py", f"import reminders\n{SOUND}", ", line 1: No module named 'reminders'; a package"),
        ("dev", "reminder.py", SOUND + "def", ": SyntaxError: invalid syntax (reminder.py, line 11)"),
        ("dev", "Reminder.py", SOUND, ": name the file in lower case"),
        ("dev", "reminder.py", SOUND + "exit(0)", ", line 11: SystemExit: 0"),
    ],
)
def test_a_job_type_that_cannot_work_ends_the_synthesis_in_one_line_naming_its_file(
    project: Path, stage: str, file: str, content: str, says: str
) -> None:
    ran = synthesise(project, stage, file, content)

    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"app.py: shared/jobs/{file}{says}")


def test_the_same_file_without_the_fault_passes_the_check(project: Path) -> None:
    ran = synthesise(project, "dev", "reminder.py", SOUND)

    assert "app.py: lambdas/" in ran.stderr  # as far as the bundles, whose wheels are not in this copy
