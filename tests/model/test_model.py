"""The model, explored as far as a minute reaches. `make model` goes on for as long as one likes."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.model import fifo_cases, submit, timed
from tests.model.ablate import HUNT_STATES, names
from tests.model.explained import EXPLAINED, Reason
from tests.model.explore import Exploration, explore
from tests.model.hints import SOON
from tests.model.hunt import ALL, hunt, model_without
from tests.model.job_model import JobModel
from tests.model.profiles import PROFILES
from tests.model.rules import RULES

STATES, HUNTED = 10_000, 20_000
"""Per configuration: of the whole, and of what lacks a part."""


@pytest.fixture(scope="module")
def explored() -> dict[str, Exploration]:
    return {}


@pytest.fixture(scope="module", autouse=True)
def _total(explored: dict[str, Exploration], figure: Callable[[str], None]) -> Iterator[None]:
    yield
    figure(f"model: {sum(found.states for found in explored.values())} states in {len(explored)} explorations")


@pytest.mark.parametrize("profile", PROFILES)
def test_no_interleaving_of_faults_loses_a_job_or_breaks_a_promise(
    profile: str, explored: dict[str, Exploration]
) -> None:
    found = explored[profile] = explore(JobModel(**PROFILES[profile]), STATES)

    assert not found.counterexamples


@pytest.mark.parametrize("part", SOON)
def test_what_is_taken_out_of_the_rules_is_missed(part: str, explored: dict[str, Exploration]) -> None:
    found = explored[part] = explore(model_without([part], SOON[part]), HUNTED, until_broken=True)

    assert found.counterexamples


@pytest.mark.parametrize(
    ("part", "reason"), [(part, reason) for reason in EXPLAINED for part in names() if reason.explains(part)]
)
def test_what_is_never_missed_is_covered_as_its_reason_says(part: str, reason: Reason) -> None:
    assert part not in SOON
    if reason.beside:
        assert hunt(reason.combined(part), [reason.profile], HUNT_STATES).broken


@pytest.mark.parametrize("reason", EXPLAINED, ids=lambda reason: reason.names[0])
def test_every_reason_is_about_parts_that_there_are(reason: Reason) -> None:
    everything = {*ALL, *RULES}

    assert all(fnmatch.filter(everything, pattern) for pattern in reason.names)
    assert not reason.beside or reason.profile in PROFILES


@pytest.mark.parametrize("case", fifo_cases.CASES)
def test_two_jobs_of_a_key_run_one_after_the_other(case: str, explored: dict[str, Exploration]) -> None:
    found = explored[f"fifo: {case}"] = explore(fifo_cases.CASES[case], STATES)

    assert not found.counterexamples


@pytest.mark.parametrize("case", fifo_cases.LIMITS)
def test_the_limits_of_the_order_per_key_are_limits(case: str) -> None:
    assert explore(fifo_cases.LIMITS[case], STATES).counterexamples


@pytest.mark.parametrize("rule", fifo_cases.WITHOUT)
def test_what_is_taken_out_of_the_rules_of_order_is_missed(rule: str) -> None:
    assert explore(fifo_cases.WITHOUT[rule], STATES).counterexamples


@pytest.mark.parametrize("case", submit.CASES)
def test_one_key_is_one_job_with_its_own_body(case: str, explored: dict[str, Exploration]) -> None:
    found = explored[f"submit: {case}"] = explore(submit.CASES[case], STATES)

    assert found.complete
    assert not found.counterexamples


@pytest.mark.parametrize("rule", submit.WITHOUT)
def test_what_is_taken_out_of_the_rules_of_submitting_is_missed(rule: str) -> None:
    assert explore(submit.WITHOUT[rule], STATES).counterexamples


@pytest.mark.parametrize("run", timed.RUNS)
def test_slow_streams_long_queues_and_skewed_clocks_harm_no_job(run: str) -> None:
    as_it_is, without_the_rule = timed.RUNS[run]

    assert as_it_is().well
    assert not without_the_rule().well


def test_every_part_of_the_table_was_hunted_for_or_is_explained() -> None:
    """A part that is new is in neither list until `make model` was run: write it into missed_parts.txt once that finds
    its counterexample, or its reason into explained.py.
    """
    missed = (Path(__file__).parent / "missed_parts.txt").read_text().split("\n")[:-1]
    assert missed == [name for name in names() if not any(reason.explains(name) for reason in EXPLAINED)]
