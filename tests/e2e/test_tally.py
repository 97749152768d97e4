"""What a tenant has open, as the stream's second consumer counts it in the running cloud."""

from __future__ import annotations

import time

from shared.adapters.counters import DynamoCounters
from shared.domain.quota import Standing
from shared.domain.states import State
from tests.e2e.cloud import Cloud


def test_what_a_tenant_has_open_is_counted_as_jobs_begin_and_end(cloud: Cloud) -> None:
    counters = DynamoCounters(cloud.dynamodb, f"{cloud.up.outputs['Prefix']}-controls")
    later = {"type": "note", "tenantId": "tallied", "payload": {"text": "x" * 600}, "delaySeconds": 3600}
    now = {"type": "note", "tenantId": "tallied", "payload": {"text": "hello"}}

    cloud.submit("/jobs", later)
    ended = cloud.wait(cloud.submit("/jobs", now))
    assert ended["status"] == State.COMPLETED

    size = len('{"text":"' + "x" * 600 + '"}')
    deadline = time.monotonic() + 30
    while (standing := counters.standing("tallied")) != Standing(1, size):
        assert time.monotonic() < deadline, standing
        time.sleep(0.2)
