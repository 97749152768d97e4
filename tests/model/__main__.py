"""Explore the model: `python -m tests.model [STATES]`, at most so many states per configuration (100000).

1 the whole table and every rule, in every configuration: no promise is broken, and the end stays in reach
2 each part of the table and each rule missing: its counterexample, or the reason why there is none
3 order per key   4 submitting   5 with a clock
Exits with 1 on any surprise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing import Pool
from time import perf_counter
from typing import TypeVar

from tqdm import tqdm

from tests.model import ablate, fifo_cases, submit, timed
from tests.model.explore import Exploration, explore
from tests.model.hunt import WATCH_STATES, explore_watched
from tests.model.profiles import PROFILES

T = TypeVar("T")

PROCESSES = 2

Explored = tuple[str, Exploration, Mapping[str, int], float]


def main(states: int) -> int:
    """The exit status."""
    sections = [_table_and_rules(states), _order_and_submitting(), _with_a_clock()]
    total, faults = (sum(counts) for counts in zip(*sections, strict=True))
    _say(f"\n{total} states explored, {faults} surprise(s)")
    return 1 if faults else 0


def _table_and_rules(states: int) -> tuple[int, int]:
    """States explored and surprises: of the whole, and of what lacks a part."""
    total, faults, told_apart = 0, 0, dict[str, Mapping[str, int]]()
    most = max(states, WATCH_STATES)
    with Pool(PROCESSES) as pool:
        _say(f"== 1. the whole table, at most {most} states in each configuration")
        runs = [(name, most) for name in PROFILES]
        for name, found, apart, seconds in _bar(pool.imap(_explored, runs), len(runs), "configurations"):
            told_apart[name] = apart
            total += found.states
            faults += _tell(name, found, seconds)
        _say("\n== 2. each part of the table and each rule missing")
        parts = [(name, ablate.where(name, told_apart)) for name in ablate.names()]
        for verdict in _bar(pool.imap(_judged, parts), len(parts), "parts"):
            total += verdict.states
            faults += bool(verdict.fault)
            _say(_told(verdict))
    return total, faults


def _order_and_submitting() -> tuple[int, int]:
    total, faults = 0, 0
    for title, section in (("3. order per key", _fifo()), ("4. submitting", _submit())):
        _say(f"\n== {title}")
        for name, found, expected in section:
            total += found.states
            faults += _tell(name, found, None, expected)
    return total, faults


def _with_a_clock() -> tuple[int, int]:
    _say("\n== 5. with a clock")
    faults = 0
    for name, (as_it_is, without) in timed.RUNS.items():
        told, missing = as_it_is(), without()
        _say(f"{name:44} {told.text:40} without the rule: {missing.text}")
        faults += not told.well or missing.well
    return 0, faults


def _explored(run: tuple[str, int]) -> Explored:
    name, states = run
    began = perf_counter()
    found, apart = explore_watched(name, states)
    return name, found, apart, perf_counter() - began


def _judged(part: tuple[str, Sequence[str]]) -> ablate.Verdict:
    return ablate.judge(*part)


def _tell(name: str, found: Exploration, seconds: float | None, expected: bool = False) -> int:
    """One line, the traces of what is wrong, and 1 if anything is. expected: here a counterexample is right."""
    took = "" if seconds is None else f" {seconds:6.1f} s"
    cut = f"  cut by {found.bounds}" if found.bounds else ""
    whole = "all" if found.complete else "CUT"
    _say(f"{name:62} {found.states:9} states {found.steps:10} steps  depth {found.depth:3} {whole}{took}{cut}")
    for broken, trace in found.counterexamples.items():
        if expected:
            _say(f"  {broken}, {len(trace)} steps")
        else:
            _say(_numbered(broken, trace))
    if expected and not found.counterexamples:
        _say("  SURPRISE: no counterexample")
    return int(bool(found.counterexamples) is not expected)


def _told(verdict: ablate.Verdict) -> str:
    found = verdict.found
    told = f"{verdict.name}\n"
    if found.broken:
        told += _numbered(f"{found.broken}  [{found.profile}]", found.trace)
    else:
        told += f"  none within {found.states} states"
    if verdict.reason is not None:
        told += f": {verdict.reason.why}"
    if verdict.covered is not None and verdict.covered.broken:
        covered = verdict.covered
        told += f"\n  without {' + '.join(covered.names[1:])} too: {covered.broken}, {len(covered.trace)} steps"
    return told + (f"\n  SURPRISE: {verdict.fault}" if verdict.fault else "")


def _numbered(title: str, trace: Sequence[str]) -> str:
    return "\n".join([f"  {title}", *(f"    {n:2}  {step}" for n, step in enumerate(trace, 1))])


def _fifo() -> Iterable[tuple[str, Exploration, bool]]:
    for cases, expected in ((fifo_cases.CASES, False), (fifo_cases.LIMITS, True), (fifo_cases.WITHOUT, True)):
        for name, model in cases.items():
            yield (
                (f"without {name}" if cases is fifo_cases.WITHOUT else name),
                explore(model, ablate.HUNT_STATES),
                expected,
            )


def _submit() -> Iterable[tuple[str, Exploration, bool]]:
    for cases, expected in ((submit.CASES, False), (submit.WITHOUT, True)):
        for name, model in cases.items():
            yield (f"without {name}" if expected else name), explore(model, ablate.HUNT_STATES), expected


def _bar(results: Iterable[T], count: int, unit: str) -> Iterable[T]:
    bar: Iterable[T] = tqdm(results, total=count, unit=f" {unit}", file=sys.stderr, disable=not sys.stderr.isatty())
    return bar


def _say(text: str) -> None:
    tqdm.write(text, file=sys.stdout)
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("states", nargs="?", type=int, default=100_000)
    given = parser.parse_args()
    if given.states < WATCH_STATES:
        parser.error(f"STATES: at least {WATCH_STATES}, which the rules need to be watched")
    try:
        sys.exit(main(given.states))
    except KeyboardInterrupt:
        sys.exit(130)
