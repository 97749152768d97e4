"""Every guard and every write of the transition table, as text beside this test.

Stored records outlive deployments, and a guard that goes missing loses jobs in ways no example shows: so whoever
changes a row changes two files, and the change is read as one. `python -m tests.unit.test_frozen_table` writes it anew.
"""

from __future__ import annotations

from pathlib import Path

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

FROZEN = Path(__file__).with_name("frozen_transition_table.txt")


def guard(g: Guard) -> str:
    match g:
        case Versus(field, operator, seen, other):
            return f"{field} {operator} {f'seen.{seen}' if seen else other}"
        case Exists(field):
            return f"{field} is there"
        case Missing(field):
            return f"no {field}"
        case AsSeen(field):
            return f"{field} as seen"
        case Either(options):
            return f"({' or '.join(guard(o) for o in options)})"
        case EffectFree(takeover):
            return "effect free" + (" or left by a lower run" if takeover else "")
        case EffectMine():
            return "effect mine"


def row(move: Transition) -> str:
    arms = [
        f"  from {' '.join(sorted(arm.states))}" + "".join(f"; {guard(g)}" for g in arm.guards) for arm in move.arms
    ]
    lines = {
        "if": [guard(g) for g in move.guards],
        "sets": [*move.sets],
        "may set": [*move.may],
        "sets if absent": [*move.first],
        "fixes": [f"{name}={value}" for name, value in move.fixed],
        "adds": [f"{name}{by:+d}" for name, by in move.adds],
        "drops": sorted(move.drops),
    }
    said = [f"  {verb}: {', '.join(what)}" for verb, what in lines.items() if what]
    return "\n".join([f"{move.name} -> {move.target or 'same state'}", *arms, *said])


def text() -> str:
    return "\n\n".join(row(move) for move in TABLE) + "\n"


def test_no_guard_and_no_write_of_the_table_changes_unread() -> None:
    assert text() == FROZEN.read_text(), "read the difference; if it is meant: python -m tests.unit.test_frozen_table"


if __name__ == "__main__":
    FROZEN.write_text(text())
