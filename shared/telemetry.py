"""Names of the metrics, said once for the code that emits them and the stacks that watch them.

Dimensions: queue, type, and service (Powertools adds it: the function's). Durations are in milliseconds.
"""

from __future__ import annotations

NAMESPACE = "Holdfast"

RUN_TIME = "RunTime"
"""One run, from its lease to its record."""

TOTAL_TIME = "TotalTime"
"""From submit (or the time asked for, if later) to completed."""

ATTEMPT = "Attempt"
"""The number of the attempt of each run: its histogram shows how much of the capacity goes to retries."""

LEASE_EXPIRIES = "LeaseExpiries"
"""Runs that took over from a worker that vanished."""


def outcome_metric(outcome: str) -> str:
    """The counter of an outcome: "retrying-in-due" → "RetryingInDue"."""
    return "".join(word.capitalize() for word in outcome.split("-"))
