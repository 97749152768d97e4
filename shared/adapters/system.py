"""The clock, and structured logs and metrics through Powertools."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from shared.domain.describe import describe, safe_text, stack_of
from shared.domain.outcome import Alert, Outcome
from shared.ports import Measured
from shared.telemetry import ATTEMPT, LEASE_EXPIRIES, NAMESPACE, RUN_TIME, TOTAL_TIME, alert_metric, outcome_metric

_MORE_THAN_A_WORD = re.compile(r"[^\w./-]")


class SystemClock:
    """Clock of this machine."""

    def now(self) -> datetime:
        """See Clock. Cut to milliseconds, as the table keeps it, so that what was seen equals what is stored."""
        now = datetime.now(UTC)
        return now.replace(microsecond=now.microsecond // 1000 * 1000)


class PowertoolsLog:
    """Log as one JSON line per event. Fields travel with their line: `append_keys` would mix up the threads' jobs."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def event(self, name: str, /, *, level: str = "info", error: BaseException | None = None, **fields: Any) -> None:
        """See Log. A traceback goes with errors only: a retry that the policy foresees is no surprise. It is made here,
        since Python's own (exc_info) repeats whatever text an exception was given.
        """
        said = {name: _safe(value) for name, value in fields.items()}
        if error is not None:
            said |= {"error": describe(error), "error_type": type(error).__name__}
            said |= {"exception": stack_of(error)} if level == "error" else {}
        getattr(self._logger, level)(name, extra=said)


def _safe(value: Any) -> Any:
    """A word is a name or a number and goes as it is: eight of ten values are, and redaction costs 50 µs."""
    return safe_text(value) if type(value) is str and _MORE_THAN_A_WORD.search(value) else value


class PowertoolsMeter:
    """Meter as CloudWatch embedded metrics. `own_metrics`: whether this job type has asked for metrics of its own."""

    def __init__(self, own_metrics: Callable[[str], bool] = lambda _: False) -> None:
        self._own_metrics = own_metrics

    def emit(self, queue: str, counted: Sequence[Measured]) -> None:
        """See Meter. One line per batch for the lane, and one more for each type with metrics of its own: that one
        counts for both.
        """
        lines: dict[str | None, list[Measured]] = {}
        for one in counted:
            lines.setdefault(one.type if self._own_metrics(one.type) else None, []).append(one)
        for job_type, ended in lines.items():
            metrics = _of_lane(queue)
            if job_type is not None:
                metrics.add_dimensions(queue=queue, type=job_type)
            for name, unit, value in _values(ended):
                metrics.add_metric(name, unit, value)
            _write(metrics)

    def alert(self, alert: Alert, *, queue: str, type: str, job: str) -> None:
        """See Meter."""
        metrics = _of_lane(queue)
        metrics.add_metadata("type", type)
        metrics.add_metadata("job", job)
        metrics.add_metric(alert_metric(alert), MetricUnit.Count, 1.0)
        _write(metrics)


def _of_lane(queue: str) -> EphemeralMetrics:
    """Under the lane alone: without a service, whoever tells of it counts in one and the same. A fresh object each
    time: the shared one of Powertools miscounts under threads.
    """
    metrics = EphemeralMetrics(namespace=NAMESPACE, service="")
    metrics.add_dimension("queue", queue)
    return metrics


def _write(metrics: EphemeralMetrics) -> None:
    """One write for the whole line; between the two of flush_metrics another thread's line may fall."""
    sys.stdout.write(json.dumps(metrics.serialize_metric_set(), separators=(",", ":")) + "\n")


def _values(ended: Sequence[Measured]) -> list[tuple[str, MetricUnit, float]]:
    outcomes = Counter(outcome_metric(one.outcome) for one in ended)
    values = [(name, MetricUnit.Count, float(n)) for name, n in outcomes.items()]
    reclaimed = sum(one.reclaimed for one in ended)
    values += [(LEASE_EXPIRIES, MetricUnit.Count, float(reclaimed))] if reclaimed else []
    for one in ended:
        if one.ran is not None:
            values.append((RUN_TIME, MetricUnit.Milliseconds, one.ran.total_seconds() * 1000))
            values.append((ATTEMPT, MetricUnit.Count, float(one.attempt)))
        if one.since_submit is not None and one.outcome == Outcome.COMPLETED:
            values.append((TOTAL_TIME, MetricUnit.Milliseconds, one.since_submit.total_seconds() * 1000))
    return values
