"""At rest: nothing is encrypted by habit alone, and what a customer's key closes still opens for who needs it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.queues import QUEUES
from tests.infrastructure.stages import CONTEXTS, KEY_ARN

ROLE_POLICY = "AWS::IAM::Policy"
THROUGH = {
    "api": {"dynamodb", "s3"},
    "relay": {"dynamodb", "sqs"},
    "promoter": {"dynamodb"},
    "tally": {"dynamodb"},
    **{f"worker-{q.slug}": {"dynamodb", "sqs"} | ({"s3"} if q.reads + q.writes else set()) for q in QUEUES.values()},
}


@pytest.fixture
def keyed(stacks) -> Any:
    """A stage under a customer managed key."""
    return stacks("keyed")


@pytest.mark.parametrize("stage", [stage for stage in CONTEXTS if stage != "keyed"])
def test_every_queue_says_how_it_is_encrypted(stacks, stage) -> None:
    for name, queue in stacks(stage).properties("AWS::SQS::Queue", "QueueName").items():
        assert queue["SqsManagedSseEnabled"] is True, name


def test_under_a_customers_key_stand_tables_queues_bucket_topic_and_logs(keyed) -> None:
    for queue in keyed.of("AWS::SQS::Queue").values():
        assert queue["Properties"]["KmsMasterKeyId"] == KEY_ARN
        assert "SqsManagedSseEnabled" not in queue["Properties"]
    for table in keyed.of("AWS::DynamoDB::GlobalTable").values():
        assert table["Properties"]["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS"}
        (replica,) = table["Properties"]["Replicas"]
        assert replica["SSESpecification"] == {"KMSMasterKeyId": KEY_ARN}
    (bucket,) = keyed.of("AWS::S3::Bucket").values()
    (rule,) = bucket["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule == {
        "BucketKeyEnabled": True,
        "ServerSideEncryptionByDefault": {"KMSMasterKeyID": KEY_ARN, "SSEAlgorithm": "aws:kms"},
    }
    (topic,) = keyed.of("AWS::SNS::Topic").values()
    assert topic["Properties"]["KmsMasterKeyId"] == KEY_ARN
    logs = keyed.of("AWS::Logs::LogGroup")
    assert {log["Properties"]["KmsKeyId"] for log in logs.values()} == {KEY_ARN}
    assert len(logs) == len(keyed.of("AWS::Lambda::Function")) + 1


def test_each_function_may_use_the_key_through_the_services_it_calls_and_for_nothing_else(keyed) -> None:
    for function, statements in _key_statements(keyed).items():
        services: set[str] = set()
        for statement in statements:
            assert statement["Resource"] == KEY_ARN
            via = statement["Condition"]["StringEquals"]["kms:ViaService"]
            names = {one["Fn::Join"][1][0].removesuffix(".") for one in (via if isinstance(via, list) else [via])}
            assert not any("*" in action for action in statement["Action"]), function
            assert ("kms:Encrypt" in statement["Action"]) == ("dynamodb" in names), function
            services |= names
        assert services == THROUGH[function], function


def test_an_alarm_still_reaches_the_topic_and_the_logs_are_still_kept_once_the_keys_owner_adds_what_is_said(
    keyed,
) -> None:
    said = keyed.templates["Observability"]["Outputs"]["KeyPolicy"]["Value"]
    text = "".join(part if isinstance(part, str) else "X" for part in said["Fn::Join"][1])
    alarms, logs = json.loads(text)

    assert alarms["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert set(alarms["Action"]) == {"kms:Decrypt", "kms:GenerateDataKey*"}
    assert logs["Principal"]["Service"].startswith("logs.")
    assert "kms:EncryptionContext:aws:logs:arn" in logs["Condition"]["ArnLike"]


def test_without_a_key_nothing_is_said_of_one(stacks) -> None:
    assert "KeyPolicy" not in stacks("prod").templates["Observability"].get("Outputs", {})
    assert not any(statements for statements in _key_statements(stacks("prod")).values())


def _key_statements(stacks: Any) -> dict[str, list[dict[str, Any]]]:
    """What each function's role may do with KMS, by the function's name."""
    roles = {
        function["Role"]["Fn::GetAtt"][0]: name.removeprefix(f"holdfast-{stacks.stage}-")
        for name, function in stacks.properties("AWS::Lambda::Function", "FunctionName").items()
    }
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in roles.values()}
    for policy in stacks.of(ROLE_POLICY).values():
        for role in policy["Properties"]["Roles"]:
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
                if role["Ref"] in roles and any(action.startswith("kms:") for action in actions):
                    found[roles[role["Ref"]]].append({**statement, "Action": actions})
    return found
