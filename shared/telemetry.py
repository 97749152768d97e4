"""Names of the metrics, said once for the code that emits them and the stacks that watch them.

Dimensions: queue, type, and service (Powertools adds it: the function's). Durations are in milliseconds. Alerts have
the queue alone: an alarm names every dimension of what it watches, and the stacks know queues but no types.
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


JOBS_EXPIRED = "AlertExpired"
TYPE_NOT_LOADED = "AlertTypeNotLoaded"
TYPE_NOT_KNOWN = "AlertTypeNotKnown"


def alert_metric(alert: str) -> str:
    """The counter of an alert: "type-not-loaded" → "AlertTypeNotLoaded"."""
    return f"Alert{outcome_metric(alert)}"


def outcome_metric(outcome: str) -> str:
    """The counter of an outcome: "retrying-in-due" → "RetryingInDue"."""
    return "".join(word.capitalize() for word in outcome.split("-"))
