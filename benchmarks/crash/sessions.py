"""A worker and everything it started, as one thing to start and to kill.

By session, not by process group: RQ puts each job into a process with a group of its own. From /proc, so Linux only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


class Session:
    """A running command in a session of its own, its output in `log`. Raises FileNotFoundError without the program."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path) -> None:
        with log.open("ab") as out:
            self._root = subprocess.Popen(
                command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )

    @property
    def alive(self) -> bool:
        """The command itself still runs."""
        return self._root.poll() is None

    def processes(self) -> set[int]:
        """All of the session that still run; zombies do not."""
        return {pid for pid, session in _sessions() if session == self._root.pid}

    def kill(self) -> set[int]:
        """SIGKILL to every process until none is left; answers which they were. Several looks, for a process may fork
        between the look and the signal. Harmless when nothing runs any more.
        """
        killed: set[int] = set()
        while found := self.processes():
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed |= found
            time.sleep(0.01)
        self._root.wait()
        return killed


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""


def _sessions() -> list[tuple[int, int]]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                # After the command's name, which may hold spaces and brackets: state, parent, group, session.
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if fields[0] not in "ZX":
                    found.append((int(entry.name), int(fields[3])))
    return found
