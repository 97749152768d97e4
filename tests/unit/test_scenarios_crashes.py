"""Processes that die at the worst moment, on the small cloud of the twin (tests/chaos/cloud.py)."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from shared.domain.job import job_id_for_key
from shared.domain.retry import FailureClass
from shared.domain.states import LEASE, Seen, State
from shared.operations.sweep import SweeperPorts, sweep_job
from shared.queues import QUEUES
from tests.api import Client
from tests.builders import NOW, MemoryDeadLetters, RecordedLog, RecordedMeter, a_job
from tests.chaos.cloud import Cloud
from tests.chaos.kinds import Kind, post, request
from tests.chaos.process import Strike

POISON = job_id_for_key("acme-eu", "poison")
TICK = timedelta(minutes=1)


def poisoned(queue: str, **more: Any) -> tuple[Cloud, Counter[str]]:
    """Four jobs in one batch, the first of which kills the worker's process whenever it runs."""
    starts: Counter[str] = Counter()

    def handler(cloud: Cloud, run: Any) -> None:
        starts[run.job_id] += 1
        time.sleep(0.1)  # so long that those beside the poison are at work when it strikes
        if run.job_id == POISON:
            cloud.worker_dies()
        time.sleep(0.1)

    def begin(cloud: Cloud) -> None:
        for key in ("poison", "k1", "k2", "k3"):
            post(cloud, request(key, **more))

    cloud = Cloud(Kind(handler=handler, begin=begin, queue=queue))
    begin(cloud)
    cloud.go_on()
    return cloud, starts


def test_a_handler_that_kills_its_process_every_time_is_dead_as_stalled_and_its_batch_completes() -> None:
    """SCENARIOS 3. Its neighbours die with it once, and each then shows alone that it is innocent."""
    cloud, starts = poisoned("exports.month-end")
    poison, *neighbours = cloud.jobs
    assert (poison.job_id, poison.state, poison.error_class) == (POISON, State.DEAD, FailureClass.STALLED)
    assert starts[POISON] == 2, "recovered once, then stopped for a human"
    assert [job.state for job in neighbours] == [State.COMPLETED] * 3
    assert all(job.stalls <= 1 and job.attempts <= 2 for job in neighbours)
    assert cloud.worker_deaths == 2


def test_a_handler_that_kills_its_process_holds_up_its_own_key_only_until_it_is_dead() -> None:
    """SCENARIOS 3, on a lane that keeps order: those behind it in its group are not started beside it."""
    cloud, starts = poisoned("webhooks.partner-a", ordering_key="k")
    poison, *behind = cloud.jobs
    assert (poison.state, poison.error_class, starts[POISON]) == (State.DEAD, FailureClass.STALLED, 2)
    assert [(job.state, job.attempts, job.stalls) for job in behind] == [(State.COMPLETED, 1, 0)] * 3


@pytest.mark.parametrize(("max_attempts", "says"), [(1, [State.DEAD]), (6, [State.QUEUED, State.DEAD])])
def test_a_function_killed_without_a_word_until_its_budget_is_gone_reads_dead_within_a_sweep(
    max_attempts: int, says: list[State]
) -> None:
    """SCENARIOS 12. No message ever comes back: the sweeper alone follows, and the status endpoint says what it did."""
    client = Client()
    job = a_job(max_attempts=max_attempts)
    client.store.submit(job, NOW)
    ports = SweeperPorts(
        store=client.store,
        dead_letters=MemoryDeadLetters(),
        clock=client.clock,
        log=RecordedLog(),
        meter=RecordedMeter(),
        queues=QUEUES,
    )
    shown: list[str] = []
    while (found := client.store.get(job.job_id)) is not None and found.state is State.QUEUED:
        now = client.clock.now()
        lease = {"holder": "h", "lease_expires_at": now + TICK / 2, "started_at": now, "code_version": "abc1234"}
        client.store.apply(job.job_id, LEASE, Seen(now=now, dispatch=found.dispatch), **lease)
        for _ in range(2):  # the lease ends within the first tick, PATIENCE within the second
            client.clock.forward(TICK)
            sweep_job(job.job_id, ports, queue_empty=False)
        shown.append(client.get(f"/jobs/{job.job_id}").json["status"])
    assert shown == says, "and never running"
    view = client.get(f"/jobs/{job.job_id}").json
    assert view["error"]["class"] == FailureClass.STALLED
    assert "run" in view["error"]["message"]


# ---- between sending and marking ------------------------------------------------------------------------------------


def later(cloud: Cloud) -> None:
    post(cloud, request(delay=timedelta(hours=1)))


def killed_at_every_call(begin: Any) -> list[tuple[str, int, list[State]]]:
    """(where, how often the handler ran, how its jobs ended) of the same history with one kill after each call of the
    promoter and the relay.
    """
    came_to = []
    undisturbed = Cloud(Kind(handler=lambda cloud, run: None, begin=begin))
    begin(undisturbed)
    undisturbed.go_on()
    for number, call in enumerate(undisturbed.strike.calls, 1):
        if "promote.py" in call.site or "relay.py" in call.site:
            ran: list[str] = []
            kind = Kind(handler=lambda cloud, run, ran=ran: ran.append(run.job_id), begin=begin)
            cloud = Cloud(kind, Strike(at_call=number, before=False))
            begin(cloud)
            cloud.go_on()
            came_to.append((call.name, len(ran), [job.state for job in cloud.jobs]))
    return came_to


@pytest.mark.parametrize("begin", [post, later], ids=["queued at once", "promoted"])
def test_a_promoter_or_relay_that_dies_between_sending_and_marking_makes_one_execution(begin: Any) -> None:
    """SCENARIOS 19 and 22. The doorbell rings twice; the second finds the job's own record."""
    came_to = killed_at_every_call(begin)
    assert {"doorbell.ring", "store.apply"} <= {name for name, _, _ in came_to}
    assert {(ran, *states) for _, ran, states in came_to} == {(1, State.COMPLETED)}
