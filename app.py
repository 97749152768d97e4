"""Builds the stacks of one stage. The only reader of CDK context; needs no network and no credentials.

cdk deploy --all -c stage=dev [-c auth=iam|jwt|none] [-c code_version=…] [-c alarm_email=…] [-c cors_origins=…]
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from shared.errors import DeclarationError
from shared.jobs import Catalogue
from shared.jobs import __path__ as job_folders
from stacks.constructs.bytecode import BundleError
from stacks.observability_stack import ObservabilityStack
from stacks.pipeline_stack import PipelineStack
from stacks.stage import Stage, StageRefused
from stacks.storage_stack import StorageStack


class JobTypeBroken(Exception):
    """A job type that no worker could load; one line says which file, where in it, and why."""


def refuse_broken_job_types() -> None:
    """Import every job type as a worker will: deployed, a broken one would be found by its first job. Raises
    JobTypeBroken for the first that is.
    """
    catalogue = Catalogue()
    for file in sorted(file for folder in job_folders for file in Path(folder).glob("[!_]*.py")):
        try:
            known = catalogue.get(file.stem.replace("_", "-"))
        except (Exception, SystemExit) as error:
            raise JobTypeBroken(f"{_where(file, error)}: {_why(error)}") from error
        if known is None:
            raise JobTypeBroken(f"shared/jobs/{file.name}: name the file in lower case, as its job type with _ for -")


def _where(file: Path, error: BaseException) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == file]
    return f"shared/jobs/{file.name}" + (f", line {lines[-1]}" if lines else "")


def _why(error: BaseException) -> str:
    said = " ".join(str(error).split())
    if isinstance(error, ModuleNotFoundError):
        return f"{said}; a package that only the worker has is imported inside the handler"
    return said if isinstance(error, DeclarationError) else f"{type(error).__name__}: {said}"


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
        refuse_broken_job_types()
        stage = build(app)
    except (JobTypeBroken, StageRefused, BundleError) as refused:
        sys.exit(f"app.py: {refused}")
    if not stage.is_local:
        # Here and not in build(): findings raise from every synthesis, and only a deployment shall be stopped by them.
        cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()


if __name__ == "__main__":
    main()
