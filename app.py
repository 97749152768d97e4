"""Builds the stacks of one stage. The only reader of CDK context; needs no network and no credentials.

cdk deploy --all -c stage=dev [-c auth=iam|jwt|none] [-c code_version=…] [-c alarm_email=…]
"""

from __future__ import annotations

import sys

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from stacks.constructs.bytecode import BundleError
from stacks.observability_stack import ObservabilityStack
from stacks.pipeline_stack import PipelineStack
from stacks.stage import Stage, StageRefused
from stacks.storage_stack import StorageStack


def build(app: cdk.App) -> Stage:
    """Add the stacks that the app's context asks for. They name no account and no region: the deployment chooses.

    Raises StageRefused for a context that cannot be built.
    """
    stage = Stage.from_context(app.node.get_all_context())

    def options(part: str) -> dict[str, object]:
        # The default one deploys through the bootstrap roles, which an emulator that enforces IAM does not assume.
        synthesizer = cdk.CliCredentialsStackSynthesizer() if stage.synthesizer == "cli" else None
        return {"stack_name": f"Holdfast-{stage.stage}-{part}", "synthesizer": synthesizer}

    def id(part: str) -> str:
        return f"Holdfast-{stage.stage}-{part}"

    storage = StorageStack(app, id("Storage"), stage=stage, **options("Storage"))
    pipeline = PipelineStack(app, id("Pipeline"), stage=stage, storage=storage, **options("Pipeline"))
    ObservabilityStack(
        app, id("Observability"), stage=stage, api_id=pipeline.door.api.api_id, **options("Observability")
    )
    return stage


def main() -> None:
    """What `cdk` runs."""
    app = cdk.App()
    try:
        stage = build(app)
    except (StageRefused, BundleError) as refused:
        sys.exit(f"app.py: {refused}")
    if not stage.is_local:
        # Here and not in build(): findings raise from every synthesis, and only a deployment shall be stopped by them.
        cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()


if __name__ == "__main__":
    main()
