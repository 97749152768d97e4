"""`make up` while it is up: the present code goes in, what is there stays."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest

from local.place import PROJECT, LocalCloudError, Place
from local.up import bring_up
from shared.domain.states import State
from tests.e2e.cloud import Cloud
from tests.e2e.conftest import BUILT, NEW_JOB_TYPES, NOT_COPIED, running, some_port


@pytest.fixture(scope="module")
def running_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A cloud whose project the tests may change."""
    copy = tmp_path_factory.mktemp("changing") / "holdfast"
    shutil.copytree(PROJECT, copy, ignore=NOT_COPIED)
    for name in BUILT:
        (copy / name).symlink_to(PROJECT / name)
    with running(Place(project=copy, home=tmp_path_factory.mktemp("again") / "local", port=some_port())) as cloud:
        yield cloud


def test_a_job_type_added_while_it_is_up_runs_after_the_next_start_and_earlier_jobs_still_answer(
    running_project: Cloud,
) -> None:
    cloud, note = running_project, {"type": "note", "payload": {"text": "hello"}}
    earlier = cloud.export("2026-05")
    assert cloud.ask("POST", "/jobs", note).status == 422
    shutil.copy(NEW_JOB_TYPES / "note.py", cloud.place.project / "shared" / "jobs")
    said: list[str] = []

    now = bring_up(cloud.place, said.append)

    assert "already up" in said[0]
    assert now == cloud.up  # the same processes at the same addresses
    assert cloud.wait(cloud.submit("/jobs", note))["status"] == State.COMPLETED
    assert cloud.wait(earlier)["status"] == State.COMPLETED


def test_an_api_that_does_not_come_up_is_an_error_that_shows_what_the_api_said(
    running_project: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local.up.FRONT_SECONDS", 3.0)
    cloud = running_project
    with (cloud.place.project / "lambdas" / "api" / "handler.py").open("a") as handler:
        handler.write('\ndef handler(event, context):\n    raise RuntimeError("the ink is dry")\n')

    with pytest.raises(LocalCloudError, match=r"but 502 .*the ink is dry") as refused:
        bring_up(cloud.place, print)

    assert re.search(r"(?s)-api said last:.*in handler\n.*\nRuntimeError: the ink is dry", str(refused.value))
    assert cloud.up.whole  # what holds jobs is not ended for a fault in the code
