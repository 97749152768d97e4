"""Where one local cloud lives. Two places never touch each other: the end-to-end tests have their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_PORT = 8600
PROJECT = Path(__file__).resolve().parent.parent


class LocalCloudError(Exception):
    """The local cloud cannot do what was asked. The message says what, where and what to do; no traceback is needed."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """One local cloud.

    project      the tree that is deployed
    home         its own files: state, logs, temporary files, the CDK's output
    port         of the one address on 127.0.0.1; the emulator takes a free one above it
    enforce_iam  the emulator refuses what no policy allows, as AWS does
    """

    project: Path = PROJECT
    home: Path = PROJECT / ".local"
    port: int = DEFAULT_PORT
    enforce_iam: bool = False

    @property
    def url(self) -> str:
        """The one address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def state_file(self) -> Path:
        """What runs here, for whoever comes next."""
        return self.home / "state.json"

    def log(self, name: str) -> Path:
        """The log file of one process."""
        return self.home / f"{name}.log"


def place_from(environ: Mapping[str, str]) -> Place:
    """The developer's own local cloud, at HOLDFAST_PORT. Raises LocalCloudError for a value that is no port."""
    given = environ.get("HOLDFAST_PORT") or str(DEFAULT_PORT)
    if not (given.isascii() and given.isdecimal() and 1024 <= int(given) <= 65_000):
        raise LocalCloudError(f"HOLDFAST_PORT={given!r}: give a port number from 1024 to 65000")
    return Place(port=int(given))
