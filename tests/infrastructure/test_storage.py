"""What would lose data: a table that is replaced, a stream that shows too little, a bucket that is open."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.domain.job import RETENTION
from shared.domain.states import State
from stacks.stage import DISPOSABLE

TABLE, BUCKET = "AWS::DynamoDB::GlobalTable", "AWS::S3::Bucket"
FROZEN = json.loads(Path(__file__).with_name("frozen_logical_ids.json").read_text())
STATEFUL = (TABLE, BUCKET, "AWS::SQS::Queue")


@pytest.mark.parametrize("kind", STATEFUL)
def test_a_stateful_resource_keeps_its_logical_id_because_another_one_would_replace_it(every_stage, kind) -> None:
    assert sorted(every_stage.of(kind)) == sorted(FROZEN[kind])


def test_outside_dev_and_local_no_stack_can_take_data_with_it(every_stage) -> None:
    policy = "Delete" if every_stage.stage in DISPOSABLE else "Retain"
    stateful = {**every_stage.of(TABLE), **every_stage.of(BUCKET)}
    assert {(r["DeletionPolicy"], r["UpdateReplacePolicy"]) for r in stateful.values()} == {(policy, policy)}
    for table in every_stage.of(TABLE).values():
        assert _replica(table)["DeletionProtectionEnabled"] is (policy == "Retain")


def test_every_table_can_be_put_back_to_any_second(every_stage) -> None:
    for table in every_stage.of(TABLE).values():
        recovery = _replica(table)["PointInTimeRecoverySpecification"]
        assert recovery == {"PointInTimeRecoveryEnabled": True}


def test_every_table_is_keyed_the_same_way_and_forgets_what_expired(every_stage) -> None:
    for name, table in every_stage.properties(TABLE, "TableName").items():
        assert name in {f"holdfast-{every_stage.stage}-{part}" for part in ("jobs", "controls", "exports")}
        assert _keys(table) == ["pk", "sk"]
        assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
        assert table["BillingMode"] == "PAY_PER_REQUEST"


def test_the_stream_shows_both_images_since_its_view_can_never_change_again(every_stage) -> None:
    tables = every_stage.properties(TABLE, "TableName")
    streams = {name: table.get("StreamSpecification") for name, table in tables.items()}
    jobs = streams.pop(f"holdfast-{every_stage.stage}-jobs")
    assert jobs == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert set(streams.values()) == {None}


def test_the_jobs_table_has_exactly_the_four_sparse_indexes(prod) -> None:
    jobs = prod.properties(TABLE, "TableName")["holdfast-prod-jobs"]
    indexes = {index["IndexName"]: (_keys(index), index["Projection"]) for index in jobs["GlobalSecondaryIndexes"]}
    keys_only = {"ProjectionType": "KEYS_ONLY"}
    context = ["type", "tenant", "error_class", "error_code", "code_version", "payload_version", "attempts"]
    assert indexes == {
        "open": (["open_key", "available_at"], keys_only),
        "due": (["due_key", "due_at"], keys_only),
        "dead": (["dead_key", "dead_at"], {"ProjectionType": "INCLUDE", "NonKeyAttributes": context}),
        "tenant": (["tenant_key", "created_at"], keys_only),
    }
    kinds = {a["AttributeName"]: a["AttributeType"] for a in jobs["AttributeDefinitions"]}
    assert {kinds[name] for name in kinds if name.endswith("_at")} == {"N"}
    assert {kinds[name] for name in kinds if not name.endswith("_at")} == {"S"}


def test_no_file_is_ever_public_and_leftovers_go(every_stage) -> None:
    (bucket,) = every_stage.of(BUCKET).values()
    properties = bucket["Properties"]
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert properties["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    rules = {rule["Id"]: rule for rule in properties["LifecycleConfiguration"]["Rules"]}
    assert rules["parts"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    assert (rules["exports"]["Prefix"], rules["exports"]["ExpirationInDays"]) == ("exports/", 90)
    assert all(rule["Status"] == "Enabled" for rule in rules.values())


def test_a_replaced_result_stays_as_long_as_the_record_of_the_job_that_wrote_it(every_stage) -> None:
    (bucket,) = every_stage.of(BUCKET).values()
    assert bucket["Properties"]["VersioningConfiguration"] == {"Status": "Enabled"}
    rules = {rule["Id"]: rule for rule in bucket["Properties"]["LifecycleConfiguration"]["Rules"]}
    assert (
        timedelta(days=rules["replaced"]["NoncurrentVersionExpiration"]["NoncurrentDays"]) > RETENTION[State.COMPLETED]
    )
    assert rules["replaced"]["ExpiredObjectDeleteMarker"] is True
    assert "Prefix" not in rules["replaced"]


def test_files_travel_only_encrypted(aws_stage) -> None:
    (policy,) = aws_stage.of("AWS::S3::BucketPolicy").values()
    deny = [s for s in policy["Properties"]["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"]
    assert [(s["Action"], s["Condition"], s["Principal"]) for s in deny] == [
        ("s3:*", {"Bool": {"aws:SecureTransport": "false"}}, {"AWS": "*"})
    ]


def test_the_storage_cannot_be_deleted_under_the_pipeline(prod) -> None:
    imported = json.dumps(prod.templates["Pipeline"])
    assert "Fn::ImportValue" in imported
    assert "Fn::GetStackOutput" not in imported  # a weak reference, which nothing protects
    exported = {o["Export"]["Name"] for o in prod.templates["Storage"]["Outputs"].values()}
    for part in ("Jobs", "Controls", "Exports", "Files"):
        assert any(f"FnGetAtt{part}" in name for name in exported), part


def _replica(table: dict[str, Any]) -> dict[str, Any]:
    (replica,) = table["Properties"]["Replicas"]
    return dict(replica)


def _keys(of: dict[str, Any]) -> list[str]:
    kinds = {key["KeyType"]: key["AttributeName"] for key in of["KeySchema"]}
    return [kinds["HASH"], kinds["RANGE"]]
