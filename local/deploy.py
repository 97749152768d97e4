"""The real `cdk bootstrap` and `cdk deploy`, with the emulator as the AWS account."""

from __future__ import annotations

import json
from collections.abc import Mapping

from local.emulator import tail
from local.environment import ACCOUNT, REGION, cdk_environment
from local.place import LocalCloudError, Place
from local.processes import start, wait

STAGE = "local"
WANTED_OUTPUTS = ("ApiId", "JobsTable", "Bucket", "Prefix")


def bootstrap(place: Place, endpoint: str) -> None:
    """The CDK's own bucket and roles. Raises LocalCloudError with what cdk said."""
    _cdk(place, endpoint, "bootstrap", f"aws://{ACCOUNT}/{REGION}")


def deploy(place: Place, endpoint: str, code_version: str) -> Mapping[str, str]:
    """All stacks of the local stage; answers their outputs by name. Raises LocalCloudError with what cdk said."""
    outputs_file = place.home / "outputs.json"
    context = [f"stage={STAGE}", "auth=none", f"code_version={code_version}"]
    if place.enforce_iam:
        # The default synthesizer's deployment roles lack grants that the emulator asks for and AWS does not.
        context.append("synthesizer=cli")
    options = [word for setting in context for word in ("-c", setting)]
    _cdk(
        place, endpoint, "deploy", "--all", "--require-approval", "never", "--outputs-file", str(outputs_file), *options
    )
    stacks = json.loads(outputs_file.read_text())
    outputs = {name: value for stack in stacks.values() for name, value in stack.items()}
    if absent := [name for name in WANTED_OUTPUTS if name not in outputs]:
        raise LocalCloudError(f"the deployed stacks have no output {', '.join(absent)}; see stacks/pipeline_stack.py")
    return outputs


def _cdk(place: Place, endpoint: str, verb: str, *arguments: str) -> None:
    program = place.project / "node_modules" / ".bin" / "cdk"
    if not program.exists():
        raise LocalCloudError(f"{program} is not there; run make setup")
    command = [str(program), verb, *arguments, "--no-notices", "--ci", "--output", str(place.home / "cdk.out")]
    name = f"cdk-{verb}"
    env = cdk_environment(place, endpoint)
    process = start(name, command, env=env, cwd=place.project, log=place.log(name))
    if wait(process) != 0:
        raise LocalCloudError(f"cdk {verb} failed; the end of {place.log(name)}:\n{tail(place, name, 30)}")
