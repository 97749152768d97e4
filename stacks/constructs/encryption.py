"""Encryption at rest: said on every resource, by AWS's own keys or under the stage's customer managed key.

The key belongs to whoever made it, and so does its policy. Functions get their rights on it from their own roles, which
the default key policy lets IAM decide. AWS's services have no role here: `key_policy` is what its owner must add.
"""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.stage import Stage

FOR_TABLES = ("kms:Encrypt", "kms:Decrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo", "kms:GenerateDataKey")
"""What DynamoDB does with the key on behalf of whoever reads or writes a table."""

FOR_MESSAGES_AND_FILES = ("kms:Decrypt", "kms:GenerateDataKey")
"""SQS asks senders for both, S3 writers (of more than one part, too) as well; readers need the first alone."""


def customer_key(scope: Construct, stage: Stage) -> kms.IKey | None:
    """The stage's key as this stack refers to it; None where AWS's own keys serve."""
    return kms.Key.from_key_arn(scope, "CustomerKey", stage.kms_key_arn) if stage.kms_key_arn else None


def encrypt_table(table: dynamodb.TableV2, stage: Stage) -> None:
    """Without a key, DynamoDB's own, which costs nothing, asks for no grant and has no word in a template.

    Said beneath the construct, which takes a key only in a stack that names its region.
    """
    resource = table.node.default_child
    assert isinstance(resource, dynamodb.CfnGlobalTable)
    if stage.kms_key_arn:
        resource.add_property_override("SSESpecification", {"SSEEnabled": True, "SSEType": "KMS"})
        resource.add_property_override("Replicas.0.SSESpecification", {"KMSMasterKeyId": stage.kms_key_arn})


def of_bucket(key: kms.IKey | None) -> dict[str, Any]:
    """With a bucket key, KMS is asked once in a while and not for every file."""
    if key is None:
        return {"encryption": s3.BucketEncryption.S3_MANAGED}
    return {"encryption": s3.BucketEncryption.KMS, "encryption_key": key, "bucket_key_enabled": True}


def encrypt_queue(queue: sqs.Queue, stage: Stage) -> None:
    """SSE-SQS is the default of new queues; said, so that a template shows it and a drift is seen.

    Said beneath the construct: told of a key, it would grant kms:GenerateDataKey* and more to whoever may send.
    """
    resource = queue.node.default_child
    assert isinstance(resource, sqs.CfnQueue)
    if stage.kms_key_arn:
        resource.kms_master_key_id = stage.kms_key_arn
    else:
        resource.sqs_managed_sse_enabled = True


def may_use(stage: Stage, region: str, actions: tuple[str, ...], *services: str) -> dict[str, Any]:
    """An IAM statement: these actions on the stage's key, through these services ("sqs") of this region alone."""
    return {
        "actions": list(actions),
        "resources": [stage.kms_key_arn],
        "conditions": {"StringEquals": {"kms:ViaService": [f"{name}.{region}.amazonaws.com" for name in services]}},
    }


def key_policy(stack: cdk.Stack) -> list[dict[str, Any]]:
    """What the key's own policy must say: no role of ours can lend these two services a right."""
    logs = stack.format_arn(
        service="logs", resource="log-group", resource_name="*", arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME
    )
    return [
        {
            "Sid": "AlarmsMayPublish",
            "Effect": "Allow",
            "Principal": {"Service": "cloudwatch.amazonaws.com"},
            "Action": ["kms:Decrypt", "kms:GenerateDataKey*"],
            "Resource": "*",
            "Condition": {"StringEquals": {"aws:SourceAccount": stack.account}},
        },
        {
            "Sid": "LogsMayBeKept",
            "Effect": "Allow",
            "Principal": {"Service": f"logs.{stack.region}.amazonaws.com"},
            "Action": ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"],
            "Resource": "*",
            "Condition": {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": logs}},
        },
    ]
