"""Bad input over HTTP: each a precise problem document, and nothing stored."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from tests.e2e.cloud import JSON, Cloud


def export(**changes: Any) -> bytes:
    return json.dumps({"tenantId": "acme-eu", "month": "2026-05"} | changes).encode()


def note(text: str = "hello", **changes: Any) -> bytes:
    return json.dumps({"type": "note", "payload": {"text": text}} | changes).encode()


class Bad(NamedTuple):
    what: str
    path: str
    body: bytes
    status: int
    says: str
    """A pointer, or words of the detail, without which the answer would not tell the sender what to mend."""
    headers: dict[str, str] = JSON


BAD = [
    Bad("not JSON", "/exports", b"tenantId=acme-eu&month=2026-05", 400, "JSON"),
    Bad("cut off", "/exports", export()[:-5], 400, "JSON"),
    Bad("empty", "/exports", b"", 400, "JSON"),
    # (Bytes that are no UTF-8 do not arrive as such: the emulator mends them on the way. Unit tests have them.)
    Bad("another content type", "/exports", export(), 415, "application/json", {"Content-Type": "text/plain"}),
    Bad("2 MB", "/jobs", note("x" * 2_000_000), 413, "bytes"),
    Bad("a payload over 256 KB", "/jobs", note("x" * 270_000), 413, "262144"),
    Bad("nested 200 deep", "/jobs", b'{"type":"note","payload":' + b'{"a":' * 200 + b"1" + b"}" * 201, 400, "deep"),
    Bad("a recursion bomb", "/jobs", b"[" * 200_000, 400, "deep"),
    Bad("an unknown type", "/jobs", note(type="no-such-type"), 422, "no-such-type"),
    Bad("a missing field", "/exports", json.dumps({"tenantId": "acme-eu"}).encode(), 422, "/month"),
    Bad("an extra field", "/exports", export(colour="red"), 422, "/colour"),
    Bad("a missing payload field", "/jobs", note(payload={}), 422, "/payload/text"),
    Bad("an extra payload field", "/jobs", note(payload={"text": "a", "to": "b"}), 422, "/payload/to"),
    Bad("a tenant with control characters", "/exports", export(tenantId="acme\u0007"), 422, "/tenantId"),
    Bad("a tenant that climbs", "/exports", export(tenantId="../other"), 422, "/tenantId"),
    Bad("month 13", "/exports", export(month="2026-13"), 422, "/month"),
    Bad(
        "month 13 of a job",
        "/jobs",
        b'{"type":"invoice-export","payload":' + export(month="2026-13") + b"}",
        422,
        "/payload/month",
    ),
    Bad("a number beyond 2^53", "/jobs", note(payload={"text": "a", "n": 2**53 + 1}), 400, "/payload/n"),
    Bad("a NUL byte", "/exports", export(tenantId="acme\x00eu"), 400, "/tenantId"),
    Bad("an unprintable key", "/exports", export(), 400, "Idempotency-Key", JSON | {"Idempotency-Key": "a\tb"}),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.what.replace(" ", "-"))
def test_bad_input_is_refused_precisely_and_nothing_is_stored(cloud: Cloud, bad: Bad) -> None:
    before = cloud.stored_items()

    answer = cloud.ask("POST", bad.path, bad.body, bad.headers)

    assert answer.status == bad.status, answer.body
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json["status"] == bad.status
    assert bad.says in answer.body.decode()
    assert "Traceback" not in answer.body.decode()
    assert cloud.stored_items() <= before


def test_a_key_that_names_another_request_is_refused_and_changes_nothing(cloud: Cloud) -> None:
    key = {"Idempotency-Key": "one-note"}
    first = cloud.submit("/jobs", json.loads(note("first")), key)
    cloud.wait(first)
    before, record = cloud.stored_items(), cloud.record(first)

    answer = cloud.ask("POST", "/jobs", note("second"), key)

    assert answer.status == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert "Idempotency-Key" in answer.body.decode()
    assert cloud.stored_items() <= before
    assert cloud.record(first) == record
