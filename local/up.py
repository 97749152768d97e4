"""Bringing the local cloud up and ending it: emulator, deploy, one address, a sample month."""

from __future__ import annotations

import contextlib
import http.client
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from local import samples, state
from local.deploy import bootstrap, code_version, deploy
from local.emulator import start_emulator, tail, wait_until_ready
from local.environment import client
from local.place import PROJECT, LocalCloudError, Place
from local.ports import free_above, require_free
from local.processes import Started, end, start, undisturbed
from local.state import State

Say = Callable[[str], None]
FRONT_SECONDS = 10.0


def bring_up(place: Place, say: Say, keeper: Started | None = None) -> State:
    """Everything up and answering; what already runs whole is left as it is. `say` hears one line per step.

    Raises LocalCloudError; then, as after Ctrl-C, all that was started has been ended again.
    """
    found = state.read(place)
    if found is not None:
        if found.whole:
            return _same_port(place, found)
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
    with _timed(say, "cdk deploy"):
        now = replace(now, outputs=deploy(place, now.endpoint, code_version(place)))
    with _timed(say, "sample month"):
        samples.load(client("s3", now.endpoint, s3={"addressing_style": "path"}), now.outputs["Bucket"])
    with _timed(say, "address"):
        with undisturbed():
            front = _start_front(place, now)
            now = _note(place, replace(now, processes=(*now.processes, front)))
        _wait_for_api(place, front)
    return _note(place, replace(now, ready=True))


def _start_front(place: Place, now: State) -> Started:
    command = [sys.executable, "-m", "local.front", str(now.port), str(now.emulator_port), now.outputs["ApiId"]]
    return start("front", command, env={"PYTHONPATH": str(PROJECT)}, cwd=place.home, log=place.log("front"))


def _wait_for_api(place: Place, front: Started) -> None:
    deadline = time.monotonic() + FRONT_SECONDS
    status = None
    while time.monotonic() < deadline and front.alive():
        connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=FRONT_SECONDS)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", "/openapi.json")
            status = connection.getresponse().status
            if status == 200:
                return
        time.sleep(0.1)
    raise LocalCloudError(
        f"{place.url}/openapi.json does not answer 200 (last: {status}); "
        f"see {place.log('emulator')}\n{tail(place, 'front')}"
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
def _timed(say: Say, step: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    say(f"{step:<14} {time.monotonic() - begun:5.1f} s")
