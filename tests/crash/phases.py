"""One phase: its jobs go in, harm is done to what carries them, and it waits until all have come to an end."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tqdm import tqdm

from shared.domain.job import Job
from shared.domain.states import FINAL
from tests.crash.client import Answered, submit_all
from tests.crash.faults import Faults, bad_weather
from tests.crash.kills import Kill, Killer, schedule
from tests.crash.plan import Planned, plan

SUBMIT_SECONDS_PER_JOB = 0.35
LIMIT_SECONDS = 210.0
"""From the last submission to the last end: two leases that lapse in a row, each past the sweeper's patience."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """What is done to the jobs of this phase."""

    name: str
    kills: bool
    faults: bool

    @property
    def keeps_time(self) -> bool:
        """Whether each interrupted job must start again as promised. Where SQS does not answer, a message stays hidden
        for as long as its queue says, and the sweeper rings for its job later.
        """
        return self.kills and not self.faults


PHASES = (
    Phase(name="kills", kills=True, faults=False),
    Phase(name="faults", kills=False, faults=True),
    Phase(name="both", kills=True, faults=True),
)


@dataclass(slots=True)
class Ran:
    """What a phase came to. begun, over: epoch seconds · fired: faults by service and kind · load: of this machine, at
    its highest (processes that ran or waited for a processor, over a minute).
    """

    phase: Phase
    planned: list[Planned]
    begun: float
    over: float = 0.0
    answered: list[Answered] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    load: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where the phases take place. `records` reads the table; `lost_sight` is asked for what happens to the load."""

    front: int
    provider: int
    proxy: Faults
    killer: Killer
    records: Callable[[], Mapping[str, Job]]


def run_phase(phase: Phase, jobs: int, seed: int, scene: Scene) -> Ran:
    """Run it, with a progress bar of the jobs that came to an end."""
    dice = random.Random(f"{seed} {phase.name}")
    ran = Ran(phase, plan(phase.name, jobs, dice, poison=phase.kills), time.time())
    seconds = jobs * SUBMIT_SECONDS_PER_JOB
    before = len(scene.killer.kills)
    harm = contextlib.ExitStack()
    with harm:
        if phase.faults:
            harm.enter_context(bad_weather(scene.proxy, dice))
        if phase.kills:
            harm.enter_context(scene.killer.at_work(schedule(jobs, dice), lambda: len(ran.answered)))
        stopped = threading.Event()
        harm.callback(stopped.set)  # after Ctrl-C the clients would go on posting to a cloud that is gone
        submitting = threading.Thread(
            target=submit_all, args=(ran.planned, scene.front, scene.provider, seconds, ran.answered.append, stopped)
        )
        submitting.start()
        _watch(ran, submitting, scene)
    ran.over, ran.kills, ran.fired = time.time(), scene.killer.kills[before:], scene.proxy.fired()
    return ran


def _watch(ran: Ran, submitting: threading.Thread, scene: Scene) -> None:
    ids = {one.job_id for one in ran.planned}
    deadline = time.monotonic() + len(ids) * SUBMIT_SECONDS_PER_JOB + LIMIT_SECONDS
    with tqdm(total=len(ids), desc=f"{ran.phase.name:<7}", unit="job", mininterval=1.0) as bar:
        while time.monotonic() < deadline:
            records = scene.records()
            ran.load = max(ran.load, os.getloadavg()[0])
            here = [records[job_id] for job_id in ids & records.keys()]
            ended = sum(job.state in FINAL for job in here)
            bar.set_postfix(accepted=len(ran.answered), kills=len(scene.killer.kills), refresh=False)
            bar.update(ended - bar.n)
            if not submitting.is_alive() and ended == len(here):
                break
            time.sleep(2.0)
    submitting.join()
