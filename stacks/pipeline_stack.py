"""What runs: queues, functions, the API. All of it can be deleted and deployed again without losing a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from shared.domain.states import FINAL, OUTBOX_OPEN, State
from shared.queues import DEAD_LETTER_RETENTION, QUEUES, SHARE_KEYS, WORK, Queue, Right
from shared.quotas import KEYS as QUOTA_KEYS
from shared.settings import ApiSettings, PromoterSettings, RelaySettings, TallySettings, WorkerSettings
from stacks.constructs.acknowledged import acknowledge
from stacks.constructs.encryption import encrypt_queue
from stacks.constructs.front_door import FrontDoor
from stacks.constructs.python_function import PythonFunction
from stacks.constructs.ticker import Ticker
from stacks.constructs.work_queue import WorkQueue, duration
from stacks.stage import Stage
from stacks.storage_stack import StorageStack

API_TIMEOUT = timedelta(seconds=28)
"""Just below API Gateway's 29 s: a slow table becomes our 503, not its own 504."""

PROMOTER_TIMEOUT = timedelta(seconds=55)
"""A tick is over before the next one is due."""

RELAY_TIMEOUT = timedelta(seconds=60)
TALLY_TIMEOUT = timedelta(seconds=30)
TALLY_BATCH = 500
TALLY_WINDOW = timedelta(seconds=5)
TALLY_RETRIES = 20

RELAY_BATCH = 100
RELAY_RETRIES = 200
RELAY_RECORD_AGE = timedelta(hours=23)

_AS_NAMED = cdk.ArnFormat.NO_RESOURCE_NAME


class PipelineStack(cdk.Stack):
    """api → table → stream → relay → queues → workers, each function with a role of its own."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, storage: StorageStack, **options: Any) -> None:
        super().__init__(scope, id, description="Holdfast: queues, functions and API (stateless)", **options)
        self._stage, self._storage = stage, storage
        self.lanes = {
            name: WorkQueue(self, f"Queue-{declared.slug}", stage=stage, declared=declared)
            for name, declared in QUEUES.items()
        }
        self.workers = {name: self._worker(QUEUES[name], lane) for name, lane in self.lanes.items()}
        self.relay = self._relay(self._parked_queue())
        self.promoter = self._promoter()
        self.tally = self._tally()
        api = self._api()
        self._deploy_before(self.relay, [*self.workers.values(), api])
        self.door = FrontDoor(self, "Door", stage=stage, function=api.function)
        self._say_where_things_are()

    def _deploy_before(self, relay: PythonFunction, others: Sequence[PythonFunction]) -> None:
        """A lane that is new in a deployment is known to the relay before anyone queues a job there: an older relay
        would park the doorbell.
        """
        for other in others:
            other.function.node.default_child.add_dependency(relay.function.node.default_child)  # type: ignore[union-attr]

    @property
    def _common(self) -> dict[str, str]:
        stage = self._stage
        return {
            "stage": stage.stage,
            "prefix": stage.prefix,
            "jobs_table": self._storage.jobs.table_name,
            "code_version": stage.code_version,
        }

    def _worker(self, declared: Queue, lane: WorkQueue) -> PythonFunction:
        bucket = self._storage.bucket
        worker = PythonFunction(
            self,
            f"Worker-{declared.slug}",
            stage=self._stage,
            name=self._stage.function_name("worker", declared.slug),
            folder="worker",
            settings=WorkerSettings(
                **self._common,
                queue=declared.name,
                bucket=bucket.bucket_name,
                controls_table=self._storage.controls.table_name,
            ),
            memory_mb=declared.memory_mb,
            timeout=declared.function_timeout,
            description=f"Runs the jobs of queue {declared.name}",
        )
        worker.may("dynamodb:GetItem", on=self._storage.jobs.table_arn)
        worker.may_move_jobs(self._storage.jobs.table_arn)
        of, reads, writes = self._storage.bucket_name, declared.reads, declared.writes
        worker.may_with_files("s3:GetObject", of=of, under=reads)
        # A large file is written in pieces; a run that fails in the middle takes them back.
        worker.may_with_files("s3:PutObject", "s3:AbortMultipartUpload", of=of, under=writes)
        worker.may_tell_missing_files(bucket.bucket_arn, under=reads)
        worker.may("sqs:SendMessage", "sqs:GetQueueUrl", on=lane.dead_letters.queue_arn)
        if declared.tenant_share is not None:
            self._may_count(worker, f"{SHARE_KEYS}{declared.name}#", "dynamodb:GetItem", "dynamodb:UpdateItem")
        worker.may_decrypt(through=("sqs", "s3") if declared.reads or declared.writes else ("sqs",))
        for right in declared.rights:
            self._grant(right, worker)
        # Grants receive, delete and change-visibility on the lane's own queue. No filter: it would delete what it does
        # not match. No reserved concurrency: pollers that are throttled still raise the receive count, and healthy
        # messages reach the DLQ without ever running.
        worker.function.add_event_source(
            event_sources.SqsEventSource(
                lane.queue,
                batch_size=declared.batch_size,
                max_concurrency=declared.max_concurrency,
                report_batch_item_failures=True,
            )
        )
        return worker

    def _grant(self, right: Right, worker: PythonFunction) -> None:
        """Let this worker do what its lane declares, in this account and region."""
        name = right.name(self._stage.stage)
        worker.may(*right.actions, on=self.format_arn(service=right.service, resource=name, arn_format=_AS_NAMED))
        if right.is_wide:
            arn = f"arn:<AWS::Partition>:{right.service}:<AWS::Region>:<AWS::AccountId>:{name}"
            acknowledge(worker.role, f"AwsSolutions-IAM5[Resource::{arn}]", right.because)

    def _relay(self, parked: sqs.Queue) -> PythonFunction:
        relay = PythonFunction(
            self,
            "Relay",
            stage=self._stage,
            name=self._stage.function_name("relay"),
            folder="relay",
            settings=RelaySettings(**self._common, parked_queue=parked.queue_name),
            memory_mb=512,
            timeout=RELAY_TIMEOUT,
            description="Rings the doorbell of every job whose outbox flag is open",
        )
        relay.may_move_jobs(self._storage.jobs.table_arn)
        for lane in self.lanes.values():
            for queue in (lane.queue, lane.dead_letters):
                relay.may("sqs:SendMessage", "sqs:GetQueueUrl", on=queue.queue_arn)
        relay.may("sqs:SendMessage", "sqs:GetQueueUrl", on=parked.queue_arn)
        relay.may_decrypt(through=("sqs",))
        relay.function.add_event_source(_outbox(self._storage, parked))
        return relay

    def _promoter(self) -> PythonFunction:
        name = self._stage.function_name("promoter")
        promoter = PythonFunction(
            self,
            "Promoter",
            stage=self._stage,
            name=name,
            folder="promoter",
            settings=PromoterSettings(**self._common),
            memory_mb=512,
            timeout=PROMOTER_TIMEOUT,
            description="Makes due jobs queued, once a minute",
        )
        jobs = self._storage.jobs.table_arn
        promoter.may("dynamodb:GetItem", on=jobs)
        promoter.may_move_jobs(jobs)
        promoter.may("dynamodb:Query", on=f"{jobs}/index/due")
        promoter.may_decrypt()
        Ticker(self, "PromoterTicks", name=name, function=promoter.function)
        return promoter

    def _tally(self) -> PythonFunction:
        tally = PythonFunction(
            self,
            "Tally",
            stage=self._stage,
            name=self._stage.function_name("tally"),
            folder="tally",
            settings=TallySettings(**self._common, controls_table=self._storage.controls.table_name),
            memory_mb=256,
            timeout=TALLY_TIMEOUT,
            description="Counts what each tenant has open, for the quotas",
        )
        self._may_count(tally, QUOTA_KEYS, "dynamodb:UpdateItem")
        tally.may_decrypt()
        tally.function.add_event_source(_ends_and_beginnings(self._storage))
        return tally

    def _may_count(self, function: PythonFunction, keys: str, *actions: str) -> None:
        """These actions on the items whose keys begin so, and on nothing else that the controls table holds."""
        function.role.add_to_principal_policy(
            iam.PolicyStatement(
                actions=list(actions),
                resources=[self._storage.controls.table_arn],
                conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{keys}*"]}},
            )
        )

    def _parked_queue(self) -> sqs.Queue:
        parked = sqs.Queue(
            self,
            "RelayParked",
            queue_name=f"{self._stage.prefix}-relay-parked",
            retention_period=duration(DEAD_LETTER_RETENTION),
            enforce_ssl=not self._stage.is_local,
        )
        encrypt_queue(parked, self._stage)
        acknowledge(parked, "AwsSolutions-SQS3", "It is the relay's dead-letter queue; only an operator reads it.")
        return parked

    def _api(self) -> PythonFunction:
        stage, storage = self._stage, self._storage
        api = PythonFunction(
            self,
            "ApiFunction",
            stage=stage,
            name=stage.function_name("api"),
            folder="api",
            settings=ApiSettings(
                **self._common,
                exports_table=storage.exports.table_name,
                controls_table=storage.controls.table_name,
                bucket=storage.bucket.bucket_name,
                auth=stage.auth,
                tenant_claim=stage.tenant_claim or "-",
            ),
            memory_mb=512,
            timeout=API_TIMEOUT,
            description="Takes jobs in and tells how they stand",
        )
        # Nothing that changes a job: after the submit only relay and workers write its record.
        api.may("dynamodb:PutItem", "dynamodb:GetItem", on=storage.jobs.table_arn)
        api.may("dynamodb:PutItem", on=storage.exports.table_arn)
        self._may_count(api, QUOTA_KEYS, "dynamodb:UpdateItem", "dynamodb:Query")
        # A link lends the API's own right to read: to the file a job recorded, not a later one under the same key, and
        # to what jobs make for their callers, not to what they work on.
        results = {prefix for lane in QUEUES.values() for prefix in lane.writes} - {WORK}
        api.may_with_files("s3:GetObject", "s3:GetObjectVersion", of=storage.bucket_name, under=results)
        api.may_decrypt(through=("s3",))
        return api

    def _say_where_things_are(self) -> None:
        said: Mapping[str, str] = {
            "ApiId": self.door.api.api_id,
            "ApiUrl": self.door.api.api_endpoint,
            "JobsTable": self._storage.jobs.table_name,
            "Bucket": self._storage.bucket.bucket_name,
            "Prefix": self._stage.prefix,
        }
        for name, value in said.items():
            cdk.CfnOutput(self, name, value=value)


def _outbox(storage: StorageStack, parked: sqs.Queue) -> event_sources.DynamoEventSource:
    """The relay's end of the stream.

    The relay raises only when SQS or DynamoDB fail it, after it has sent all it could, and parks what it cannot read;
    so the whole batch may come again (a spare doorbell is harmless) and no partial answer is used. Retries are bounded
    by their number: were they bounded by a short age, the healthy records that waited behind a stuck one would be
    thrown away untried.
    """
    return event_sources.DynamoEventSource(
        storage.jobs,
        # LATEST may skip what is written while the mapping is created or changed.
        starting_position=lambda_.StartingPosition.TRIM_HORIZON,
        batch_size=RELAY_BATCH,
        # One batch per shard at a time keeps the order of the stream for FIFO lanes. It is fast enough: a shard takes
        # 1,000 writes a second, of which a job makes four and only one rings.
        parallelization_factor=1,
        bisect_batch_on_error=True,
        retry_attempts=RELAY_RETRIES,
        max_record_age=duration(RELAY_RECORD_AGE),
        on_failure=event_sources.SqsDlq(parked),
        filters=[_with_open_outbox(State.QUEUED), _with_open_outbox(State.DEAD)],
    )


def _with_open_outbox(state: State) -> dict[str, Any]:
    """Presence is filtered on, never absence, so the mark that removes the flag does not come back to the relay."""
    image = {"state": {"S": [str(state)]}, "outbox": {"S": [OUTBOX_OPEN]}}
    return _filter({"dynamodb": {"NewImage": image}})


def _ends_and_beginnings(storage: StorageStack) -> event_sources.DynamoEventSource:
    """The tally's end of the stream: jobs of tenants that begin, end, or begin anew by a replay.

    It may fall behind and even lose a batch, for a quota is approximate; so it waits for company, and gives up early.
    """
    of_a_tenant = {"tenant": {"S": [{"exists": True}]}}
    final = {"state": {"S": [str(state) for state in sorted(FINAL)]}}
    return event_sources.DynamoEventSource(
        storage.jobs,
        starting_position=lambda_.StartingPosition.TRIM_HORIZON,
        batch_size=TALLY_BATCH,
        max_batching_window=duration(TALLY_WINDOW),
        bisect_batch_on_error=True,
        retry_attempts=TALLY_RETRIES,
        max_record_age=duration(RELAY_RECORD_AGE),
        filters=[
            _filter({"eventName": ["INSERT"], "dynamodb": {"NewImage": of_a_tenant}}),
            _filter({"dynamodb": {"NewImage": of_a_tenant | final}}),
            _filter({"dynamodb": {"OldImage": of_a_tenant | final}}),
        ],
    )


def _filter(pattern: Mapping[str, Any]) -> dict[str, Any]:
    return dict(lambda_.FilterCriteria.filter(pattern))
