"""What a policy can say about the jobs table: nobody but the API puts items, and no move names what a submit said."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.dynamodb import DynamoJobStore
from shared.adapters.wire import to_item
from shared.domain.job import SAID_AT_SUBMIT, Job, RunRecord
from shared.domain.states import TABLE, Transition
from shared.domain.writes import Write
from tests.builders import NOW, a_job
from tests.moves import changes_for, record_for, seen_for

MOVES = [move for move in TABLE if move.arms]


class RecordingClient:
    """Answers every call with one record and keeps what it was asked."""

    def __init__(self, job: Job) -> None:
        self.job, self.asked = job, []

    def __getattr__(self, operation: str) -> Any:
        def call(**arguments: Any) -> dict[str, Any]:
            self.asked.append((operation, arguments))
            return {"Attributes": to_item(self.job)}

        return call


def named(client: RecordingClient) -> set[str]:
    """The attributes that the one call names: what IAM calls dynamodb:Attributes."""
    ((operation, arguments),) = client.asked
    assert operation == "update_item", "a role that may put items may put jobs"
    return {*arguments["Key"], *arguments["ExpressionAttributeNames"].values()}


@pytest.mark.parametrize("move", MOVES, ids=[move.name for move in MOVES])
def test_no_move_names_what_was_said_at_submit_so_no_policy_need_allow_it(move: Transition) -> None:
    arm = move.arms[0]
    job = record_for(move, arm, min(arm.states))
    client = RecordingClient(job)
    DynamoJobStore(client, "jobs").apply(job.job_id, Write(move, seen_for(job), changes_for(move)))
    assert named(client) & set(SAID_AT_SUBMIT) == set()


@pytest.mark.parametrize("told", [True, False])
def test_history_is_written_without_a_put_and_names_nothing_of_a_submit(told: bool) -> None:
    client = RecordingClient(a_job())
    record = RunRecord(
        job_id=a_job().job_id,
        run=1,
        ended_at=NOW,
        outcome="retrying",
        holder="h" if told else None,
        error_class="transient" if told else None,
        error_code="c" if told else None,
        error_message="m" if told else None,
        stack_digest="s" if told else None,
        expires_at=NOW + timedelta(days=90),
    )
    DynamoJobStore(client, "jobs").record_run(record)
    assert named(client) & set(SAID_AT_SUBMIT) == set()


def test_what_is_said_at_submit_is_what_a_worker_needs_to_run_a_job() -> None:
    assert {"type", "tenant", "payload", "payload_ref", "payload_version"} <= set(SAID_AT_SUBMIT)
    assert set(SAID_AT_SUBMIT) <= {field.name for field in fields(Job)}
