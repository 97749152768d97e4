"""One Lambda function, as all of them are: own role, own log group, arm64, code from the wheelhouse."""

from __future__ import annotations

import sys
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path

import aws_cdk as cdk
import jsii
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from shared.domain.job import SAID_AT_SUBMIT
from shared.settings import Settings
from stacks.constructs.acknowledged import acknowledge
from stacks.constructs.bundle import ROOT, Bundle
from stacks.constructs.encryption import FOR_MESSAGES_AND_FILES, FOR_TABLES, customer_key, may_use
from stacks.stage import Stage

RUNTIME_PYTHON = "3.14"
RUNTIME = lambda_.Runtime.PYTHON_3_14
ENVIRONMENT_LIMIT_BYTES = 4096


class PythonFunction(Construct):
    """The function of lambdas/<folder>, called `name`. Its role may write its own log and nothing else; say more with
    `may`. Raises ValueError for an environment beyond Lambda's 4 KB.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        stage: Stage,
        name: str,
        folder: str,
        settings: Settings,
        memory_mb: int,
        timeout: timedelta,
        description: str,
    ) -> None:
        super().__init__(scope, id)
        self._stage = stage
        key = customer_key(self, stage)
        # Removed with its function on every stage: a kept log group would block the name when the stack comes back.
        log_group = logs.LogGroup(
            self,
            "Log",
            log_group_name=f"/aws/lambda/{name}",
            retention=logs.RetentionDays.ONE_WEEK if stage.is_disposable else logs.RetentionDays.THREE_MONTHS,
            removal_policy=cdk.RemovalPolicy.DESTROY,
            encryption_key=key,
        )
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self.may("logs:CreateLogStream", "logs:PutLogEvents", on=log_group.log_group_arn)
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=name,
            description=description,
            code=self._code(folder, stage),
            handler=f"lambdas.{folder}.handler.handler",
            runtime=RUNTIME,
            architecture=lambda_.Architecture.ARM_64,
            memory_size=memory_mb,
            timeout=cdk.Duration.seconds(int(timeout.total_seconds())),
            environment=environment_of(folder, settings),
            role=self.role,
            log_group=log_group,
            logging_format=lambda_.LoggingFormat.JSON,
        )

    def may(self, *actions: str, on: str) -> None:
        """Allow these actions on this one resource."""
        self.role.add_to_principal_policy(iam.PolicyStatement(actions=list(actions), resources=[on]))

    def may_move_jobs(self, table: str) -> None:
        """Allow to change records of the jobs table, but not what was said at their submit: a worker in wrong hands can
        plant no job. Which records it reaches IAM cannot say, their key being the job id; it must know one, for no
        worker may list any.
        """
        said = {"ForAllValues:StringNotEquals": {"dynamodb:Attributes": list(SAID_AT_SUBMIT)}}
        self.role.add_to_principal_policy(
            iam.PolicyStatement(actions=["dynamodb:UpdateItem"], resources=[table], conditions=said)
        )

    def may_decrypt(self, *, tables: bool = True, through: tuple[str, ...] = ()) -> None:
        """Under a customer managed key: let it read and write tables, and what `through` ("sqs", "s3") keeps for it."""
        if not self._stage.kms_key_arn:
            return
        region = cdk.Stack.of(self).region
        if tables:
            said = may_use(self._stage, region, FOR_TABLES, "dynamodb")
            self.role.add_to_principal_policy(iam.PolicyStatement(**said))
        if through:
            said = may_use(self._stage, region, FOR_MESSAGES_AND_FILES, *through)
            self.role.add_to_principal_policy(iam.PolicyStatement(**said))

    def may_with_files(self, *actions: str, of: str, under: Collection[str]) -> None:
        """Allow these actions on the files under these prefixes ("exports/") in the bucket of that name."""
        named = of.replace(cdk.Aws.ACCOUNT_ID, "<AWS::AccountId>").replace(cdk.Aws.REGION, "<AWS::Region>")
        files = [f"{prefix}*" for prefix in sorted(under)]
        if not files:
            return
        # cdk-nag wants each finding itself acknowledged; so the ARN is made of the bucket's name, which reads the same
        # on every stage, and not of another stack's export.
        arn = {"service": "s3", "region": "", "account": "", "resource": of}
        resources = [cdk.Stack.of(self).format_arn(**arn, resource_name=name) for name in files]
        self.role.add_to_principal_policy(iam.PolicyStatement(actions=list(actions), resources=resources))
        for name in files:
            finding = f"AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:s3:::{named}/{name}]"
            acknowledge(self.role, finding, "Which files there are jobs' own the worker checks, key by key.")

    def may_tell_missing_files(self, bucket: str, under: Collection[str]) -> None:
        """Allow to list names under these prefixes. Without any such right a missing file and a lost right look alike;
        with it for the whole bucket, which GetObject would need to say 404 by itself, all tenants' names lie open.
        """
        if under:
            within = {"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in sorted(under)]}}
            self.role.add_to_principal_policy(
                iam.PolicyStatement(actions=["s3:ListBucket"], resources=[bucket], conditions=within)
            )

    def _code(self, folder: str, stage: Stage) -> lambda_.Code:
        """For AWS with arm64 wheels, for the emulator with this machine's; one asset for all functions of a folder.
        Its hash is known without bundling, which `cdk destroy` or a deployment of another stack then never does.
        """
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        bundle = Bundle(folder, "local", here) if stage.is_local else Bundle(folder, "aws", RUNTIME_PYTHON)
        if cdk.Stack.of(self).bundling_required:
            bundle.prepare()  # here, because an error inside the CDK's callback comes out as two pages of traces
        return lambda_.Code.from_asset(
            str(ROOT / "lambdas" / folder),
            asset_hash=bundle.digest(),
            asset_hash_type=cdk.AssetHashType.CUSTOM,
            bundling=cdk.BundlingOptions(
                image=cdk.DockerImage.from_registry("holdfast-bundles-without-docker"),
                local=_WithoutDocker(bundle),  # type: ignore[arg-type] # jsii hands its options over as one object
            ),
        )


def environment_of(folder: str, settings: Settings) -> dict[str, str]:
    """The function's settings and what Powertools' Logger reads. Raises ValueError beyond 4 KB."""
    environment = {**settings.to_environment(), "POWERTOOLS_SERVICE_NAME": folder, "POWERTOOLS_LOG_LEVEL": "INFO"}
    size = sum(len(name.encode()) + len(value.encode()) for name, value in environment.items())
    if size > ENVIRONMENT_LIMIT_BYTES:
        raise ValueError(f"lambdas/{folder}: an environment of {size} bytes; Lambda takes {ENVIRONMENT_LIMIT_BYTES}")
    return environment


@jsii.implements(cdk.ILocalBundling)
class _WithoutDocker:
    """Bundles here or raises: answering False would make the CDK look for a container image that does not exist."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    def try_bundle(self, output_dir: str, *_options: object) -> bool:
        self._bundle.write(Path(output_dir))
        return True
