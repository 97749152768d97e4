"""The emulator's function processes, as the system sees them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def processes_of(function_name: str, emulator_pid: int) -> list[int]:
    """Processes of this emulator that run this function."""
    wanted = f"AWS_LAMBDA_FUNCTION_NAME={function_name}".encode()
    return [pid for pid in _children(emulator_pid) if wanted in _environ(pid).split(b"\0")]


def busiest(pids: list[int], seconds: float = 0.3) -> int:
    """The one that used the most CPU in this time. ValueError when there is none."""
    before = {pid: cpu_seconds(pid) for pid in pids}
    time.sleep(seconds)
    return max(pids, key=lambda pid: cpu_seconds(pid) - before[pid])


def cpu_seconds(pid: int) -> float:
    """User and system time so far; 0 when the process is gone."""
    with contextlib.suppress(OSError):
        fields = _stat(pid)
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
    return 0.0


def _children(parent: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if int(_stat(int(entry.name))[1]) == parent:
                    yield int(entry.name)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat after the command's name, the state first."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _environ(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""
