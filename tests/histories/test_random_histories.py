"""Seeded histories of the real operations: the promises hold, and an explorer that would not notice is noticed."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from tests.histories.history import random_history, scripted_history
from tests.histories.plan import draw
from tests.histories.planted import PLANTED, planted
from tests.histories.shrink import shrink
from tests.histories.soak import explore

HISTORIES = 400
ENOUGH = 2000
"""Histories within which every planted fault is found; most are within sixty."""

LONG = 80
TOLD = range(20)


def _digest() -> str:
    stories = [line for seed in TOLD for line in random_history(draw(seed), story=True).story or ()]
    return hashlib.sha256("\n".join(stories).encode()).hexdigest()


def test_no_history_of_crashes_losses_duplicates_and_operators_breaks_a_promise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tally = explore(range(HISTORIES))
    with capsys.disabled():
        print(f"\n{tally.table()}")
    assert not tally.broken, f"python -m tests.histories --seed {min(min(seeds) for seeds in tally.broken.values())}"
    assert tally.histories == HISTORIES


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    with planted(name) as breaks:
        found = (random_history(draw(seed, PLANTED[name].focus)).broken for seed in range(ENOUGH))
        first = next((broken for broken in found if broken is not None), None)
    assert first is not None, f"{name}: not found in {ENOUGH} histories"
    assert first.promise in breaks, first


def test_a_history_that_breaks_a_promise_is_shortened_and_breaks_it_still() -> None:
    with planted("the relay's mark asks for no dispatch"):
        all_told = (random_history(draw(seed)) for seed in range(ENOUGH))
        told = next(one for one in all_told if one.broken is not None and len(one.script) > LONG)
        shorter = shrink(told, tries=400)
        again = scripted_history(shorter.plan, shorter.script)
    assert told.broken is not None
    assert again.broken is not None
    assert again.broken == shorter.broken
    assert again.broken.promise == told.broken.promise
    assert len(shorter.script) < len(told.script) / 2, f"{len(told.script)} steps became {len(shorter.script)}"
    assert scripted_history(shorter.plan, shorter.script).broken is None, "without the fault it breaks nothing"


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_seed_tells_the_same_history_in_every_process(hash_seed: str) -> None:
    ask = "from tests.histories.test_random_histories import _digest; print(_digest())"
    told = subprocess.run(
        [sys.executable, "-c", ask],
        env={"PYTHONHASHSEED": hash_seed, "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert told.stdout.strip() == _digest()


def test_a_seeds_script_tells_the_same_history_as_its_dice() -> None:
    for seed in TOLD:
        told = random_history(draw(seed), story=True)
        assert scripted_history(told.plan, told.script, story=True).story == told.story
