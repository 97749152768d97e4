"""What runs in a place, written down the moment it starts, so that whoever comes next (make down, the next make up
after a crash) knows what to end and what to leave alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from local.place import LocalCloudError, Place
from local.processes import Started


@dataclass(frozen=True, kw_only=True)
class State:
    """What was started here. `ready` only once everything answers; `outputs` are the deployed stacks'.

    keeper  the foreground run that will end it, None in the background
    """

    port: int
    emulator_port: int
    processes: tuple[Started, ...] = ()
    keeper: Started | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)
    ready: bool = False

    @property
    def endpoint(self) -> str:
        """The emulator's address: all of AWS."""
        return f"http://127.0.0.1:{self.emulator_port}"

    @property
    def whole(self) -> bool:
        """Everything runs, and whoever ought to end it still can."""
        return self.ready and all(p.alive() for p in self.processes) and (self.keeper is None or self.keeper.alive())


def read(place: Place) -> State | None:
    """What the last one wrote; None when nothing runs here, or the file cannot be read any more."""
    try:
        raw = json.loads(place.state_file.read_text())
        keeper = raw.pop("keeper")
        processes = tuple(Started(**process) for process in raw.pop("processes"))
        return State(**raw, processes=processes, keeper=Started(**keeper) if keeper else None)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise LocalCloudError(
            f"{place.state_file} is damaged ({error}); see with `ps` whether an emulator still runs, then delete it"
        ) from error


def write(place: Place, state: State) -> None:
    """Replace the file in one step: a reader sees the old one or the new one."""
    fresh = place.state_file.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(state), indent=1))
    os.replace(fresh, place.state_file)


@contextlib.contextmanager
def lock(place: Place) -> Iterator[None]:
    """One `up`, `run` or `down` at a time; the system drops the lock with its holder."""
    place.home.mkdir(parents=True, exist_ok=True)
    with (place.home / "lock").open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LocalCloudError(f"another command is starting or ending the local cloud in {place.home}") from None
        yield
