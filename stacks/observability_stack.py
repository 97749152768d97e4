"""What wakes somebody: alarms on one topic, each with the runbook that says what to do.

Everything is watched by its physical name, so this stack holds no export of a queue or function that would keep it
from being renamed or removed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from shared.queues import QUEUES, Queue
from shared.telemetry import JOBS_EXPIRED, NAMESPACE, TYPE_NOT_KNOWN, TYPE_NOT_LOADED
from stacks.constructs.alarms import Alarms, metric, waiting_in
from stacks.constructs.encryption import customer_key, key_policy
from stacks.stage import Stage

RELAY_BEHIND = timedelta(minutes=1)
DEPLOYED_BY_THEN = (5, 15)
"""Minutes: while a deployment runs, the door may take jobs that the worker does not know yet."""


class ObservabilityStack(cdk.Stack):
    """Alarms per queue, per function, on the relay's stream and on the API; `topic` tells whoever subscribes."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, api_id: str, **options: Any) -> None:
        super().__init__(scope, id, description="Holdfast: alarms (stateless)", **options)
        self._stage = stage
        self.topic = _topic(self, stage)
        self._alarms = Alarms(self, stage, self.topic)
        for declared in QUEUES.values():
            self._watch_queue(declared)
        self._watch_relay()
        self._watch_promoter()
        for function in (
            "api",
            "relay",
            "promoter",
            "tally",
            *(f"worker-{declared.slug}" for declared in QUEUES.values()),
        ):
            self._watch_function(function)
        self._alarms.raise_when(
            "api-5xx",
            metric("AWS/ApiGateway", "5xx", "Sum", ApiId=api_id),
            at_least=1,
            minutes=(2, 5),
            says="The API answered 5xx: callers could not be promised anything.",
            runbook="api-5xx",
        )

    def _watch_queue(self, declared: Queue) -> None:
        seconds = int(declared.oldest_age_alarm.total_seconds())
        name = declared.physical_name(self._stage.prefix)
        self._alarms.raise_when(
            f"{declared.slug}-oldest-age",
            metric("AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum", QueueName=name),
            at_least=seconds,
            says=f"Queue {declared.name}: someone has been waiting for {seconds} s or more.",
            runbook="queue-age",
        )
        self._alarms.raise_when(
            f"{declared.slug}-dead-letters",
            waiting_in(declared.dead_letter_name(self._stage.prefix), self._stage),
            at_least=1,
            says=f"Queue {declared.name}: dead jobs wait for an operator in its dead-letter queue.",
            runbook="dead-letters",
        )
        self._watch_alerts(declared)

    def _watch_alerts(self, declared: Queue) -> None:
        """What no dead-letter queue tells of."""
        self._alarms.raise_when(
            f"{declared.slug}-expired",
            metric(NAMESPACE, JOBS_EXPIRED, "Sum", queue=declared.name),
            at_least=1,
            says=f"Queue {declared.name}: jobs grew too old before they could run, and lie in no dead-letter queue.",
            runbook="jobs-expired",
        )
        self._alarms.raise_when(
            f"{declared.slug}-type-not-loaded",
            metric(NAMESPACE, TYPE_NOT_LOADED, "Sum", queue=declared.name),
            at_least=1,
            says=f"Queue {declared.name}: a job type's file does not import; its jobs wait until too old.",
            runbook="job-type-unusable",
        )
        self._alarms.raise_when(
            f"{declared.slug}-type-not-known",
            metric(NAMESPACE, TYPE_NOT_KNOWN, "Sum", queue=declared.name),
            at_least=1,
            minutes=DEPLOYED_BY_THEN,
            says=f"Queue {declared.name}: its worker has lacked a job type or version for longer than a deployment.",
            runbook="job-type-unusable",
        )

    def _watch_relay(self) -> None:
        relay = self._stage.function_name("relay")
        self._alarms.raise_when(
            "relay-behind",
            metric("AWS/Lambda", "IteratorAge", "Maximum", FunctionName=relay),
            at_least=int(RELAY_BEHIND.total_seconds() * 1000),
            minutes=(2, 2),
            says="The relay is a minute or more behind the table: accepted jobs do not start.",
            runbook="relay-behind",
        )
        self._alarms.raise_when(
            "relay-parked",
            waiting_in(f"{self._stage.prefix}-relay-parked", self._stage),
            at_least=1,
            says="The relay put outbox records aside: the jobs they name are not being started.",
            runbook="relay-parked",
        )

    def _watch_promoter(self) -> None:
        self._alarms.raise_when_silent(
            "promoter-silent",
            metric("AWS/Lambda", "Invocations", "Sum", FunctionName=self._stage.function_name("promoter")),
            minutes=5,
            says="The promoter has not ticked for five minutes: scheduled jobs and long retries do not start.",
            runbook="promoter-silent",
        )

    def _watch_function(self, function: str) -> None:
        name = self._stage.function_name(function)
        self._alarms.raise_when(
            f"{function}-errors",
            metric("AWS/Lambda", "Errors", "Sum", FunctionName=name),
            at_least=1,
            says=f"Function {function} crashed, timed out or ran out of memory; a failing job alone is not an error.",
            runbook="function-errors",
        )
        self._alarms.raise_when(
            f"{function}-throttles",
            metric("AWS/Lambda", "Throttles", "Sum", FunctionName=name),
            at_least=1,
            minutes=(3, 5),
            says=f"Function {function} is throttled: the account's concurrency is used up.",
            runbook="function-throttles",
        )


def _topic(stack: cdk.Stack, stage: Stage) -> sns.Topic:
    topic = sns.Topic(
        stack,
        "Alarms",
        topic_name=f"{stage.prefix}-alarms",
        enforce_ssl=not stage.is_local,
        master_key=customer_key(stack, stage),
    )
    if stage.kms_key_arn:
        said = stack.to_json_string(key_policy(stack))
        cdk.CfnOutput(stack, "KeyPolicy", value=said, description="Add these statements to the key's own policy")
    # enforce_ssl writes a policy of one Deny, and any policy replaces SNS's default one: without this statement
    # CloudWatch may not publish and no alarm reaches anybody.
    topic.add_to_resource_policy(
        iam.PolicyStatement(
            sid="AlarmsMayPublish",
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=["sns:Publish"],
            resources=[topic.topic_arn],
            conditions={"StringEquals": {"aws:SourceAccount": stack.account}},
        )
    )
    if stage.alarm_email:
        topic.add_subscription(subscriptions.EmailSubscription(stage.alarm_email))
    return topic
