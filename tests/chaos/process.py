"""Processes that can be killed before or after any call they make to the world outside them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CALLERS = ("shared/operations/", "shared/adapters/effects.py")
"""Where the system calls its ports from."""

PORTS = {
    "store": (
        "submit", "submit_with", "submit_write", "apply", "make", "get", "due", "put_payload", "renew_payload",
        "end_payload",
        "get_payload",
        "record_run",
    ),
    "doorbell": ("ring", "park"),
    "mailbox": ("hide", "acknowledge", "set_aside"),
    "dead_letters": ("receive", "delete"),
    "meter": ("alert",),
}  # fmt: skip
"""Every call that reads or changes the world. Not among them: `effects`, whose calls are the store's, made from its
adapter; the clock, the log, what a batch came to, the links; and `runs`, which only operators' views read.
"""


class Killed(BaseException):
    """The process is gone: this call and every later one of the same process."""


@dataclass(frozen=True)
class Call:
    """One call to a port: "store.apply" from "shared/operations/relay.py:178"."""

    name: str
    site: str


@dataclass
class Strike:
    """Which call of a history is its process's last. Calls are numbered from 1 over all processes; 0 strikes none."""

    at_call: int = 0
    before: bool = True
    calls: list[Call] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def hits(self, call: Call) -> bool:
        with self.lock:
            self.calls.append(call)
            return len(self.calls) == self.at_call

    @property
    def came(self) -> bool:
        return 0 < self.at_call <= len(self.calls)


class Process:
    """One process. A thread of it that lives on after its death is dead too at its next call."""

    def __init__(self, strike: Strike) -> None:
        self._strike, self.dead = strike, False

    def port(self, kind: str, inner: Any) -> Any:
        """The port, its calls counted and struck."""
        return _Port(kind, inner, self)

    def call(self, name: str, act: Callable[[], Any]) -> Any:
        if self.dead:
            raise Killed
        struck = self._strike.hits(Call(name, _site()))
        if struck and self._strike.before:
            self.die()
        answer = act()
        if struck:
            self.die()
        return answer

    def die(self) -> None:
        """Killed by itself, at this very point."""
        self.dead = True
        raise Killed


class _Port:
    def __init__(self, kind: str, inner: Any, process: Process) -> None:
        self._kind, self._inner, self._process = kind, inner, process

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in PORTS[self._kind]:
            return found
        return lambda *args, **kwargs: self._process.call(f"{self._kind}.{name}", lambda: found(*args, **kwargs))


HIDES_FOR_OTHERS = "come_back"
"""The method of operations/run/invocation.py that hides a message for its callers: the places are theirs."""


def _site() -> str:
    frame = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename.removeprefix(f"{ROOT}/")
        if path.startswith(CALLERS) and frame.f_code.co_name != HIDES_FOR_OTHERS:
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "the test's own"
