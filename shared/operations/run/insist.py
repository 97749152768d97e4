"""Insist: repeat a call of a run while the table does not answer. Given up at once, a run with half a minute of lease
left would pass for one whose worker vanished, and what it has done would be done again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from shared.errors import StoreUnavailable
from shared.operations.run.ports import WorkerPorts

T = TypeVar("T")

INSIST_EVERY = timedelta(milliseconds=500)
INSIST_MARGIN = timedelta(seconds=2)
"""Of the lease, or of the handler's time: no try begins later."""


def insist(call: Callable[[], T], may_go_on: Callable[[timedelta], bool], job_id: str, ports: WorkerPorts) -> T:
    """Its answer. Raises StoreUnavailable once `may_go_on`, which is told how long the last try took, says no; and what
    else `call` raises. A try may be refused for what an earlier one, unanswered, has written (domain/refused.py).
    """
    while True:
        begun = ports.clock.now()
        try:
            return call()
        except StoreUnavailable as e:
            if not may_go_on(ports.clock.now() - begun):
                raise
            ports.log.event("insisting", level="warning", job=job_id, error=e)
            ports.pause(INSIST_EVERY)
