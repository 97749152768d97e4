"""The clouds of the end-to-end tests: their own ports, state and output, through the real `cdk deploy`."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.environment import client
from local.place import PROJECT, Place
from local.ports import free_above
from local.up import bring_up, take_down
from tests.e2e.cloud import Cloud
from tests.e2e.grants import allow_batches_where_single_calls_are_allowed

NEW_JOB_TYPES = Path(__file__).parent / "job_types"
BUILT = (".build", "node_modules")
NOT_COPIED = shutil.ignore_patterns(".*", "node_modules", "cdk.out", "__pycache__", "tests")


@contextlib.contextmanager
def running(place: Place) -> Iterator[Cloud]:
    """A cloud of the test's own, ended afterwards whatever happened."""
    place.home.mkdir(parents=True)
    steps: list[str] = []
    try:
        up = bring_up(place, steps.append)
        print(*steps, sep="\n")
        yield Cloud(place, up)
    finally:
        take_down(place)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Last what leaves hundreds of jobs behind: other tests count what is stored."""
    items.sort(key=lambda item: item.path.name == "test_contract.py")


def some_port() -> int:
    """Random first: two checkouts may be tested at once on one machine."""
    return free_above(random.randrange(20_000, 30_000, 100))


@pytest.fixture(scope="session")
def project_with_a_new_job_type(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This project with one file more for each new job type; what set-up built is linked, not built again."""
    copy = tmp_path_factory.mktemp("project") / "holdfast"
    shutil.copytree(PROJECT, copy, ignore=NOT_COPIED)
    for name in BUILT:
        (copy / name).symlink_to(PROJECT / name)
    for file in NEW_JOB_TYPES.glob("*.py"):
        shutil.copy(file, copy / "shared" / "jobs")
    return copy


@pytest.fixture(scope="session")
def cloud(project_with_a_new_job_type: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """The stacks with two job types more, in an emulator that enforces no IAM."""
    home = tmp_path_factory.mktemp("cloud") / "local"
    with running(Place(project=project_with_a_new_job_type, home=home, port=some_port())) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def strict_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """The stacks as they are, in an emulator that refuses what no policy allows."""
    home = tmp_path_factory.mktemp("strict") / "local"
    with running(Place(home=home, port=some_port(), enforce_iam=True)) as cloud:
        allow_batches_where_single_calls_are_allowed(client("iam", cloud.up.endpoint))
        yield cloud
