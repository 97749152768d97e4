"""Starting, recognising and ending background processes: only ever those that were started here.

A process is known by its id *and* the time it started, since ids are reused. Each gets a session of its own, so that
the terminal's Ctrl-C does not reach it and its children (the emulator's functions) end with it as one group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GRACE_SECONDS = 5.0
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Started:
    """One process of ours: what it is, its id (also its group's), and when it started, as the system writes it."""

    name: str
    pid: int
    started: str

    def alive(self) -> bool:
        """Still the very process that was started."""
        return any(row.pid == self.pid and row.started == self.started for row in _table())


@dataclass(frozen=True, slots=True)
class _Row:
    pid: int
    group: int
    started: str


def start(name: str, command: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path) -> Started:
    """Start a background process, its output into `log`. Raises FileNotFoundError when the program is not there."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    process.returncode = 0  # it outlives this object, which would otherwise warn that it does
    return _known(name, process.pid)


def this_process(name: str) -> Started:
    """The running process itself, as others will recognise it."""
    return _known(name, os.getpid())


def _known(name: str, pid: int) -> Started:
    return Started(name, pid, next((row.started for row in _table() if row.pid == pid), ""))


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C waits until this is over: no process is started and not noted, or noted and half ended.

    Held back in Python, not blocked in the system: a child would inherit the blocked signal and could not be ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    before = {sign: signal.signal(sign, lambda number, _: held.append(number)) for sign in _ENDING}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
    if held:
        raise KeyboardInterrupt


def wait(process: Started) -> int:
    """The exit status of a process started by this one. Whatever ends the wait (Ctrl-C) ends the process and its
    children too.
    """
    try:
        return os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
    except BaseException:
        end(process)
        raise


def end(process: Started) -> None:
    """End the process and its whole group; a process that is no longer the one that was started is left alone."""
    if not process.alive():
        return
    for sign, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, GRACE_SECONDS)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            _reap(process.pid)
            # The group's number cannot be taken by another while one member lives, so asking by group is safe.
            if not any(row.group == process.pid for row in _table()):
                return
            time.sleep(0.05)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):  # whoever ends it need not be who started it
        os.waitpid(pid, os.WNOHANG)


def _table() -> list[_Row]:
    """Every living process. From /proc where there is one, since small containers have no `ps`."""
    return _from_proc() if Path("/proc/self/stat").exists() else _from_ps()


def _from_proc() -> list[_Row]:
    rows = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                # After the command's name, which may hold spaces and brackets: state, parent, group, …, start time.
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if fields[0] not in "ZX":
                    rows.append(_Row(int(entry.name), int(fields[2]), fields[19]))
    return rows


def _from_ps() -> list[_Row]:
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,pgid=,state=,lstart="], capture_output=True, text=True, check=True, env={"LC_ALL": "C"}
    )
    split = (line.split(None, 3) for line in listing.stdout.splitlines())
    return [_Row(int(pid), int(group), started) for pid, group, state, started in split if state[0] != "Z"]
