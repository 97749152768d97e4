"""No job ends without somebody being told, and its record says what stood in its way."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.domain.job import Job
from shared.domain.outcome import Alert, Outcome
from shared.domain.run import Defer
from shared.domain.states import State
from shared.domain.writes import TOO_OLD
from shared.errors import DeterministicFailure, EnvironmentalFailure
from shared.jobs import JobType
from shared.operations.sweep import SweeperPorts, sweep_dead_letters, sweep_job
from shared.queues import QUEUES
from tests.api import Client
from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    MemoryDeadLetters,
    RecordedMeter,
    a_job,
    a_message,
    a_running_job,
)
from tests.world import OneType, World, raising


class NeverLoads(OneType):
    def get(self, name: str) -> JobType | None:
        raise ModuleNotFoundError("No module named 'stripe'")


def until_final(world: World, message: Any) -> Job:
    """Every doorbell of one job, each at its time."""
    for _ in range(3000):
        world.run_batch(message)
        job = world.found(message)
        if job.state not in (State.QUEUED, State.RETRYING):
            return job
        message = replace(world.when_due(message), receives=message.receives + 1 if job.due_key is None else 1)
    raise AssertionError(f"never ended: {world.found(message)}")


def sweeper(world: World, meter: RecordedMeter, dlq: MemoryDeadLetters | None = None) -> SweeperPorts:
    return SweeperPorts(
        store=world.store,
        dead_letters=dlq or MemoryDeadLetters(),
        clock=world.clock,
        log=world.log,
        meter=meter,
        queues=QUEUES,
    )


def test_a_job_whose_type_never_loads_is_told_of_at_once_and_expires_with_the_reason() -> None:
    client = Client()
    world = World(store=client.store, clock=client.clock)  # type: ignore[arg-type]
    world.catalogue = NeverLoads(world.handler)
    message = world.submitted(a_job(deadline_at=NOW + HOUR))

    world.run_batch(message)
    assert world.meter.alerts == [(Alert.TYPE_NOT_LOADED, message.job_id)], "at the first delivery"

    job = until_final(world, world.when_due(message))
    assert job.state is State.EXPIRED
    assert world.meter.alerts[-1] == (Alert.EXPIRED, job.job_id)
    assert job.reason == f"{TOO_OLD}; in its way: job type 'invoice-export' cannot be loaded (ModuleNotFoundError)"
    assert client.get(f"/jobs/{job.job_id}").json["reason"] == job.reason
    assert "stripe" not in client.get(f"/jobs/{job.job_id}").text


def test_a_job_whose_type_or_version_no_worker_has_is_told_of_too() -> None:
    world = World(version=1)
    unknown, newer = world.submitted(a_job(type="note")), world.submitted(a_job(payload_version=2))
    world.run_batch(unknown, newer)
    told = {(Alert.TYPE_NOT_KNOWN, message.job_id) for message in (unknown, newer)}
    assert set(world.meter.alerts) == told


def test_a_healthy_job_costs_no_alert() -> None:
    world = World()
    world.run_batch(world.submitted(a_job()))
    assert world.meter.alerts == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, ""),
        ({"state": State.RETRYING, "reason": "quota-gone: 3 of 3"}, "; in its way: quota-gone: 3 of 3"),
        (
            {"error_class": "transient", "error_code": "http-503", "error_message": "a foreign text"},
            "; in its way: transient: http-503",
        ),
    ],
    ids=["nothing", "a wait", "an error"],
)
def test_expiry_keeps_what_stood_in_the_jobs_way(fields: dict[str, Any], why: str) -> None:
    world = World()
    message = world.submitted(a_job(deadline_at=NOW, next_attempt_at=NOW, **fields))
    assert world.deliver(message) is Outcome.EXPIRED
    assert world.found(message).reason == TOO_OLD + why
    assert world.meter.alerts == [(Alert.EXPIRED, message.job_id)]


def test_a_job_that_defers_itself_until_it_is_too_old_keeps_its_own_word() -> None:
    world = World(handler=lambda payload, run: Defer(20 * MINUTE, "no rates yet"))
    job = until_final(world, world.submitted(a_job(deadline_at=NOW + HOUR)))
    assert (job.state, job.reason) == (State.EXPIRED, f"{TOO_OLD}; in its way: no rates yet")


def test_an_expiry_keeps_what_another_worker_learned_while_it_was_being_written() -> None:
    """Its copy of the same message, on a machine whose clock is two seconds behind, ran the job meanwhile."""
    world = World(handler=lambda payload, run: Defer(timedelta(), "no rates yet"))
    message = world.submitted(a_job(deadline_at=NOW + MINUTE))
    world.clock.forward(MINUTE)
    elsewhere: list[Outcome | None] = []

    class Meanwhile(RecordedMeter):
        def alert(self, alert: Alert, **about: Any) -> None:
            if not elsewhere:
                world.clock.forward(-2 * SECOND)
                elsewhere.append(world.deliver(message))
                world.clock.forward(2 * SECOND)
            super().alert(alert, **about)

    world.run_batch(message, meter=Meanwhile())
    world.clock.forward(MINUTE)
    world.deliver(replace(message, receives=2))

    assert elsewhere == [Outcome.DEFERRED]
    job = world.found(message)
    assert (job.state, job.run, job.reason) == (State.EXPIRED, 1, f"{TOO_OLD}; in its way: no rates yet")


def test_the_sweeper_tells_of_what_it_expires_before_it_does() -> None:
    world, states = World(), []
    message = world.submitted(a_running_job(deadline_at=NOW + MINUTE))
    world.clock.forward(HOUR)

    class Watching(RecordedMeter):
        def alert(self, alert: Alert, **about: Any) -> None:
            states.append(world.found(message).state)
            super().alert(alert, **about)

    meter = Watching()
    sweep_job(message.job_id, sweeper(world, meter), queue_empty=True)
    job = world.found(message)
    assert (job.state, job.reason) == (State.EXPIRED, f"{TOO_OLD}; in its way: run 1 ended without a word")
    assert (meter.alerts, states) == ([(Alert.EXPIRED, job.job_id)], [State.RUNNING])


def test_a_redispatched_job_still_knows_why_it_waited() -> None:
    world = World()
    waits = a_job(state=State.RETRYING, reason="no rates yet", next_attempt_at=NOW, outbox=None, published_at=NOW)
    message = world.submitted(waits)
    world.clock.forward(HOUR)
    sweep_job(message.job_id, sweeper(world, RecordedMeter()), queue_empty=True)
    assert (world.found(message).state, world.found(message).reason) == (State.QUEUED, "no rates yet")
    world.clock.forward(24 * HOUR)
    world.deliver(a_message(world.found(message)))
    assert world.found(message).reason == f"{TOO_OLD}; in its way: no rates yet"


def test_a_job_that_sqs_gave_up_on_keeps_what_stood_in_its_way() -> None:
    world = World()
    why = "job type 'invoice-export' cannot be loaded (ModuleNotFoundError)"
    message = world.submitted(a_job(state=State.RETRYING, reason=why, next_attempt_at=NOW + HOUR, outbox=None))
    dlq = MemoryDeadLetters([message])
    sweep_dead_letters(QUEUES["exports.month-end"], sweeper(world, RecordedMeter(), dlq))
    assert world.found(message).error_message == f"SQS gave up on its message after 0 attempts; in its way: {why}"


def test_what_an_environmental_wait_says_to_callers_is_its_authors_and_never_a_librarys() -> None:
    ours = World(handler=raising(EnvironmentalFailure("the bank is closed", code="bank-closed")))
    message = ours.submitted(a_job())
    ours.deliver(message)
    assert ours.found(message).reason == "bank-closed: the bank is closed"

    class Denied(PermissionError):
        code = 403

    theirs = World(handler=raising(Denied("no access to /mnt/secrets")))
    message = theirs.submitted(a_job())
    theirs.deliver(message)
    assert theirs.found(message).reason == "http-403"


def test_a_dead_jobs_error_is_its_authors_word() -> None:
    client = Client()
    world = World(store=client.store, clock=client.clock)  # type: ignore[arg-type]
    world.handler = raising(DeterministicFailure("row 7, column gross: expected a number", code="csv-row-invalid"))
    message = world.submitted(a_job())
    world.deliver(message)
    shown = client.get(f"/jobs/{message.job_id}").json["error"]
    assert shown["message"] == "row 7, column gross: expected a number"
