"""What only some invocations need, made by the first that does, so that a cold start does not pay for it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any


class OnFirstUse:
    """Stands for an AWS client, which `make` makes when the first of its methods is asked for; one for all threads.

    What `make` raises reaches that caller, and the next one tries again. `make startbench` says what that
    spares a cold start.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._lock = make, Lock()
        self._made: Any = None

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            if self._made is None:
                self._made = self._make()
        return getattr(self._made, name)
