"""What the relay is called for, and what becomes of a record it cannot handle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shared.adapters.wire import to_item
from shared.domain.states import FINAL, OUTBOX_OPEN, State
from tests.builders import a_job

RECORDED = json.loads(Path(__file__).with_name("recorded_insert.json").read_text())
RINGING = [(State.QUEUED, OUTBOX_OPEN), (State.DEAD, OUTBOX_OPEN)]
SILENT = [(state, outbox) for state in State for outbox in (OUTBOX_OPEN, None) if (state, outbox) not in RINGING]


def _mapping(stacks: Any, of: str = "Relay") -> dict[str, Any]:
    mappings = [m["Properties"] for m in stacks.of("AWS::Lambda::EventSourceMapping").values()]
    (mapping,) = [m for m in mappings if "StartingPosition" in m and of in m["FunctionName"]["Ref"]]
    return mapping


def _passes(stacks: Any, record: dict[str, Any], of: str = "Relay") -> bool:
    filters = _mapping(stacks, of)["FilterCriteria"]["Filters"]
    return any(_matches(json.loads(one["Pattern"]), record) for one in filters)


def _matches(pattern: Any, found: Any) -> bool:
    """Lambda's filter rule for plain patterns: every key is there, and every leaf is one of the values listed."""
    if pattern == [{"exists": True}]:
        return found is not None
    if isinstance(pattern, list):
        return found in pattern
    return isinstance(found, dict) and all(key in found and _matches(pattern[key], found[key]) for key in pattern)


def test_the_recorded_insert_of_a_submitted_job_reaches_the_relay(every_stage) -> None:
    assert _passes(every_stage, RECORDED)


@pytest.mark.parametrize(("state", "outbox"), RINGING)
def test_a_queued_or_dead_job_with_an_open_outbox_reaches_the_relay(prod, state, outbox) -> None:
    assert _passes(prod, _record(state, outbox))


@pytest.mark.parametrize(("state", "outbox"), SILENT)
def test_the_relay_is_not_called_for_any_other_write_its_own_mark_included(prod, state, outbox) -> None:
    assert not _passes(prod, _record(state, outbox))


def test_a_record_that_ttl_removes_does_not_reach_the_relay(prod) -> None:
    record = _record(State.DEAD, OUTBOX_OPEN)
    removed = {**record["dynamodb"], "OldImage": record["dynamodb"]["NewImage"]}
    del removed["NewImage"]
    assert not _passes(prod, {**record, "eventName": "REMOVE", "dynamodb": removed})


def test_no_record_is_skipped_and_none_blocks_its_shard_until_data_is_lost(every_stage) -> None:
    mapping = _mapping(every_stage)
    assert mapping["StartingPosition"] == "TRIM_HORIZON"
    assert mapping["BisectBatchOnFunctionError"] is True
    assert 0 < mapping["MaximumRetryAttempts"] <= 1000
    assert 3600 <= mapping["MaximumRecordAgeInSeconds"] < 24 * 3600  # the stream itself forgets after 24 h


def test_what_lambda_gives_up_on_is_parked_where_an_alarm_watches(every_stage) -> None:
    destination = _mapping(every_stage)["DestinationConfig"]["OnFailure"]["Destination"]["Fn::GetAtt"][0]
    parked = every_stage.of("AWS::SQS::Queue")[destination]["Properties"]
    assert parked["QueueName"] == f"holdfast-{every_stage.stage}-relay-parked"
    assert parked["MessageRetentionPeriod"] == 14 * 24 * 3600


def test_a_shard_is_read_in_order_and_failures_are_raised_not_reported(every_stage) -> None:
    mapping = _mapping(every_stage)
    assert mapping["ParallelizationFactor"] == 1
    assert "FunctionResponseTypes" not in mapping  # the emulator loses what a stream handler reports


@pytest.mark.parametrize("tenant", ["acme-eu", None])
def test_the_tally_is_called_where_a_tenants_job_begins_ends_or_begins_anew_and_never_else(prod, tenant) -> None:
    def passes(kind: str, old: State | None, new: State | None) -> bool:
        images = {
            name: to_item(a_job(state=s, tenant=tenant)) for name, s in (("OldImage", old), ("NewImage", new)) if s
        }
        return _passes(prod, {**RECORDED, "eventName": kind, "dynamodb": images}, of="Tally")

    assert passes("INSERT", None, State.QUEUED) is (tenant is not None)
    for state in FINAL:
        assert passes("MODIFY", State.RUNNING, state) is (tenant is not None)
        assert passes("MODIFY", state, State.QUEUED) is (tenant is not None)
    assert not passes("MODIFY", State.QUEUED, State.RUNNING)
    assert not passes("MODIFY", State.RUNNING, State.RETRYING)


def _record(state: State, outbox: str | None) -> dict[str, Any]:
    """A stream record of a job in this state, in the recorded envelope."""
    image = to_item(a_job(state=state, outbox=outbox))
    return {**RECORDED, "eventName": "MODIFY", "dynamodb": {**RECORDED["dynamodb"], "NewImage": image}}
