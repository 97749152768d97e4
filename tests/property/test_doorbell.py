"""A message body is hostile until parsed."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from shared.domain.doorbell import Bell, parse
from tests.builders import NOW, a_job

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
FIELDS = ("jobId", "dispatch", "type", "payloadVersion", "deadLetter")


@given(st.text() | JSON.map(json.dumps) | st.fixed_dictionaries(dict.fromkeys(FIELDS, JSON)).map(json.dumps))
@example("[" * 100_000)
@example('{"jobId":"job_00000000000000000000000000","dispatch":true,"type":"x","payloadVersion":1}')
def test_a_body_that_no_relay_sent_is_no_doorbell_and_never_an_error(body: str) -> None:
    bell = parse(body)
    assert bell is None or (isinstance(bell.dispatch, int) and bell.job_id.startswith("job_"))


@given(st.integers(1, 2**31), st.text(), st.integers(1, 999), st.booleans())
def test_a_doorbell_is_read_as_it_was_sent(dispatch: int, type_: str, version: int, dead: bool) -> None:
    bell = Bell(job_id=a_job().job_id, dispatch=dispatch, type=type_, payload_version=version, dead_letter=dead)
    assert parse(bell.body()) == bell


def test_doorbells_are_the_same_for_sqs_only_when_they_are() -> None:
    bell = Bell(job_id=a_job().job_id, dispatch=1, type="t", payload_version=1)
    other = Bell(job_id=bell.job_id, dispatch=2, type="t", payload_version=1)
    dead = Bell(job_id=bell.job_id, dispatch=1, type="t", payload_version=1, dead_letter=True)
    ids = {b.deduplication_id(at) for b in (bell, other, dead) for at in (None, NOW)}
    assert len(ids) == 6
