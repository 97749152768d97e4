"""Alarms by what they watch; every one names its runbook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.stage import Stage

MINUTE = cdk.Duration.minutes(1)
RUNBOOKS = Path(__file__).resolve().parents[2] / "docs" / "runbooks"


class Alarms:
    """Makes the alarms of one stage; all tell the same topic, when they begin and when they end."""

    def __init__(self, scope: Construct, stage: Stage, topic: sns.ITopic) -> None:
        self._scope, self._stage, self._topic = scope, stage, topic

    def raise_when(
        self,
        name: str,
        watched: cloudwatch.IMetric,
        *,
        at_least: int,
        says: str,
        runbook: str,
        minutes: tuple[int, int] = (1, 1),
    ) -> None:
        """Ring when `watched` is `at_least` this much in `minutes` (m of the last n). Raises ValueError when
        docs/runbooks has no such page.
        """
        # Idle queues and functions report nothing, which is not a fault.
        self._alarm(
            name,
            says,
            runbook,
            metric=watched,
            threshold=at_least,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            datapoints_to_alarm=minutes[0],
            evaluation_periods=minutes[1],
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )

    def raise_when_silent(
        self, name: str, watched: cloudwatch.IMetric, *, minutes: int, says: str, runbook: str
    ) -> None:
        """Ring when `watched`, which beats every minute, has not for so many. Raises ValueError as `raise_when`."""
        self._alarm(
            name,
            says,
            runbook,
            metric=watched,
            threshold=1,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            datapoints_to_alarm=minutes,
            evaluation_periods=minutes,
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
        )

    def _alarm(self, name: str, says: str, runbook: str, **watch: Any) -> None:
        page = RUNBOOKS / f"{runbook}.md"
        if not page.is_file():
            raise ValueError(f"alarm {name!r}: docs/runbooks/{page.name} does not exist; write it first")
        alarm = cloudwatch.Alarm(
            self._scope,
            name,
            alarm_name=f"{self._stage.prefix}-{name}",
            alarm_description=f"{says} Runbook: docs/runbooks/{page.name}",
            **watch,
        )
        tell = actions.SnsAction(self._topic)
        alarm.add_alarm_action(tell)
        alarm.add_ok_action(tell)


def metric(namespace: str, name: str, statistic: str, **dimensions: str) -> cloudwatch.Metric:
    """A metric by the minute, under exactly these dimensions."""
    return cloudwatch.Metric(
        namespace=namespace, metric_name=name, statistic=statistic, dimensions_map=dimensions, period=MINUTE
    )


def waiting_in(queue_name: str, stage: Stage) -> cloudwatch.IMetric:
    """Messages in a queue nothing should wait in, those in somebody's hands included: an operator who looks at a dead
    letter hides it, and the alarm must not end by that.
    """
    visible = metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", QueueName=queue_name)
    if stage.is_local:
        return visible  # the emulator refuses alarms on metric math
    hidden = metric("AWS/SQS", "ApproximateNumberOfMessagesNotVisible", "Maximum", QueueName=queue_name)
    return cloudwatch.MathExpression(
        expression="visible + hidden",
        using_metrics={"visible": visible, "hidden": hidden},
        label="visible + not visible",
        period=MINUTE,
    )
