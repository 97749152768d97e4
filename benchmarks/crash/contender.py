"""What every system under test can be told, whatever it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

PROJECT = Path(__file__).resolve().parents[2]


class NotStarted(Exception):
    """A system, or what it needs, does not run. The message is its name and the end of its log."""

    def __init__(self, name: str, log: str) -> None:
        super().__init__(f"{name} does not run; its log ends:\n{log}")


@dataclass(frozen=True, kw_only=True)
class About:
    """What a reader must know to judge the numbers.

    name         of the row
    version      as installed
    at_once      jobs that the worker runs side by side, by default on this machine
    settings     everything that is not the default
    afterwards   what its documented defaults do with interrupted jobs, also beyond the window
    recommended  not the defaults but what its documentation offers against lost workers
    """

    name: str
    version: str
    at_once: str
    settings: str
    afterwards: str
    recommended: bool = False


class Contender(Protocol):
    """A system under test.

    about    for the reader
    key      for file and job names
    journal  where its jobs write
    """

    about: About
    key: str
    journal: Path

    def start(self, jobs: Sequence[str]) -> None:
        """A worker, and these jobs handed to it. Raises NotStarted."""

    def kill(self) -> set[int]:
        """SIGKILL to every process of the worker, and at once a new one; answers the processes that died."""

    def check(self) -> None:
        """Raises NotStarted when the worker has ended by itself."""

    def keeps(self, jobs: Sequence[str]) -> set[str]:
        """Those jobs that the system's own store still knows."""

    def end(self) -> None:
        """End everything that was started, however far it came."""
