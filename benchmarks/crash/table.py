"""The result, for people and as JSON."""

from __future__ import annotations

import json
import os
import platform
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.crash.run import Plan, Row

WIDTH = 120
RESULTS = Path(__file__).parent / "results.json"
COLUMNS = (
    f"{'':<18}{'':<8}{'inter-':>7}{'re-':>9}{'next start, s':>19}{'':>6}{'their effects':>19}{'waiting':>11}",
    f"{'system':<18}{'version':<8}{'rupted':>7}{'covered':>9}{'first':>9}{'median':>8}{'longest':>8}"
    f"{'none':>8}{'once':>6}{'more':>6}{'done':>10}{'kept':>9}{'lost':>7}",
)
RECOMMENDED = "with what their documentation offers against lost workers"


def text(rows: Sequence[Row], plan: Plan) -> str:
    """The table, then what each system's settings are and do; at most 120 columns."""
    head = (
        f"{plan.jobs} jobs of {plan.work_seconds:g} s per system; one kill -9 of its worker in mid-job, and at once a "
        f"new worker; watched for {plan.window_seconds:g} s after the kill."
    )
    parts = ["", *COLUMNS, "-" * WIDTH, *(_line(row) for row in rows if not row.about.recommended)]
    if offered := [row for row in rows if row.about.recommended]:
        parts += [RECOMMENDED.center(WIDTH, "-"), *(_line(row) for row in offered)]
    return "\n".join([textwrap.fill(head, WIDTH), *parts, "", *(_about(row) for row in rows)])


def save(rows: Sequence[Row], plan: Plan) -> None:
    """Write results.json, with the day and the machine."""
    machine = {"cores": os.cpu_count(), "system": platform.system(), "python": platform.python_version()}
    whole = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine, "plan": asdict(plan)}
    RESULTS.write_text(json.dumps({**whole, "rows": [_as_json(row) for row in rows]}, indent=1) + "\n")


def _line(row: Row) -> str:
    shown = _as_json(row)
    start = shown["next_start_seconds"]
    first, median, longest = (f"{seconds:.1f}" for seconds in start.values()) if start else ("-", "-", "-")
    effects, waiting = shown["effects"], f"{shown['waiting_done']} of {shown['waiting']}"
    return (
        f"{shown['name']:<18}{shown['version']:<8}{shown['interrupted']:>7}{shown['recovered']:>9}"
        f"{first:>9}{median:>8}{longest:>8}{effects['none']:>8}{effects['once']:>6}{effects['more']:>6}"
        f"{waiting:>10}{shown['kept']:>9}{shown['lost']:>7}"
    )


def _about(row: Row) -> str:
    about = row.about
    said = f"{about.name}: at once {about.at_once}; not default: {about.settings}. {about.afterwards}"
    return textwrap.fill(said, WIDTH, subsequent_indent="  ")


def _as_json(row: Row) -> dict[str, Any]:
    counted, start = row.tally, row.tally.next_start
    return {
        **asdict(row.about),
        "interrupted": len(counted.interrupted),
        "recovered": len(counted.recovered),
        "next_start_seconds": start and {which: round(seconds, 1) for which, seconds in start.items()},
        "effects": {
            "none": counted.effects.count(0),
            "once": counted.effects.count(1),
            "more": sum(times > 1 for times in counted.effects),
        },
        "waiting": len(counted.waiting),
        "waiting_done": len(counted.waited),
        "kept": row.kept,
        "lost": row.lost,
    }
