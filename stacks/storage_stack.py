"""What must outlive every deployment: the tables and the bucket. Nothing here is named by chance or may be replaced;
a test freezes the logical ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import Construct

from shared.domain.states import State
from stacks.constructs.acknowledged import acknowledge
from stacks.constructs.encryption import customer_key, encrypt_table, of_bucket
from stacks.stage import Stage

STRING, NUMBER = dynamodb.AttributeType.STRING, dynamodb.AttributeType.NUMBER
DEAD_CONTEXT = ("type", "tenant", "error_class", "error_code", "code_version", "payload_version", "attempts")
"""What the console groups dead jobs by without reading each record."""

EXPORT_DAYS = 90
"""As long as the longest-lived record that may point to the file (shared/domain/job.py, RETENTION)."""

WORK_DAYS = 104
"""Parts of a job's work outlive the longest it may run and be replayed: 14 days of age, 90 dead."""

REPLACED_DAYS = 15
"""A file that a later job replaced stays as long as the record of the job that wrote it (RETENTION again)."""


class StorageStack(cdk.Stack):
    """`jobs`: the records, with the stream the relay reads · `controls`: small shared state · `exports`: the example's
    own domain table · `bucket`: job files.
    """

    def __init__(self, scope: Construct, id: str, *, stage: Stage, **options: Any) -> None:
        super().__init__(scope, id, description="Holdfast: job records and files (stateful)", **options)
        self._stage = stage
        self._removal = cdk.RemovalPolicy.DESTROY if stage.is_disposable else cdk.RemovalPolicy.RETAIN
        self.jobs = self._table(
            "Jobs",
            "jobs",
            indexes=_job_indexes(),
            # Both images from the first day: the stream's ARN is an export, and another view would be another stream.
            dynamo_stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES,
        )
        self.controls = self._table("Controls", "controls")
        self.exports = self._table("Exports", "exports")
        self.bucket_name = f"{stage.prefix}-files-{cdk.Aws.ACCOUNT_ID}-{cdk.Aws.REGION}"
        self.bucket = self._bucket()
        self._export_all()

    def _table(
        self, id: str, name: str, indexes: Sequence[dynamodb.GlobalSecondaryIndexPropsV2] = (), **options: Any
    ) -> dynamodb.TableV2:
        table = dynamodb.TableV2(
            self,
            id,
            table_name=f"{self._stage.prefix}-{name}",
            partition_key=dynamodb.Attribute(name="pk", type=STRING),
            sort_key=dynamodb.Attribute(name="sk", type=STRING),
            billing=dynamodb.Billing.on_demand(),
            time_to_live_attribute="expires_at",
            global_secondary_indexes=list(indexes),
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=not self._stage.is_disposable,
            removal_policy=self._removal,
            **options,
        )
        encrypt_table(table, self._stage)
        return table

    def _export_all(self) -> None:
        # All of them, used or not: when the last consumer drops one, the CDK would remove the export first, and
        # CloudFormation refuses that while the consumer's old version is still deployed.
        for table in (self.jobs, self.controls, self.exports):
            self.export_value(table.table_name)
            self.export_value(table.table_arn)
        self.export_value(self.jobs.table_stream_arn)
        self.export_value(self.bucket.bucket_name)
        self.export_value(self.bucket.bucket_arn)

    def _bucket(self) -> s3.Bucket:
        # Versioned: keys are deterministic, and a completed job keeps the file it recorded when a later one writes
        # under the same key. No autoDeleteObjects: its custom resource may delete everything. A stage with files is
        # emptied by hand first, versions included.
        bucket = s3.Bucket(
            self,
            "Files",
            bucket_name=self.bucket_name,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=not self._stage.is_local,
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="replaced",
                    noncurrent_version_expiration=cdk.Duration.days(REPLACED_DAYS),
                    expired_object_delete_marker=True,
                ),
                s3.LifecycleRule(id="parts", abort_incomplete_multipart_upload_after=cdk.Duration.days(1)),
                s3.LifecycleRule(id="work", prefix="work/", expiration=cdk.Duration.days(WORK_DAYS)),
                s3.LifecycleRule(id="exports", prefix="exports/", expiration=cdk.Duration.days(EXPORT_DAYS)),
            ],
            removal_policy=self._removal,
            **of_bucket(customer_key(self, self._stage)),
        )
        acknowledge(bucket, "AwsSolutions-S1", "Jobs name their files in their records; CloudTrail shows the rest.")
        return bucket


def _job_indexes() -> list[dynamodb.GlobalSecondaryIndexPropsV2]:
    """All sparse: a record without the key attributes is not in the index, and leaves it by losing them."""
    return [
        _index("open", "available_at"),
        # Sorted by due_at, not run_at: a long-waiting retry stands here too, at the time of its next attempt, while
        # run_at stays what the client asked for.
        _index("due", "due_at"),
        _index(str(State.DEAD), "dead_at", include=DEAD_CONTEXT),
        _index("tenant", "created_at"),
    ]


def _index(name: str, sorted_by: str, include: Sequence[str] = ()) -> dynamodb.GlobalSecondaryIndexPropsV2:
    projection = dynamodb.ProjectionType.INCLUDE if include else dynamodb.ProjectionType.KEYS_ONLY
    return dynamodb.GlobalSecondaryIndexPropsV2(
        index_name=name,
        partition_key=dynamodb.Attribute(name=f"{name}_key", type=STRING),
        sort_key=dynamodb.Attribute(name=sorted_by, type=NUMBER),
        projection_type=projection,
        non_key_attributes=list(include) or None,
    )
