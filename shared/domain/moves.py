"""What a move does to a record, read from the table: the meaning that DynamoDB conditions are compiled from, and all
that the in-memory twin knows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from shared.domain.job import EFFECT_STARTED, Effect, Job
from shared.domain.states import (
    AsSeen,
    EffectFree,
    EffectMine,
    Either,
    Exists,
    Guard,
    Missing,
    Seen,
    Transition,
    Versus,
)

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def allowed(job: Job | None, move: Transition, seen: Seen) -> bool:
    """Whether the record lets this move be made. Raises ValueError when `seen` lacks what a guard compares with."""
    if not move.arms:
        return _all(move.guards, job, seen)
    in_arm = [_all(arm.guards, job, seen) and job is not None and job.state in arm.states for arm in move.arms]
    return _all(move.guards, job, seen) and any(in_arm)


def _all(guards: tuple[Guard, ...], job: Job | None, seen: Seen) -> bool:
    results = [holds(guard, job, seen) for guard in guards]  # each one, so that a gap in `seen` always shows
    return all(results)


def holds(guard: Guard, job: Job | None, seen: Seen) -> bool:
    """Whether one guard holds, a missing field meaning what it means to DynamoDB."""
    match guard:
        case Versus():
            found = _field(job, guard.field)
            other = seen.value(guard.seen) if guard.seen else _field(job, guard.other)
            return found is not None and other is not None and _COMPARE[guard.operator](found, other)
        case Exists():
            return _field(job, guard.field) is not None
        case Missing():
            return _field(job, guard.field) is None
        case AsSeen():
            return bool(_field(job, guard.field) == getattr(seen, guard.field))
        case Either():
            results = [holds(option, job, seen) for option in guard.options]
            return any(results)
        case EffectFree():
            effect = _effect(job, seen)
            left_behind = (
                effect is not None and effect.status == EFFECT_STARTED and effect.run < int(str(seen.value("run")))
            )
            return effect is None or (guard.takeover and left_behind)
        case EffectMine():
            effect = _effect(job, seen)
            return effect is not None and effect.status == EFFECT_STARTED and effect.run == seen.value("run")


def after(job: Job, move: Transition, changes: Mapping[str, Any], effect: str | None = None) -> Job:
    """The record after the move; `effect` names the entry that the field "effect" means. Raises ValueError for
    changes that the move does not take.
    """
    move.check_changes(changes)
    new: dict[str, Any] = dict.fromkeys(move.drops)
    new |= dict(move.fixed)
    new |= {name: getattr(job, name) + by for name, by in move.adds}
    new |= {name: value for name, value in changes.items() if name not in move.first}
    new |= {name: changes[name] for name in move.first if name in changes and getattr(job, name) is None}
    if "effect" in new:
        entry = new.pop("effect")
        others = {name: value for name, value in job.effects.items() if name != effect}
        new["effects"] = others if entry is None else {**others, str(effect): entry}
    if move.target is not None:
        new["state"] = move.target
    return replace(job, **new)


def _effect(job: Job | None, seen: Seen) -> Effect | None:
    name = str(seen.value("effect"))
    return None if job is None else job.effects.get(name)


def _field(job: Job | None, name: str) -> Any:
    return None if job is None else getattr(job, name)
