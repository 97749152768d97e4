"""Which code is deployed, as git names it: `python -m local.revision` for the Makefile."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from local.place import PROJECT

DEPLOYED = ("shared", "lambdas", "stacks")
MOST_CHARACTERS = 40
UNVERSIONED = "unversioned"


def code_version(project: Path) -> str:
    """The commit ("1a2b3c4d5e6f", or by its tag), with "-dirty" when the tree holds something else; "unversioned" where
    there is no git. At most 40 characters, of those that stacks/stage.py takes.
    """
    named = _git(project, "describe", "--always", "--dirty", "--abbrev=12")
    if not named:
        return UNVERSIONED
    # `describe` overlooks files that nobody has added yet, and a new job type is just such a file.
    new = _git(project, "ls-files", "--others", "--exclude-standard", "--", *DEPLOYED)
    mark = "-dirty" if new and not named.endswith("-dirty") else ""
    return re.sub(r"[^A-Za-z0-9._+/-]", "_", named + mark)[-MOST_CHARACTERS:]


def _git(project: Path, *arguments: str) -> str:
    try:
        ran = subprocess.run(["git", "-C", str(project), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return ran.stdout.strip()


if __name__ == "__main__":
    print(code_version(PROJECT))
