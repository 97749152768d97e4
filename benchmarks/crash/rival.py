"""A system on Redis: one worker command, one command that hands jobs to it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.crash.contender import PROJECT, About, NotStarted
from benchmarks.crash.redis_server import RedisServer
from benchmarks.crash.sessions import Session, tail
from local.processes import undisturbed

SUBMIT_SECONDS = 60.0
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")


@dataclass(frozen=True, kw_only=True)
class Commands:
    """How a system is run.

    programs  the folder of its programs, before the machine's
    worker    its normal worker command; "{redis}" stands for the server's address
    submit    the jobs' names follow
    variables of the environment, besides those of every system
    """

    programs: Path
    worker: tuple[str, ...]
    submit: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


class Rival:
    """One such system on a database of its own, working in a folder of its own."""

    def __init__(self, about: About, key: str, commands: Commands) -> None:
        self.about, self.key, self._commands = about, key, commands
        self._worker: Session | None = None

    def settle(self, home: Path, redis: RedisServer, database: int, work_seconds: float) -> Rival:
        """Where it runs, and for how long a job works."""
        self._home, self._redis, self.journal = home, redis, home / "journal"
        home.mkdir()
        self._url = redis.url(database)
        self._environment = {
            **{name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
            "PATH": f"{self._commands.programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(PROJECT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CRASH_REDIS_URL": self._url,
            "CRASH_JOURNAL": str(self.journal),
            "CRASH_WORK_SECONDS": str(work_seconds),
            **self._commands.variables,
        }
        return self

    def start(self, jobs: Sequence[str]) -> None:
        self._start_worker()
        log = self._home / "submit.log"
        with log.open("wb") as out:
            try:
                subprocess.run(
                    [*self._filled(self._commands.submit), *jobs],
                    env=self._environment, cwd=self._home, stdout=out, stderr=out, timeout=SUBMIT_SECONDS, check=True,
                )  # fmt: skip
            except (OSError, subprocess.SubprocessError) as error:
                raise NotStarted(self.about.name, f"{error}\n{tail(log)}") from error

    def kill(self) -> set[int]:
        killed = self._worker.kill() if self._worker else set()
        self._start_worker()
        return killed

    def check(self) -> None:
        if self._worker is None or not self._worker.alive:
            raise NotStarted(self.about.name, tail(self._home / "worker.log"))

    def keeps(self, jobs: Sequence[str]) -> set[str]:
        return self._redis.mentions(jobs)

    def end(self) -> None:
        if self._worker is not None:
            self._worker.kill()

    def _start_worker(self) -> None:
        command = self._filled(self._commands.worker)
        try:
            with undisturbed():
                self._worker = Session(command, env=self._environment, cwd=self._home, log=self._home / "worker.log")
        except OSError as error:
            raise NotStarted(self.about.name, f"{error}; make crashbench sets it up") from error

    def _filled(self, command: Sequence[str]) -> list[str]:
        # Looked up here: the program's name would be looked up on this process's own path.
        program = shutil.which(command[0], path=self._environment["PATH"]) or command[0]
        return [program, *(word.replace("{redis}", self._url) for word in command[1:])]
