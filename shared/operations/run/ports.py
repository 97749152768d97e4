"""What a worker is given, by how long it lives: the environment (WorkerPorts), the deployment (Lane); what belongs to
one invocation, its messages and its time, is an argument of run_batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from shared.domain.run import Files
from shared.jobs import Catalogue
from shared.operations.run.share import LaneShare
from shared.ports import Clock, Effects, JobStore, Log, Mailbox, Meter
from shared.queues import Queue


@dataclass(frozen=True, slots=True)
class Lane:
    """What this worker serves: its queue, and the job types that its code knows."""

    queue: Queue
    catalogue: Catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPorts:
    """What a worker's environment holds.

    dice, token  uniform in [0, 1); a fresh secret per lease
    pause        let this time pass
    end_process  called when a handler hangs, after its neighbours ended and were acknowledged; does not return
    """

    stage: str
    store: JobStore
    mailbox: Mailbox
    files: Files
    effects: Effects
    clock: Clock
    log: Log
    meter: Meter
    share: LaneShare
    code_version: str
    dice: Callable[[], float]
    token: Callable[[], str]
    pause: Callable[[timedelta], None]
    end_process: Callable[[], None]
