"""Every way a job can fail, seen from outside: its record names class, code, attempts, next time or reason."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from shared.domain.retry import FailureClass
from shared.domain.states import State
from tests.e2e.cloud import Cloud


@pytest.fixture(scope="module")
def mishaps(cloud: Cloud) -> dict[str, str]:
    """One job of each kind, all submitted at once, so that their waits pass side by side."""
    kinds = ("busy-long", "hangs", "busy", "off", "broken", "bug", "waits", "goes-on", "stops")
    return {how: cloud.submit("/jobs", {"type": "mishap", "payload": {"how": how}}) for how in kinds}


def shown(cloud: Cloud, job_id: str, until: Callable[[Any], bool], seconds: float) -> Any:
    """GET /jobs/{id}, again and again until it shows that."""
    deadline = time.monotonic() + seconds
    while not until(view := cloud.ask("GET", f"/jobs/{job_id}").json):
        assert time.monotonic() < deadline, f"after {seconds} s: {view}"
        time.sleep(0.2)
    return view


def test_a_handler_that_sleeps_for_ever_stops_neither_its_neighbours_nor_itself_for_ever(
    cloud: Cloud, mishaps: dict[str, str]
) -> None:
    neighbours = [cloud.submit("/jobs", {"type": "mishap", "payload": {"how": "nothing"}}) for _ in range(6)]
    for neighbour in neighbours:
        assert cloud.wait(neighbour, seconds=80)["status"] == State.COMPLETED
    view = shown(cloud, mishaps["hangs"], lambda v: "error" in v, 80)
    assert (view["error"]["class"], view["error"]["code"]) == (FailureClass.TRANSIENT, "deadline-exceeded")
    ended = cloud.wait(mishaps["hangs"], seconds=90)
    assert (ended["status"], ended["attempts"]) == (State.COMPLETED, 2)


def test_a_transient_failure_shows_its_code_and_completes_with_its_second_attempt(
    cloud: Cloud, mishaps: dict[str, str]
) -> None:
    ended = cloud.wait(mishaps["busy"], seconds=90)
    assert (ended["status"], ended["attempts"], ended["error"]["code"]) == (State.COMPLETED, 2, "busy")


def test_an_environmental_failure_shows_when_it_is_looked_at_again_and_has_spent_no_attempt(
    cloud: Cloud, mishaps: dict[str, str]
) -> None:
    view = shown(cloud, mishaps["off"], lambda v: "nextAttemptAt" in v, 80)
    assert view["status"] in (State.RETRYING, State.QUEUED)  # queued: promoted already, to start at that time
    assert (view["error"]["class"], view["error"]["code"], view["attempts"]) == (FailureClass.ENVIRONMENTAL, "quota", 0)
    assert view["nextAttemptAt"] > view["error"]["lastAt"]
    assert "quota of today" in view["reason"]


@pytest.mark.parametrize(("how", "code"), [("broken", "row-invalid"), ("bug", "KeyError")])
def test_a_deterministic_failure_is_dead_after_one_attempt_and_says_why(
    cloud: Cloud, mishaps: dict[str, str], how: str, code: str
) -> None:
    ended = cloud.wait(mishaps[how], seconds=80)
    assert (ended["status"], ended["attempts"]) == (State.DEAD, 1)
    assert (ended["error"]["class"], ended["error"]["code"]) == (FailureClass.DETERMINISTIC, code)


def test_a_handler_may_wait_go_on_or_stop_by_name(cloud: Cloud, mishaps: dict[str, str]) -> None:
    waited, went_on, stopped = (cloud.wait(mishaps[how], seconds=90) for how in ("waits", "goes-on", "stops"))
    assert (waited["status"], waited["attempts"]) == (State.COMPLETED, 1)
    assert (went_on["status"], went_on["attempts"], cloud.record(mishaps["goes-on"]).run) == (State.COMPLETED, 1, 3)
    assert (stopped["status"], stopped["reason"]) == (State.CANCELLED, "paid meanwhile")


def test_a_handler_that_kills_its_worker_every_time_is_dead_as_stalled_and_its_neighbours_complete(
    cloud: Cloud, mishaps: dict[str, str]
) -> None:
    for job_id in (mishaps[how] for how in ("busy", "broken", "bug", "goes-on", "stops")):
        cloud.wait(job_id, seconds=90)  # the crash shall be nobody's but these jobs'
    together = [
        cloud.submit("/jobs", {"type": "mishap", "payload": {"how": how}}) for how in ("dies", *["nothing"] * 5)
    ]
    ended = cloud.wait(together[0], seconds=120)
    assert (ended["status"], ended["error"]["class"], ended["attempts"]) == (State.DEAD, FailureClass.STALLED, 2)
    for neighbour in together[1:]:
        assert cloud.wait(neighbour, seconds=120)["status"] == State.COMPLETED


def test_a_job_for_later_is_scheduled_and_starts_when_it_is_due(cloud: Cloud) -> None:
    body = {"type": "mishap", "payload": {"how": "nothing"}, "delaySeconds": 16 * 60}
    answer = cloud.ask("POST", "/jobs", body)
    assert (answer.status, answer.json["status"]) == (202, State.SCHEDULED)
    soon = cloud.submit("/jobs", body | {"delaySeconds": 3})
    ended = cloud.wait(soon, seconds=30)
    assert ended["status"] == State.COMPLETED
    assert ended["startedAt"] >= ended["runAt"]


def test_a_wait_of_more_than_a_minute_leaves_the_queue_and_the_promoter_ends_it(
    cloud: Cloud, mishaps: dict[str, str]
) -> None:
    """Its retry waits 61 s, in the `due` index, and the promoter rings a fresh doorbell."""
    ended = cloud.wait(mishaps["busy-long"], seconds=200)
    assert (ended["status"], ended["attempts"]) == (State.COMPLETED, 2)
    assert cloud.record(mishaps["busy-long"]).dispatch == 3
