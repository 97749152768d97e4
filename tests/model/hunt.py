"""Hunt for the counterexample of what lacks one part, in the configurations where it can be told from the whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shared.domain.job import Job
from shared.domain.states import SUBMIT, Seen, Transition
from tests.model import submit
from tests.model.explore import Explorable, Exploration, explore
from tests.model.job_model import ROWS, JobModel
from tests.model.mutations import all_mutations, together
from tests.model.profiles import PROFILES
from tests.model.record import Record

ALL = all_mutations()

BY_ROW: Mapping[str, list[tuple[str, Transition]]] = defaultdict(list)
for _name, _mutation in ALL.items():
    for _row in _mutation.rows:
        BY_ROW[_row.name].append((_name, _row))


@dataclass(slots=True)
class Hunt:
    """What came of one: the promise that is broken, or "" for none within the bounds."""

    names: Sequence[str]
    broken: str = ""
    profile: str = ""
    trace: Sequence[str] = ()
    states: int = 0


@dataclass(slots=True)
class Watch:
    """Notes, while the whole table is explored, which spoilt rows would have answered otherwise, and how soon."""

    model: JobModel | None = None
    asked: int = 0
    told_apart: dict[str, int] = field(default_factory=dict)

    def __call__(self, job: Job, row: Transition, seen: Seen, changes: dict[str, Any], answer: Record | None) -> None:
        assert self.model is not None
        self.asked += 1
        for name, spoilt_row in BY_ROW[row.name]:
            if name not in self.told_apart and self.model.records.ask(job, spoilt_row, seen, changes) is not answer:
                self.told_apart[name] = self.asked


WATCH_STATES = 30_000
"""States per configuration that it takes to see where each part makes a difference."""


def explore_watched(profile: str, states: int) -> tuple[Exploration, Mapping[str, int]]:
    """The whole table in this configuration; and which spoilt ones make a difference there, with how soon. The latter
    is looked for in the same states however many are asked for, so that every hunt is the same.
    """
    watch = Watch()
    watch.model = JobModel(**PROFILES[profile], watch=watch)
    found = explore(watch.model, WATCH_STATES)
    if not found.complete and states > WATCH_STATES:
        found = explore(JobModel(**PROFILES[profile]), states)
    return found, watch.told_apart


def hunt(names: Sequence[str], profiles: Sequence[str], states: int) -> Hunt:
    """The first counterexample without these rules and parts of the table, in these configurations."""
    found = Hunt(names)
    for profile in profiles:
        result = explore(model_without(names, profile), states, until_broken=True)
        found.states += result.states
        if counterexamples := result.counterexamples:
            found.broken, found.trace = min(counterexamples.items(), key=lambda item: len(item[1]))
            found.profile = profile
            break
    return found


def model_without(names: Sequence[str], profile: str) -> Explorable:
    """That configuration, lacking these."""
    mutations = [ALL[name] for name in names if name in ALL]
    rows = {row.name: row for row in together(mutations).rows} if mutations else {}
    if profile in submit.CASES:
        return replace(submit.CASES[profile], row=rows.get(SUBMIT.name, SUBMIT))
    off = [name for name in names if name not in ALL]
    return JobModel(**PROFILES[profile], table={**ROWS, **rows}, off=off)
