"""Names of the metrics, said once for the code that emits them and the stacks that watch them.

One dimension: the queue. CloudWatch bills each name under each set of dimensions, about eight a set; so only a job type
that says `own_metrics` is counted a second time, under queue and type. Durations are in milliseconds.
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
