"""Starting and ending the local cloud: all of what was started, and nothing else."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from local import state
from local.demo import ANNOUNCED
from local.environment import cdk_environment, emulator_environment
from local.place import LocalCloudError, Place, place_from
from local.ports import is_free
from local.processes import Started, end, start, this_process
from local.state import State
from local.up import bring_up
from shared.domain.states import State as JobState
from tests.e2e.cloud import Cloud
from tests.e2e.conftest import some_port

SLEEP = [sys.executable, "-c", "import time; time.sleep(300)"]
PARENT = [
    sys.executable,
    "-c",
    "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)']);"
    "print(p.pid, flush=True); time.sleep(300)",
]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(home=tmp_path, port=some_port())


@pytest.fixture
def sleeper(place: Place) -> Iterator[Started]:
    process = start("sleeper", SLEEP, env={}, cwd=place.home, log=place.log("sleeper"))
    yield process
    end(process)


def test_ending_a_process_ends_its_children_too(place: Place) -> None:
    parent = start("parent", PARENT, env={}, cwd=place.home, log=place.log("parent"))
    while not (said := place.log("parent").read_text()).endswith("\n"):
        time.sleep(0.05)

    end(parent)

    assert not parent.alive()
    assert not Path(f"/proc/{int(said)}").exists() or zombie(int(said))


def zombie(pid: int) -> bool:
    return ") Z " in Path(f"/proc/{pid}/stat").read_text()


def test_a_process_that_only_has_the_same_number_is_left_alone(sleeper: Started) -> None:
    end(replace(sleeper, started="some other time"))

    assert sleeper.alive()


def test_what_a_crashed_run_left_behind_is_ended_by_the_next_start(place: Place, sleeper: Started) -> None:
    crashed = replace(this_process("run"), started="before a crash")
    state.write(place, State(port=place.port, emulator_port=1, processes=(sleeper,), keeper=crashed, ready=True))
    with socket.create_server(("127.0.0.1", place.port)), pytest.raises(LocalCloudError):
        bring_up(place, print)

    assert not sleeper.alive()
    assert state.read(place) is None


def test_a_port_in_use_is_an_error_that_names_the_way_out(place: Place) -> None:
    with (
        socket.create_server(("127.0.0.1", place.port)),
        pytest.raises(LocalCloudError, match=f"port {place.port} .* in use .* HOLDFAST_PORT"),
    ):
        bring_up(place, print)

    assert not list(place.home.iterdir())


@pytest.mark.parametrize("given", ["80", "http", "70000", "-1", "８６００"])
def test_a_port_that_is_none_is_refused_by_name(given: str) -> None:
    with pytest.raises(LocalCloudError, match="HOLDFAST_PORT"):
        place_from({"HOLDFAST_PORT": given})


def test_nothing_of_the_developers_aws_settings_reaches_the_local_cloud(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_DYNAMODB", "CDK_DEFAULT_ACCOUNT"):
        monkeypatch.setenv(name, "real")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "real")

    for env in (cdk_environment(place, "http://127.0.0.1:1"), emulator_environment(place, 1)):
        assert "real" not in env.values()
    assert "AWS_ENDPOINT_URL" not in emulator_environment(place, 1)


def test_what_already_runs_is_not_moved_to_another_port(cloud: Cloud) -> None:
    with pytest.raises(LocalCloudError, match=f"already up at {cloud.place.url}; make down first"):
        bring_up(replace(cloud.place, port=some_port()), print)


def test_a_foreground_run_shows_every_step_and_ctrl_c_ends_all_of_it(project_with_a_new_job_type: Path) -> None:
    port = some_port()
    run = subprocess.Popen(
        # Ignored at the start, as in a script's `make local &`: the harder case of the two.
        ["sh", "-c", 'trap "" INT; exec "$0" -m local run', sys.executable],
        cwd=project_with_a_new_job_type,
        env=os.environ | {"HOLDFAST_PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said = listen(run)
        started = state.read(Place(home=project_with_a_new_job_type / ".local"))
    finally:
        os.killpg(run.pid, signal.SIGINT)  # as the terminal does
        rest, _ = run.communicate(timeout=30)

    assert started is not None, said
    steps = [
        step for step in ("api:", "relay:", "worker: attempt 1", JobState.COMPLETED, JobState.DEAD) if step in said
    ]
    assert len(steps) == 5, said
    assert said.index(ANNOUNCED) < said.index("worker: attempt 1")
    assert run.returncode == 0, rest
    assert not any(process.alive() for process in started.processes)
    assert is_free(port)
    assert is_free(started.emulator_port)
    assert state.read(Place(home=project_with_a_new_job_type / ".local")) is None


def listen(run: subprocess.Popen[str]) -> str:
    """What it says until both sample jobs have ended, and the relay has told of the dead one."""
    said = ""
    for line in run.stdout or ():
        said += line
        if re.search(rf" {JobState.COMPLETED} ", said) and "sent to the DLQ" in said:
            break
    return said
