"""A run that moves keeps its lease; one that does not loses it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.domain.job import Job, Progress
from shared.domain.outcome import Outcome
from shared.domain.states import RENEW, REQUEST_CANCEL, Seen
from shared.domain.writes import Write
from shared.errors import (
    LeaseLost,
    StoreUnavailable,
)
from shared.ports import Message
from tests.builders import NOW, SECOND, a_job
from tests.world import DEFAULT_LEASE, Order, World


def heartbeat_world(steps: list[tuple[int, int]]) -> tuple[World, Message, list[Job]]:
    """A handler that reports `done` after waiting so many seconds, for each step; the renewals it caused."""
    world = World()
    message = world.submitted(a_job())
    renewals: list[Job] = []

    def handler(payload: Order, run: Any) -> None:
        for wait, done in steps:
            world.clock.forward(wait * SECOND)
            before = world.found(message).lease_expires_at
            run.progress(done, 100, "pages")
            if world.found(message).lease_expires_at != before:
                renewals.append(world.found(message))

    world.handler = handler
    return world, message, renewals


def test_progress_of_a_stale_worker_raises_lease_lost_and_its_later_calls_too() -> None:
    world = World()
    message = world.submitted(a_job())
    raised = []

    def stale(payload: Order, run: Any) -> None:
        job = world.found(message)
        world.store._jobs[job.job_id] = replace(job, run=2, holder="other")
        world.clock.forward(DEFAULT_LEASE)
        for _ in range(2):
            try:
                run.progress(1, 9, "pages")
            except LeaseLost:
                raised.append(True)

    world.handler = stale
    assert world.deliver(message) is Outcome.LEASE_LOST
    assert raised == [True, True]


def test_progress_renews_lease_and_visibility_at_most_every_third_of_the_lease() -> None:
    world, message, renewals = heartbeat_world([(1, n) for n in range(1, 31)])
    assert world.deliver(message) is Outcome.COMPLETED
    assert [(job.progress.done, job.lease_expires_at) for job in renewals if job.progress] == [
        (10, NOW + 40 * SECOND),
        (20, NOW + 50 * SECOND),
        (30, NOW + 60 * SECOND),
    ]
    assert [wait for _, wait in world.mailbox.hides] == [33 * SECOND] * 4, "one at its lease, one a renewal"
    assert world.found(message).progress == Progress(30, 100, "pages")


def test_without_movement_the_lease_is_left_to_expire() -> None:
    world, message, renewals = heartbeat_world([(12, 5), (12, 5), (12, 4), (12, 5)])
    world.deliver(message)
    assert len(renewals) == 1


def test_a_cancel_request_reaches_the_handler_with_its_next_heartbeat() -> None:
    world = World()
    message = world.submitted(a_job())

    def handler(payload: Order, run: Any) -> None:
        world.store.apply(
            run.job_id, Write(REQUEST_CANCEL, Seen(), {"cancel_request": {"who": "op1", "why": "wrong month"}})
        )
        world.clock.forward(DEFAULT_LEASE / 2)
        try:
            run.progress(1, 2, "pages")
        except Exception:
            pytest.fail("a handler's own except must not swallow the request")
        pytest.fail("the handler went on")

    world.handler = handler
    assert world.deliver(message) is Outcome.CANCELLED
    assert world.found(message).cancelled_by == "op1"


def test_a_throttled_renewal_is_tried_again_with_the_next_report() -> None:
    world, message, renewals = heartbeat_world([(12, 1), (1, 2)])
    plain_apply, failed = world.store.apply, []

    def throttled_once(job_id: str, write: Write) -> Job:
        if write.move is RENEW and not failed:
            failed.append(True)
            raise StoreUnavailable("throttled")
        return plain_apply(job_id, write)

    world.store.apply = throttled_once  # type: ignore[method-assign]
    assert world.deliver(message) is Outcome.COMPLETED
    assert len(renewals) == 1


@pytest.mark.parametrize("done", [-1, 2**53, "7", 1.5])
def test_progress_that_is_no_count_is_refused(done: Any) -> None:
    world = World(handler=lambda payload, run: run.progress(done, 9, "pages"))
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEAD
    assert "whole number" in str(world.found(message).error_message)


def test_a_loop_that_reports_the_same_page_under_changing_units_loses_its_lease_all_the_same() -> None:
    world = World()
    message = world.submitted(a_job())
    renewals: list[Any] = []

    def handler(payload: Order, run: Any) -> None:
        for n in range(6):
            world.clock.forward(12 * SECOND)
            run.progress(7, 9, "rows" if n % 2 else "pages")
            renewals.append(world.found(message).lease_expires_at)

    world.handler = handler
    world.deliver(message)
    assert len(set(renewals)) == 2, "once per unit, then never again"


def test_a_handle_whose_attempt_is_over_renews_nothing() -> None:
    world, handles = World(), []
    world.handler = lambda payload, run: handles.append(run)
    world.deliver(world.submitted(a_job()))
    with pytest.raises(LeaseLost):
        handles[0].progress(1, 2, "pages")
    with pytest.raises(LeaseLost):
        handles[0].once("charge", lambda: 1)


def test_a_renewed_lease_is_known_before_its_message_is_hidden() -> None:
    """A fence that falls in between must plan the retry after the new end."""
    world = World()
    message, known = world.submitted(a_job()), []
    plain_hide = world.mailbox.hide

    def handler(payload: Order, run: Any) -> None:
        world.clock.forward(DEFAULT_LEASE / 2)
        world.mailbox.hide = lambda *a: known.append(run.held.expires_at) or plain_hide(*a)  # type: ignore
        run.progress(1, 2, "pages")

    world.handler = handler
    world.deliver(message)
    assert known[0] == NOW + DEFAULT_LEASE / 2 + DEFAULT_LEASE
