"""The table, spoilt in one place at a time: every guard, increment, constant and dropped field of every row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared.domain.states import (
    TABLE,
    AsSeen,
    EffectFree,
    EffectMine,
    Either,
    Exists,
    Guard,
    Missing,
    Transition,
    Versus,
)


@dataclass(frozen=True, slots=True)
class Mutation:
    """One row with one thing missing, or two such rows, or one with two things missing."""

    name: str
    rows: tuple[Transition, ...]


def all_mutations() -> Mapping[str, Mutation]:
    """Every one, by a name that says the row and what it lacks: "lease: without dispatch = seen"."""
    found = [mutation for row in TABLE for mutation in _of(row)]
    names = {mutation.name: mutation for mutation in found}
    assert len(names) == len(found), "two mutations of one name"
    return names


def together(mutations: Sequence[Mutation]) -> Mutation:
    """Everything missing at once."""
    rows: dict[str, Transition] = {}
    for row in (row for mutation in mutations for row in mutation.rows):
        rows[row.name] = _without_either(rows[row.name], row) if row.name in rows else row
    return Mutation(" + ".join(mutation.name for mutation in mutations), tuple(rows.values()))


def _without_either(one: Transition, other: Transition) -> Transition:
    whole = next(row for row in TABLE if row.name == one.name)
    merged: dict[str, Any] = {
        name: _merged(getattr(whole, name), getattr(one, name), getattr(other, name)) for name in PARTS
    }
    return replace(whole, **merged)


PARTS = ("guards", "arms", "adds", "fixed", "drops")


def _merged(whole: tuple[object, ...], one: tuple[object, ...], other: tuple[object, ...]) -> tuple[object, ...]:
    if one == whole or other == whole:
        return other if one == whole else one
    if len(one) == len(other) == len(whole):  # parts that were weakened in place
        return tuple(a if b == w else b for w, a, b in zip(whole, one, other, strict=True))
    return tuple(part for part in whole if part in one and part in other)


def _of(row: Transition) -> Iterator[Mutation]:
    for guards, lacking in _weaker(row.guards):
        yield Mutation(f"{row.name}: without {lacking}", (replace(row, guards=guards),))
    for n, arm in enumerate(row.arms):
        for guards, lacking in _weaker(arm.guards):
            arms = (*row.arms[:n], replace(arm, guards=guards), *row.arms[n + 1 :])
            states = ", ".join(sorted(arm.states))
            yield Mutation(f"{row.name}: from {states} without {lacking}", (replace(row, arms=arms),))
    for field, by in row.adds:
        adds = tuple(item for item in row.adds if item[0] != field)
        yield Mutation(f"{row.name}: without {field} {by:+d}", (replace(row, adds=adds),))
    for field, value in row.fixed:
        fixed = tuple(item for item in row.fixed if item[0] != field)
        yield Mutation(f"{row.name}: without {field} := {value}", (replace(row, fixed=fixed),))
    for field in row.drops:
        drops = tuple(name for name in row.drops if name != field)
        yield Mutation(f"{row.name}: without dropping {field}", (replace(row, drops=drops),))


def _weaker(guards: tuple[Guard, ...]) -> Iterator[tuple[tuple[Guard, ...], str]]:
    """The guards with one gone, or one of its alternatives gone, and what is missing."""
    for n, guard in enumerate(guards):
        before, behind = guards[:n], guards[n + 1 :]
        yield (*before, *behind), told(guard)
        if isinstance(guard, Either):
            for option in guard.options:
                left = tuple(other for other in guard.options if other != option)
                yield (*before, Either(left), *behind), f"the choice {told(option)}"
        if isinstance(guard, EffectFree) and guard.takeover:
            yield (*before, EffectFree(takeover=False), *behind), "the takeover from a lower run"


def told(guard: Guard) -> str:
    """The guard in words."""
    match guard:
        case Versus(field, operator, seen, other):
            return f"{field} {operator} {other or ('seen' if seen == field else seen)}"
        case Exists(field):
            return f"a {field}"
        case Missing(field):
            return f"no {field}"
        case AsSeen(field):
            return f"{field} as seen"
        case Either(options):
            return " or ".join(told(option) for option in options)
        case EffectFree():
            return "a free effect"
        case EffectMine():
            return "its own effect"
