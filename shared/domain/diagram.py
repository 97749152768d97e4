"""The README's state diagram, drawn from the transition table: `make diagram` renews it."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from shared.domain.states import FINAL, MARK, TABLE, State

BEGIN, END = "<!-- the transition table begins -->", "<!-- the transition table ends -->"


def diagram() -> str:
    """A Mermaid state diagram: one arrow per pair of states, labelled with its moves."""
    labels: dict[tuple[str, str], list[str]] = defaultdict(list)
    for move in TABLE:
        name = move.name.partition(" (")[0]
        for source in sorted(move.sources) if move.arms else ["[*]"]:
            arrow = (str(source), str(move.target or source))
            if move is not MARK and name not in labels[arrow]:
                labels[arrow].append(name)
    rank = {str(state): n for n, state in enumerate(State)}
    arrows = sorted((a for a in labels if labels[a]), key=lambda a: (rank.get(a[0], -1), rank[a[1]]))
    lines = [f"    {source} --> {target}: {', '.join(labels[source, target])}" for source, target in arrows]
    ends = [f"    {state} --> [*]" for state in State if state in FINAL and state is State.COMPLETED]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, *ends, "```"])


def renewed(text: str) -> str:
    """The text with the diagram between its two markers drawn again. Raises ValueError without the markers."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the text has no {BEGIN!r} ... {END!r}")
    return f"{head}{BEGIN}\n{diagram()}\n{END}{tail}"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(renewed(page.read_text()))
