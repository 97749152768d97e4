"""Bringing the local cloud up and ending it: emulator, deploy, one address, a sample month."""

from __future__ import annotations

import contextlib
import http.client
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from local import samples, state
from local.deploy import bootstrap, deploy
from local.emulator import start_emulator, tail, wait_until_ready
from local.environment import client
from local.logs import last_lines
from local.place import PROJECT, LocalCloudError, Place
from local.ports import free_above, require_free
from local.processes import Started, end, start, undisturbed
from local.revision import code_version
from local.state import State

Say = Callable[[str], None]
FRONT_SECONDS = 10.0


def bring_up(place: Place, say: Say, keeper: Started | None = None) -> State:
    """Everything up and answering, with the present code; what already runs whole keeps its data and gets the code.
    `say` hears one line per step.

    Raises LocalCloudError; then, as after Ctrl-C, all that was started by this call has been ended again.
    """
    found = state.read(place)
    if found is not None:
        if found.whole:
            return _deploy_again(_same_port(place, found), place, say)
        say("ending what a crashed run left behind")
        _end_all(place, found)
    require_free(place.port)
    now = State(port=place.port, emulator_port=free_above(place.port), keeper=keeper)
    try:
        return _bring_up(place, now, say)
    except BaseException:
        take_down(place)
        raise


def take_down(place: Place) -> bool:
    """End what was started here and nothing else; False when there was nothing."""
    found = state.read(place)
    if found is None:
        return False
    _end_all(place, found)
    return True


def _bring_up(place: Place, now: State, say: Say) -> State:
    with _timed(say, "emulator"):
        with undisturbed():
            emulator = start_emulator(place, now.emulator_port)
            now = _note(place, replace(now, processes=(emulator,)))
        wait_until_ready(place, now.emulator_port, emulator)
    with _timed(say, "cdk bootstrap"):
        bootstrap(place, now.endpoint)
    now = _deploy(place, now, say)
    with _timed(say, "sample month"):
        samples.load(client("s3", now.endpoint, s3={"addressing_style": "path"}), now.outputs["Bucket"])
    with _timed(say, "address"):
        with undisturbed():
            front = _start_front(place, now)
            now = _note(place, replace(now, processes=(*now.processes, front)))
        _wait_for_api(place, now, front)
    return _note(place, replace(now, ready=True))


def _deploy_again(found: State, place: Place, say: Say) -> State:
    """A failure leaves everything up: what is there holds jobs, and the developer is about to mend the code."""
    say("already up: deploying the present code into it; jobs and files stay")
    now = _note(place, _deploy(place, found, say))
    with _timed(say, "address"):
        _wait_for_api(place, now, now.processes[-1])
    return now


def _deploy(place: Place, now: State, say: Say) -> State:
    version = code_version(place.project)
    with _timed(say, "cdk deploy", f"code version {version}"):
        return replace(now, outputs=deploy(place, now.endpoint, version))


def _start_front(place: Place, now: State) -> Started:
    command = [sys.executable, "-m", "local.front", str(now.port), str(now.emulator_port), now.outputs["ApiId"]]
    return start("front", command, env={"PYTHONPATH": str(PROJECT)}, cwd=place.home, log=place.log("front"))


def _wait_for_api(place: Place, now: State, front: Started) -> None:
    begun, deadline = datetime.now(UTC), time.monotonic() + FRONT_SECONDS
    answered = "nothing"
    while time.monotonic() < deadline and front.alive():
        connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=FRONT_SECONDS)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", "/openapi.json")
            answer = connection.getresponse()
            if answer.status == 200:
                return
            answered = f"{answer.status} {answer.read(2000).decode(errors='replace')}"
        time.sleep(0.1)
    if not front.alive():
        raise LocalCloudError(f"the address {place.url} ended by itself:\n{tail(place, 'front')}")
    api = f"{now.outputs['Prefix']}-api"
    raise LocalCloudError(
        f"{place.url}/openapi.json does not answer 200 but {answered}\n"
        f"function {api} said last:\n{last_lines(now.endpoint, api, begun)}"
    )


def _end_all(place: Place, found: State) -> None:
    with undisturbed():  # a second, impatient Ctrl-C must not leave half of it running
        for process in reversed(found.processes):
            end(process)
        place.state_file.unlink(missing_ok=True)


def _same_port(place: Place, found: State) -> State:
    if found.port != place.port:
        raise LocalCloudError(
            f"the local cloud is already up at http://127.0.0.1:{found.port}; "
            f"make down first, to move it to {place.port}"
        )
    return found


def _note(place: Place, now: State) -> State:
    state.write(place, now)
    return now


@contextlib.contextmanager
def _timed(say: Say, step: str, about: str = "") -> Iterator[None]:
    begun = time.monotonic()
    yield
    say(f"{step:<14} {time.monotonic() - begun:5.1f} s  {about}".rstrip())
