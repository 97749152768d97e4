"""The README is the product's face, so it is kept true."""

from __future__ import annotations

from pathlib import Path

from shared.domain.diagram import renewed
from shared.queues import QUEUES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_diagram_is_drawn_from_the_transition_table() -> None:
    assert renewed(README) == README, "run: make diagram"


def test_the_readme_stays_readable_in_one_sitting() -> None:
    assert len(README.splitlines()) < 250


def test_every_lane_and_every_file_the_readme_names_exists() -> None:
    for queue in QUEUES:
        assert f"`{queue}`" in README
    words = [word for line in README.splitlines() for word in line.split("`")[1::2]]
    paths = [
        w
        for w in words
        if "/" in w and " " not in w and w.split("/")[0] in ("shared", "stacks", "lambdas", "docs", "local")
    ]
    missing = [w for w in paths if "*" not in w and "<" not in w and not (ROOT / w).exists()]
    assert not missing
    assert len(paths) > 10


def test_the_job_type_it_shows_is_the_one_the_end_to_end_tests_deploy() -> None:
    shown = README.partition("```python\n")[2].partition("```")[0]
    assert shown == (ROOT / "tests" / "e2e" / "job_types" / "note.py").read_text()
