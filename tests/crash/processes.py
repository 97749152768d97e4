"""When a process started, and whether it lives, as the system knows it."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def spawned_at(pid: int) -> float:
    """Epoch seconds, to a hundredth; now for a process that is gone."""
    fields = _stat(pid)
    if fields is None:
        return time.time()
    since_boot = int(fields[19]) / _TICKS_PER_SECOND
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot)


def lives(pid: int, parent: int) -> bool:
    """Whether it runs, as a child of this parent: ids are reused."""
    fields = _stat(pid)
    return fields is not None and fields[0] not in "ZX" and int(fields[1]) == parent


def cpu_ns(pid: int) -> int:
    """Nanoseconds its main thread has run; /proc/<pid>/stat counts in ticks, of which a short call takes none."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    except OSError:
        return 0


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/<pid>/stat after the command's name: state, parent, …, start time."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
