"""DynamoDB expressions, compiled from moves. Every name is aliased: half of ours are reserved words there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.adapters.wire import encode
from shared.domain.job import EFFECT_STARTED
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


class Expression:
    """Collects the names and values that one request's expressions use; `bound` is what the request must carry."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, dict[str, Any]] = {}

    @property
    def bound(self) -> dict[str, Any]:
        """ExpressionAttributeNames and ...Values; the latter only where there are any (DynamoDB refuses empty ones)."""
        values = {"ExpressionAttributeValues": self._values} if self._values else {}
        return {"ExpressionAttributeNames": self._names, **values}

    def condition(self, move: Transition, seen: Seen) -> str:
        """What must hold for the move: its guards, and one of its arms."""
        arms = []
        for arm in move.arms:
            states = ", ".join(self._value("state", state) for state in sorted(arm.states))
            arms.append(self._and([f"{self._name('state')} IN ({states})", *self._guards(arm.guards, seen)]))
        if len(arms) > 1:  # a lone arm stands bare: DynamoDB refuses redundant parentheses
            arms = [f"({' OR '.join(f'({arm})' if ' AND ' in arm else arm for arm in arms)})"]
        return self._and([*arms, *self._guards(move.guards, seen)])

    def all_of(self, guards: Iterable[Guard], seen: Seen) -> str:
        """All of these guards hold."""
        return self._and(self._guards(guards, seen))

    def update(self, move: Transition, seen: Seen, changes: Mapping[str, Any]) -> str:
        """What the move writes."""
        given = {name: value for name, value in changes.items() if name not in move.first}
        assigned = dict(move.fixed) | given | ({} if move.target is None else {"state": move.target})
        sets = [f"{self._path(name, seen)} = {self._value(name, value)}" for name, value in assigned.items()]
        sets += [
            f"{self._name(name)} = if_not_exists({self._name(name)}, {self._value(name, changes[name])})"
            for name in move.first
            if name in changes
        ]
        adds = [f"{self._name(name)} {self._value(name, by)}" for name, by in move.adds]
        drops = [self._path(name, seen) for name in move.drops if name not in assigned]
        parts = (("SET", sets), ("ADD", adds), ("REMOVE", drops))
        return " ".join(f"{verb} {', '.join(what)}" for verb, what in parts if what)

    def replacement(self, values: Mapping[str, Any]) -> str:
        """The update after which an item has these values, and lacks those that are None."""
        sets = [f"{self._name(name)} = {self._value(name, v)}" for name, v in values.items() if v is not None]
        drops = [self._name(name) for name, v in values.items() if v is None]
        parts = (("SET", sets), ("REMOVE", drops))
        return " ".join(f"{verb} {', '.join(what)}" for verb, what in parts if what)

    def _guards(self, guards: Iterable[Guard], seen: Seen) -> list[str]:
        return [self._guard(guard, seen) for guard in guards]

    def _guard(self, guard: Guard, seen: Seen) -> str:
        match guard:
            case Versus():
                other = self._value(guard.field, seen.value(guard.seen)) if guard.seen else self._name(guard.other)
                return f"{self._name(guard.field)} {guard.operator} {other}"
            case Exists():
                return f"attribute_exists({self._name(guard.field)})"
            case Missing():
                return f"attribute_not_exists({self._name(guard.field)})"
            case AsSeen():
                value = getattr(seen, guard.field)
                if value is None:
                    return f"attribute_not_exists({self._name(guard.field)})"
                return f"{self._name(guard.field)} = {self._value(guard.field, value)}"
            case Either():
                return f"({' OR '.join(self._guards(guard.options, seen))})"
            case EffectFree():
                absent = f"attribute_not_exists({self._path('effect', seen)})"
                return f"({absent} OR ({self._started(seen, '<')}))" if guard.takeover else absent
            case EffectMine():
                return self._started(seen, "=")

    def _started(self, seen: Seen, operator: str) -> str:
        path, run = self._path("effect", seen), self._value("run", seen.value("run"))
        status = self._value("status", EFFECT_STARTED)
        return f"{path}.{self._name('status')} = {status} AND {path}.{self._name('run')} {operator} {run}"

    def _path(self, field: str, seen: Seen) -> str:
        """The field's place in the item; "effect" is the entry that `seen` names, whatever characters its name has."""
        if field != "effect":
            return self._name(field)
        self._names["#effect_name"] = str(seen.value("effect"))
        return f"{self._name('effects')}.#effect_name"

    def _and(self, parts: Iterable[str]) -> str:
        return " AND ".join(parts)

    def _name(self, field: str) -> str:
        attribute = "pk" if field == "job_id" else field
        self._names[f"#{attribute}"] = attribute
        return f"#{attribute}"

    def _value(self, field: str, value: Any) -> str:
        encoded = encode(field, value)
        alias = next((a for a, known in self._values.items() if known == encoded), f":v{len(self._values)}")
        self._values[alias] = encoded
        return alias
