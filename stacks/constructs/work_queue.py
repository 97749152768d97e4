"""One lane in SQS: its queue and its dead-letter queue, as shared/queues.py declares them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from shared.queues import DEAD_LETTER_RETENTION, Queue
from stacks.constructs.encryption import encrypt_queue
from stacks.stage import Stage


class WorkQueue(Construct):
    """`queue` rings the lane's worker; `dead_letters` takes the relay's marked copies, and what SQS itself gives up on.

    Both may go with their stack: the record is the truth, and its doorbell can be rung again.
    """

    def __init__(self, scope: Construct, id: str, *, stage: Stage, declared: Queue) -> None:
        super().__init__(scope, id)
        # The source's ARN is spelled out: two queues that refer to each other are a CloudFormation cycle.
        source_arn = cdk.Stack.of(self).format_arn(service="sqs", resource=declared.physical_name(stage.prefix))
        source = sqs.Queue.from_queue_arn(self, "Source", source_arn)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            queue_name=declared.dead_letter_name(stage.prefix),
            retention_period=duration(DEAD_LETTER_RETENTION),
            redrive_allow_policy=sqs.RedriveAllowPolicy(
                redrive_permission=sqs.RedrivePermission.BY_QUEUE, source_queues=[source]
            ),
            enforce_ssl=not stage.is_local,
            **_order(declared),
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            queue_name=declared.physical_name(stage.prefix),
            retention_period=duration(declared.message_retention),
            visibility_timeout=duration(declared.visibility_timeout),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=declared.max_receives),
            enforce_ssl=not stage.is_local,
            **_order(declared),
        )
        for queue in (self.queue, self.dead_letters):
            encrypt_queue(queue, stage)


def _order(declared: Queue) -> dict[str, Any]:
    if not declared.fifo:
        return {}
    # By group, a FIFO queue takes far more than 300 calls a second. No content-based de-duplication: a doorbell rung
    # again has the same body, and SQS would swallow the repair for five minutes.
    return {
        "fifo": True,
        "deduplication_scope": sqs.DeduplicationScope.MESSAGE_GROUP,
        "fifo_throughput_limit": sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
    }


def duration(of: timedelta) -> cdk.Duration:
    """The CDK's word for it, in whole seconds."""
    return cdk.Duration.seconds(int(of.total_seconds()))
