"""Whatever is sent: an answer, never a 500, never an exception."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api import EXPORT_JOB, Answered, Client

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)
FIELDS = st.sampled_from(
    ["type", "payload", "tenantId", "runAt", "delaySeconds", "orderingKey", "maxAgeSeconds", "tags", "month", "other"]
)
TIMES = st.datetimes().map(lambda at: at.isoformat() + "Z")
BODIES = st.dictionaries(FIELDS, VALUES | TIMES | st.integers(0, 10**9)).map(lambda fields: EXPORT_JOB | fields)
PATHS = st.sampled_from(["/jobs", "/exports"])
FUZZ = settings(max_examples=150, deadline=None)


def answers_properly(answered: Answered) -> None:
    assert answered.status in (202, 400, 413, 415, 422)
    json.dumps(answered.headers)
    if answered.status != 202:
        assert answered.json["status"] == answered.status


@FUZZ
@given(PATHS, st.binary(max_size=200) | st.text(max_size=200))
def test_random_bytes_get_an_answer(path: str, body: object) -> None:
    answers_properly(Client().post(path, body))


@FUZZ
@given(PATHS, VALUES.map(json.dumps))
def test_random_json_gets_an_answer(path: str, body: str) -> None:
    answers_properly(Client().post(path, body))


@FUZZ
@given(PATHS, BODIES)
def test_almost_right_requests_get_an_answer(path: str, body: dict[str, Any]) -> None:
    answers_properly(Client().post(path, body))


@FUZZ
@given(
    st.sampled_from(["GET", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW"]),
    st.text().map(lambda text: "/" + text) | st.text().map(lambda text: f"/jobs/{text}"),
    st.dictionaries(
        st.sampled_from(["idempotency-key", "if-none-match", "content-type", "x-amzn-trace-id"]), st.text()
    ),
)
def test_random_paths_and_headers_get_an_answer(method: str, path: str, headers: dict[str, str]) -> None:
    assert Client().call(method, path, "{}", headers).status in (400, 404, 405, 415, 422)
