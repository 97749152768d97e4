"""The deployed copy of this project: the crash test's own job types are dropped in, and the functions' way to AWS leads
through the fault proxy.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from local.place import PROJECT, Place
from local.ports import free_above
from local.up import bring_up
from shared.queues import QUEUES
from tests.e2e.cloud import Cloud

JOB_TYPES = Path(__file__).parent / "job_types"
BUILT = (".build", "node_modules")
_NOT_COPIED = shutil.ignore_patterns(".*", "node_modules", "cdk.out", "__pycache__", "tests", "benchmarks")


def copied(folder: Path) -> Path:
    """This project with the crash test's job types; what set-up built is linked, not built again."""
    copy = folder / "holdfast"
    shutil.copytree(PROJECT, copy, ignore=_NOT_COPIED)
    for name in BUILT:
        (copy / name).symlink_to(PROJECT / name)
    for file in JOB_TYPES.glob("*.py"):
        shutil.copy(file, copy / "shared" / "jobs")
    return copy


def place_in(folder: Path) -> Place:
    """A local cloud of its own, on a free port: two checkouts may be tested at once on one machine."""
    home = folder / "local"
    home.mkdir(parents=True)
    return Place(project=copied(folder), home=home, port=free_above(random.randrange(20_000, 30_000, 100)))


def deployed(place: Place, say: Callable[[str], None]) -> Cloud:
    """The cloud, up. Raises LocalCloudError."""
    return Cloud(place, bring_up(place, say))


def send_through(url: str, cloud: Cloud) -> None:
    """Let every function take this address for AWS: a function's own AWS_ENDPOINT_URL wins over the emulator's."""
    prefix = cloud.up.outputs["Prefix"]
    for name in (f"{prefix}-api", f"{prefix}-relay", *(f"{prefix}-worker-{queue.slug}" for queue in QUEUES.values())):
        found = cloud.lambda_.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        variables = found | {"AWS_ENDPOINT_URL": url}
        cloud.lambda_.update_function_configuration(FunctionName=name, Environment={"Variables": variables})
