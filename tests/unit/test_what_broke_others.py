"""Cases that have broken other job systems and are no single part's business; the rest stand with their parts, and
docs/what-broke-others.md has them all.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.domain.outcome import Outcome
from shared.domain.retry import RetryPolicy
from shared.domain.states import PARK, REPLAY, REQUEUE, State
from shared.domain.waits import RECEIVE_LIMIT
from shared.errors import MoveRefused, StoreUnavailable, TransientFailure
from shared.queues import MAX_RECEIVES
from tests.builders import a_job, a_message, a_running_job
from tests.moves import changes_for, seen_for
from tests.world import LEASE, SECOND, Order, World, raising, refuse_to_run


def test_a_job_that_completes_between_a_repairs_read_and_its_write_stays_completed() -> None:
    """SCENARIOS 2."""
    world = World()
    message = world.submitted(a_running_job(lease_expires_at=None, holder="token-1"))
    stuck = replace(world.found(message), lease_expires_at=world.clock.now() - 10 * SECOND)
    world.store._jobs[stuck.job_id] = stuck
    seen = seen_for(stuck)
    assert world.deliver(message) is Outcome.COMPLETED
    with pytest.raises(MoveRefused) as lost:
        world.store.apply(stuck.job_id, REQUEUE, seen, **changes_for(REQUEUE))
    assert lost.value.found is not None
    assert lost.value.found.state is State.COMPLETED
    assert world.found(message).state is State.COMPLETED


def test_what_sqs_moved_away_before_any_worker_ran_it_is_parked_with_no_attempt_and_can_be_replayed() -> None:
    """SCENARIOS 9."""
    world = World()
    message = world.submitted(a_job())
    parked = world.store.apply(message.job_id, PARK, seen_for(world.found(message)), **changes_for(PARK))
    assert (parked.state, parked.attempts, parked.outbox) == (State.DEAD, 0, "open")
    assert world.deliver(message) is Outcome.STALE, "the copy that SQS moved is no replay: it bears no mark"
    replayed = world.store.apply(message.job_id, REPLAY, seen_for(parked), **changes_for(REPLAY))
    assert world.deliver(a_message(replayed)) is Outcome.COMPLETED


def test_messages_whose_acknowledgement_failed_come_back_and_run_nothing() -> None:
    """SCENARIOS 13."""
    ran: list[str] = []
    world = World(handler=lambda payload, run: ran.append(run.job_id))
    messages = [world.submitted(a_job()) for _ in range(10)]
    assert world.run_batch(*messages) == []
    assert world.run_batch(*[replace(m, receives=2, receipt="other") for m in messages[:3]]) == []
    assert len(ran) == 10


def test_a_warm_environment_runs_its_second_batch_after_a_first_that_failed() -> None:
    """SCENARIOS 15."""
    world = World(handler=raising(TransientFailure("x")))
    bad = world.submitted(a_job())
    assert world.run_batch(bad) == [bad.message_id]
    world.handler = lambda payload, run: None
    good = world.submitted(a_job())
    assert world.run_batch(good) == []
    assert world.meter.outcomes() == ["retrying", "completed"]


@pytest.mark.parametrize("attempts", [2, 8, 50])
def test_sqs_never_moves_a_message_before_the_policy_of_its_type_is_used_up(attempts: int) -> None:
    """SCENARIOS 17. Types of any number of attempts share a queue, whose receive count knows nothing of them."""
    policy = RetryPolicy((timedelta(), *[timedelta(seconds=1)] * (attempts - 1)), spread=timedelta())
    world = World(handler=raising(TransientFailure("x")), policy=policy)
    message, receives, most = world.submitted(a_job(max_attempts=attempts)), 1, 1
    while world.deliver(replace(message, receives=receives)) is not Outcome.DEAD:
        fresh = world.when_due(message)
        receives = 1 if fresh.message_id != message.message_id else receives + 1
        message, most = fresh, max(most, receives)
    assert world.found(message).attempts == attempts
    assert most <= RECEIVE_LIMIT + 2 < MAX_RECEIVES


def test_an_effect_is_found_again_under_a_doorbell_with_a_new_message_id() -> None:
    """SCENARIOS 27. The provider accepted, the handler raised; idempotency keyed on message ids would charge again."""
    charges: list[int] = []
    policy = RetryPolicy((timedelta(), timedelta(minutes=10)))

    def handler(payload: Order, run: Any) -> None:
        run.once("charge", lambda: charges.append(1))
        if run.attempt == 1:
            raise TransientFailure("after the charge")

    world = World(handler=handler, policy=policy)
    first = world.submitted(a_job())
    assert world.deliver(first) is Outcome.RETRYING_IN_DUE
    second = world.when_due(first)
    assert second.message_id != first.message_id
    assert world.deliver(second) is Outcome.COMPLETED
    assert charges == [1]


def test_fifty_workers_on_one_lapsed_lease_make_one_run() -> None:
    ran: list[str] = []
    world = World(handler=lambda payload, run: ran.append(run.job_id), queue="emails.bulk")
    message = world.submitted(a_running_job(queue="emails.bulk"))
    world.clock.forward(LEASE + 3 * SECOND)
    world.run_batch(*[replace(message, message_id=f"copy-{n}") for n in range(50)])
    assert len(ran) == 1
    assert (world.found(message).run, world.found(message).attempts) == (2, 2)


def test_a_doorbell_that_sqs_moved_away_and_an_operator_redrove_runs_its_job() -> None:
    """StartMessageMoveTask gives it a new message id and a receive count from one; body and dispatch stay."""
    world = World()
    message = world.submitted(a_job())
    assert world.deliver(replace(message, message_id="redriven", receives=1)) is Outcome.COMPLETED
    assert world.deliver(message) is Outcome.STALE


def test_nothing_is_acknowledged_before_its_record_is_written() -> None:
    ran: list[str] = []
    world = World(handler=lambda payload, run: ran.append(run.job_id))
    message = world.submitted(a_job())
    plain_apply = world.store.apply

    def table_goes_away(job_id: str, move: Any, seen: Any, **changes: Any) -> Any:
        if move.target is State.COMPLETED:
            raise StoreUnavailable("throttled")
        return plain_apply(job_id, move, seen, **changes)

    world.store.apply = table_goes_away  # type: ignore[method-assign]
    assert world.run_batch(message) == [message.message_id], "the effect took place, the record did not"
    assert (len(ran), world.mailbox.acknowledged) == (1, [])


def test_the_rightful_holder_completes_after_its_lease_if_nobody_took_the_job_over() -> None:
    world = World()
    message = world.submitted(a_job())
    world.handler = lambda payload, run: world.clock.forward(LEASE + 20 * SECOND)
    assert world.deliver(message) is Outcome.COMPLETED
    assert (world.found(message).run, world.found(message).stalls) == (1, 0)


def test_an_expired_job_is_visible_with_its_reason_and_never_silently_gone() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_job(deadline_at=a_job().created_at))
    assert world.deliver(message) is Outcome.EXPIRED
    job = world.found(message)
    assert (job.state, bool(job.reason), job.expires_at is not None) == (State.EXPIRED, True, True)
