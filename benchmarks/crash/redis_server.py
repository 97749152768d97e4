"""A Redis of the benchmark's own: a free port on 127.0.0.1, its own folder, nothing written to disk unless asked."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.crash.contender import NotStarted
from benchmarks.crash.sessions import Session, tail
from local.processes import undisturbed

PROGRAMS = ("redis-server", "redis-cli")
START_SECONDS = 10.0
ABSENT = "redis-server is not installed (Debian and Ubuntu: apt-get install redis-server)"


def is_installed() -> bool:
    """Server and client are on the path."""
    return all(shutil.which(program) for program in PROGRAMS)


class RedisServer:
    """One server in a folder of its own, from `start` to `end`."""

    def __init__(self, home: Path) -> None:
        self._home, self._port = home, _free_port()
        self._session: Session | None = None

    def start(self) -> None:
        """Return once it answers. Raises NotStarted with the end of its log."""
        self._home.mkdir()
        log = self._home / "log"
        with undisturbed():
            self._session = Session(["redis-server", *self._settings()], env={}, cwd=self._home, log=log)
        deadline = time.monotonic() + START_SECONDS
        while self._ask("ping") != "PONG":
            if time.monotonic() > deadline or not self._session.alive:
                raise NotStarted("redis-server", tail(log))
            time.sleep(0.05)

    def _settings(self) -> tuple[str, ...]:
        # Uncompressed, because `mentions` looks for names in the snapshot.
        nothing_on_disk = ("--save", "", "--appendonly", "no", "--rdbcompression", "no")
        return "--bind", "127.0.0.1", "--port", str(self._port), *nothing_on_disk

    def url(self, database: int) -> str:
        """Of one of the sixteen databases."""
        return f"redis://127.0.0.1:{self._port}/{database}"

    def mentions(self, names: Iterable[str]) -> set[str]:
        """Those of the names that stand anywhere in the server's data: in a key, a queue, a set or a message."""
        self._ask("save")
        snapshot = (self._home / "dump.rdb").read_bytes()
        return {name for name in names if name.encode() in snapshot}

    def end(self) -> None:
        """End it, and with it all data."""
        if self._session is not None:
            self._session.kill()

    def _ask(self, *words: str) -> str:
        asked = ["redis-cli", "-h", "127.0.0.1", "-p", str(self._port), *words]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
