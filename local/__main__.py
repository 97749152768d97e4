"""The local cloud's commands: `python -m local up | down | run | status`. `make` calls them after its set-up."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable

from botocore.exceptions import BotoCoreError, ClientError

from local import state
from local.demo import curl, submit_samples
from local.live import Live
from local.place import LocalCloudError, Place, place_from
from local.processes import this_process
from local.up import bring_up, take_down

LOOK_SECONDS = 0.2


def up(place: Place) -> int:
    """Start in the background; if it is up, deploy the present code into it."""
    with state.lock(place):
        now = bring_up(place, say)
    say(f"up at {place.url}; {_how_to_end(now)} ends it. Try:\n  {curl(place)}")
    return 0


def down(place: Place) -> int:
    """End what was started in the background, and nothing else."""
    with state.lock(place):
        if (found := state.read(place)) is not None and found.keeper is not None and found.keeper.alive():
            raise LocalCloudError(f"it runs in the foreground of process {found.keeper.pid}; press Ctrl-C there")
        say("the local cloud is down" if take_down(place) else "the local cloud was not up")
    return 0


def run(place: Place) -> int:
    """In the foreground, showing every step of every job, until Ctrl-C ends all of it."""
    with state.lock(place):
        if (found := state.read(place)) is not None and found.whole:
            raise LocalCloudError(
                f"already up at http://127.0.0.1:{found.port}: make up deploys the present code into it and keeps its "
                f"jobs; {_how_to_end(found)} ends it, then make local starts an empty one"
            )
        now = bring_up(place, say, keeper=this_process("run"))
    try:
        say(f"up at {place.url}; Ctrl-C ends it. In another terminal:\n  {curl(place)}\n")
        submit_samples(place, say)
        watch(now)
    finally:
        say("\nending the local cloud")
        take_down(place)
    return 0


def watch(now: state.State) -> None:
    """Print steps for ever. Raises LocalCloudError when the emulator or the address has ended by itself."""
    live = Live(now)
    while now.whole:
        try:
            for step in live.steps():
                say(step.line())
        except (BotoCoreError, ClientError) as error:
            raise LocalCloudError(f"the emulator does not answer any more: {error}") from error
        time.sleep(LOOK_SECONDS)
    raise LocalCloudError("a process of the local cloud ended by itself; its log is in .local/")


def status(place: Place) -> int:
    """Say what runs and where; exit status 0 only when all of it does."""
    found = state.read(place)
    if found is None:
        say("the local cloud is not up; make up starts it")
        return 1
    for process in found.processes:
        say(f"{process.name:<9} process {process.pid} {'runs' if process.alive() else 'has ended'}")
    say(f"address   http://127.0.0.1:{found.port}\nAWS       {found.endpoint}\nlogs      {place.home}")
    say("whole" if found.whole else "not whole: make up starts it anew")
    return 0 if found.whole else 1


def _how_to_end(now: state.State) -> str:
    return "make down" if now.keeper is None else f"Ctrl-C in its terminal (process {now.keeper.pid})"


def _end_on_signals() -> None:
    """Each ends it as Ctrl-C does. Said for SIGINT too: a script's `make local &` starts with that one ignored, and
    Python then leaves it so. A SIGHUP that is ignored was meant to be: `nohup make local`.
    """
    signs = {signal.SIGINT, signal.SIGTERM}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # a closed terminal
        signs.add(signal.SIGHUP)
    for sign in signs:
        signal.signal(sign, signal.default_int_handler)


def say(line: str) -> None:
    """One line, at once, also into a pipe."""
    print(line, flush=True)


COMMANDS: dict[str, Callable[[Place], int]] = {"up": up, "down": down, "run": run, "status": status}


def main() -> int:
    """Exit status: 0 done (Ctrl-C is how `run` is done), 1 with a line that says what to do, 130 broken off."""
    parser = argparse.ArgumentParser(prog="python -m local", description=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    command = parser.parse_args().command
    _end_on_signals()
    try:
        return COMMANDS[command](place_from(os.environ))
    except LocalCloudError as error:
        print(f"local cloud: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0 if command == "run" else 130


if __name__ == "__main__":
    sys.exit(main())
