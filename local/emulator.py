"""The emulator: AWS on 127.0.0.1, without Docker, empty at every start."""

from __future__ import annotations

import http.client
import shutil
import time
from pathlib import Path

from local.environment import emulator_environment
from local.place import LocalCloudError, Place
from local.processes import Started, start

START_SECONDS = 20.0


def start_emulator(place: Place, port: int) -> Started:
    """Start it on this port. Raises LocalCloudError when its environment is not set up."""
    python = place.project / ".build" / "emulator" / "bin" / "python"
    if not python.exists():
        raise LocalCloudError(f"{python} is not there; run make setup")
    shutil.rmtree(place.home / "tmp", ignore_errors=True)  # code of functions that a killed emulator left unpacked
    (place.home / "tmp").mkdir(parents=True)
    # -I: neither the folder it starts in nor the developer's PYTHON… variables change what it imports.
    command = [str(python), "-I", str(Path(__file__).with_name("guarded_emulator.py"))]
    return start("emulator", command, env=emulator_environment(place, port), cwd=place.home, log=place.log("emulator"))


def wait_until_ready(place: Place, port: int, emulator: Started) -> None:
    """Return once it answers. Raises LocalCloudError, with the end of its log, when it dies or stays silent."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if _healthy(port):
            return
        if not emulator.alive():
            break
        time.sleep(0.05)
    raise LocalCloudError(f"the emulator did not start; the end of {place.log('emulator')}:\n{tail(place, 'emulator')}")


def tail(place: Place, name: str, lines: int = 15) -> str:
    """The last lines of one of the logs."""
    return "\n".join(place.log(name).read_text(errors="replace").splitlines()[-lines:])


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/_ministack/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
