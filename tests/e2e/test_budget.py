"""What an ordinary job costs in DynamoDB, measured where it is billed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from shared.domain.states import State
from shared.queues import QUEUES
from tests.e2e.cloud import Cloud
from tests.e2e.meter import metered

MAX_WRITE_UNITS = 7
MAX_TABLE_CALLS = 4
PAYLOAD_BYTES = 200


def test_an_ordinary_job_costs_at_most_7_write_units_and_4_table_calls(
    cloud: Cloud, figure: Callable[[str], None]
) -> None:
    payload = {"text": "x" * (PAYLOAD_BYTES - len('{"text":""}'))}
    assert len(json.dumps(payload, separators=(",", ":"))) == PAYLOAD_BYTES
    prefix = cloud.up.outputs["Prefix"]
    functions = [f"{prefix}-api", f"{prefix}-relay", f"{prefix}-worker-{QUEUES['emails.high'].slug}"]

    with metered(cloud.lambda_, functions, cloud.up.emulator_port) as meter:
        job_id = cloud.submit("/jobs", {"type": "note", "tenantId": "acme-eu", "payload": payload})
        deadline = time.monotonic() + 30
        # Not GET /jobs/{id}: that is a table call too, and not the job's.
        while cloud.record(job_id).state is not State.COMPLETED or cloud.record(job_id).published_at is None:
            assert time.monotonic() < deadline, cloud.record(job_id)
            time.sleep(0.1)
        calls = meter.calls_about(job_id)

    units = sum(call.units for call in calls)
    figure(f"a job with a payload of {PAYLOAD_BYTES} bytes: {units:g} write units, {len(calls)} table calls")
    for call in calls:
        figure(f"  {call}")
    assert 1 <= units <= MAX_WRITE_UNITS
    assert 1 <= len(calls) <= MAX_TABLE_CALLS
