"""Endings that cannot be written, and endings written twice, on both stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any

import pytest

from shared.adapters.dynamodb import DynamoJobStore
from shared.adapters.system import SystemClock
from shared.domain.outcome import Outcome
from shared.domain.run import Cancel, Continue, Defer, StoredFile
from shared.domain.states import State
from shared.errors import DeterministicFailure, TransientFailure
from shared.ports import JobStore
from tests.aws import create_jobs_table
from tests.builders import a_job
from tests.world import World, raising


@dataclass
class OrderGone(DeterministicFailure):
    """A subclass that leaves our constructor out, as a dataclass does."""

    order: str


class Hostile(Exception):
    @property
    def response(self) -> Any:
        raise RuntimeError("not set")


ODD: dict[str, Callable[[Any, Any], Any]] = {
    "a file whose key is a path": lambda payload, run: StoredFile(PurePosixPath("a/b"), 1, "x/y"),  # type: ignore[arg-type]
    "a file whose size is text": lambda payload, run: StoredFile("a/b", "1", "x/y"),  # type: ignore[arg-type]
    "a file whose version is a number": lambda payload, run: StoredFile("a/b", 1, "x/y", 7),  # type: ignore[arg-type]
    "a checkpoint of forty digits": lambda payload, run: Continue({"n": 10**40 + 1}),
    "a checkpoint beyond any number": lambda payload, run: Continue({"n": 1e300}),
    "a reason of half a character": lambda payload, run: Cancel("file \udcff"),
    "a defer for half a character": lambda payload, run: Defer(timedelta(seconds=9), "\udcff"),
    "a failure of half a character": raising(ValueError("file \udcff")),
    "a failure without our constructor": raising(OrderGone("o1")),
    "a failure whose response raises": raising(Hostile()),
    "a wait of thirty thousand years": raising(TransientFailure("x", retry_after=1e12)),
}


@pytest.mark.parametrize("ending", ODD)
def test_whatever_a_handler_ends_with_is_recorded_and_never_looks_like_a_vanished_worker(
    store: JobStore, ending: str
) -> None:
    world = World(ODD[ending], store=store)  # type: ignore[arg-type]
    message = world.submitted(a_job())
    world.run_batch(message)
    job = world.found(message)
    assert job.state is not State.RUNNING, world.log.lines[-1]
    assert job.error_class != "stalled"
    assert job.run == 1


class Twice:
    """Sends every update twice, as the SDK does after a lost answer."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        if name != "update_item":
            return call
        return lambda **arguments: (call(**arguments), call(**arguments))[1]


@pytest.fixture
def twice(dynamodb: Any) -> Iterator[DynamoJobStore]:
    create_jobs_table(dynamodb, "jobs")
    yield DynamoJobStore(Twice(dynamodb), "jobs")
    dynamodb.delete_table(TableName="jobs")


@pytest.mark.parametrize(
    ("handler", "outcome"),
    [
        (lambda payload, run: None, Outcome.COMPLETED),
        (lambda payload, run: run.once("a", lambda: 1) and None, Outcome.COMPLETED),
        (raising(TransientFailure("x")), Outcome.RETRYING),
        (raising(DeterministicFailure("x")), Outcome.DEAD),
        (lambda payload, run: Continue({"page": 1}), Outcome.CONTINUED),
        (lambda payload, run: Cancel("paid"), Outcome.CANCELLED),
    ],
)
def test_an_ending_whose_answer_was_lost_is_known_for_our_own(
    twice: DynamoJobStore, handler: Callable[[Any, Any], Any], outcome: Outcome
) -> None:
    """Judged by its content as the table gives it back: times in whole milliseconds, TTL in whole seconds."""
    world = World(handler, store=twice, clock=SystemClock())  # type: ignore[arg-type]
    now = world.clock.now()
    message = world.submitted(a_job(created_at=now, run_at=now, deadline_at=now + timedelta(hours=1)))
    assert world.deliver(message, dice=lambda: 0.123456789) is outcome
