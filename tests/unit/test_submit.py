"""Submitting, on the twin."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.memory import MemoryJobStore
from shared.domain.job import JOB_ID, RETENTION, job_id_for_key
from shared.domain.retry import DEFAULT_POLICY
from shared.domain.states import State
from shared.errors import InvalidRequest, KeyReused, PayloadTooLarge, StoreUnavailable, UnknownJobType
from shared.jobs import JobType, Payload
from shared.operations.submit import Accepted, JobRequest, submit
from shared.queues import QUEUES
from tests.builders import NOW


class Note(Payload):
    text: str
    reply_to: str = ""
    priority: int = 0


@dataclass
class Notes:
    """A catalogue of one type, on the lane the test chooses."""

    queue: str = "emails.bulk"

    def get(self, name: str) -> JobType | None:
        return self.all().get(name)

    def all(self) -> dict[str, JobType]:
        note = JobType(
            name="note",
            queue=QUEUES[self.queue],
            payload=Note,
            handler=lambda payload, run: None,
            version=3,
            upgrades={},
            policy=DEFAULT_POLICY,
            deadline=timedelta(seconds=20),
            lease=timedelta(seconds=30),
            max_age=timedelta(hours=24),
            requires_result=False,
        )
        return {"note": note}


@dataclass
class Door:
    store: MemoryJobStore = field(default_factory=MemoryJobStore)
    queue: str = "emails.bulk"
    entropy: int = 0

    def submit(self, text: str = "hello", **fields: Any) -> Accepted:
        self.entropy += 1
        payload = fields.pop("payload", {"text": text})
        return submit(
            JobRequest(**({"type": "note", "payload": payload} | fields)),
            catalogue=Notes(self.queue),  # type: ignore[arg-type]
            store=self.store,
            now=NOW,
            entropy=self.entropy.to_bytes(10, "big"),
        )

    def faults(self, **fields: Any) -> list[str]:
        with pytest.raises(InvalidRequest) as refused:
            self.submit(**fields)
        assert self.store.images == [], "nothing may be stored"
        return [fault.pointer for fault in refused.value.faults]


def test_an_accepted_job_is_in_the_table_with_its_outbox_open() -> None:
    door = Door()
    accepted = door.submit(tenant="acme-eu", tags={"run": "may"})
    job = door.store.get(accepted.job.job_id)
    assert job == accepted.job
    assert JOB_ID.fullmatch(job.job_id)
    assert (job.state, job.dispatch, job.outbox, job.max_attempts) == (State.QUEUED, 1, "open", 6)
    assert (job.payload, job.payload_version) == ('{"text":"hello","replyTo":"","priority":0}', 3)
    assert job.deadline_at == NOW + timedelta(hours=24)
    assert not accepted.replayed


def test_the_same_key_and_body_is_the_same_job_and_writes_nothing_again() -> None:
    door = Door()
    first, again = door.submit(idempotency_key="k1", tenant="a"), door.submit(idempotency_key="k1", tenant="a")
    assert first.job.job_id == again.job.job_id == job_id_for_key("a", "k1")
    assert (first.replayed, again.replayed) == (False, True)
    assert len(door.store.images) == 1


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING, State.COMPLETED, State.DEAD])
def test_a_key_reused_with_another_payload_is_refused_whatever_the_jobs_state(state: State) -> None:
    door = Door()
    first = door.submit(idempotency_key="k1").job
    door.store._jobs[first.job_id] = replace(first, state=state)
    with pytest.raises(KeyReused):
        door.submit(text="other", idempotency_key="k1")


def test_a_key_used_with_and_without_a_domain_row_is_refused_instead_of_writing_too_little() -> None:
    door = Door()
    door.submit(idempotency_key="k1")
    with pytest.raises(KeyReused):
        door.submit(idempotency_key="k1", beside="exports row")


def test_the_same_key_of_two_tenants_names_two_jobs() -> None:
    door = Door()
    ids = {door.submit(idempotency_key="k1", tenant=tenant).job.job_id for tenant in ("a", "b", None)}
    assert len(ids) == 3
    assert job_id_for_key("ab", "c") != job_id_for_key("a", "bc")


def test_fifty_submits_at_once_with_one_key_make_one_job() -> None:
    door = Door()
    with ThreadPoolExecutor(50) as pool:
        accepted = list(pool.map(lambda _: door.submit(idempotency_key="k"), range(50)))
    assert len({a.job.job_id for a in accepted}) == 1
    assert sum(not a.replayed for a in accepted) == 1
    assert len(door.store.images) == 1


def test_our_own_write_repeated_after_a_lost_answer_is_no_replay() -> None:
    door = Door()
    door.submit()
    door.entropy = 0
    assert not door.submit().replayed


def test_random_ids_sort_by_time_and_differ() -> None:
    door = Door()
    ids = [door.submit().job.job_id for _ in range(3)]
    assert ids == sorted(set(ids))


def test_a_payload_of_400_bytes_stands_beside_the_record_and_is_written_first() -> None:
    door = Door()
    small = door.submit(text="x" * 350).job
    assert small.payload is not None
    large = door.submit(text="x" * 400).job
    assert large.payload is None
    assert (
        door.store.get_payload(large.job_id, large.payload_ref) == f'{{"text":"{"x" * 400}","replyTo":"","priority":0}}'
    )


def test_a_refused_second_post_cannot_overwrite_the_accepted_body() -> None:
    door = Door()
    job = door.submit(text="a" * 500, idempotency_key="k").job
    with pytest.raises(KeyReused):
        door.submit(text="b" * 500, idempotency_key="k")
    assert "aaaa" in str(door.store.get_payload(job.job_id, job.payload_ref))


def test_the_same_body_is_the_same_job_after_a_deployment_that_added_a_field() -> None:
    class Older(Payload):
        text: str

    door = Door()
    older = replace(Notes().all()["note"], payload=Older)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Notes, "get", lambda self, name: older)
        first = door.submit(idempotency_key="k")
    assert door.submit(idempotency_key="k").replayed
    assert first.job.payload == '{"text":"hello"}'


@pytest.mark.parametrize(
    "other",
    [
        {"text": "b"},
        {"tenant": "t"},
        {"max_age": timedelta(hours=1)},
        {"tags": {"a": "c"}},
        {"tags": {"b": "b"}},
        {"delay": timedelta(seconds=9)},
        {"run_at": NOW},
    ],
)
def test_whatever_differs_in_the_request_makes_it_another_content(other: dict[str, Any]) -> None:
    door = Door()
    first = door.submit(**({"tags": {"a": "b"}} | {})).job
    second = door.submit(**({"tags": {"a": "b"}} | other)).job
    assert first.fingerprint != second.fingerprint


def test_the_ordering_key_is_part_of_the_content() -> None:
    door = Door(queue="webhooks.partner-a")
    assert door.submit(ordering_key="a").job.fingerprint != door.submit(ordering_key="b").job.fingerprint


def test_a_large_payload_outlives_the_longest_life_of_its_record() -> None:
    door, kept = Door(), []
    plain_put = door.store.put_payload

    def put(job_id: str, ref: bytes, payload: str, expires_at: Any) -> None:
        kept.append(expires_at)
        plain_put(job_id, ref, payload, expires_at)

    door.store.put_payload = put  # type: ignore[method-assign]
    job = door.submit(text="x" * 500).job
    assert kept[0] > job.deadline_at + timedelta(days=14) + RETENTION[State.DEAD], "dead of what SQS moved away late"


def test_a_refused_request_does_not_shorten_the_life_of_an_accepted_jobs_payload() -> None:
    """Promised for in 30 days, then asked for at once under the same key: the payload is one item."""
    door = Door()
    promised = door.submit(text="x" * 500, idempotency_key="k1", delay=timedelta(days=30)).job
    with pytest.raises(KeyReused):
        door.submit(text="x" * 500, idempotency_key="k1")
    door.store.expire_beside(promised.deadline_at + RETENTION[State.DEAD])
    assert promised.payload_ref is not None
    assert door.store.get_payload(promised.job_id, promised.payload_ref) is not None


def test_a_payload_above_256_kb_is_refused_with_the_way_out() -> None:
    with pytest.raises(PayloadTooLarge, match="pass a pointer"):
        Door().submit(text="x" * (256 * 1024))


def test_the_door_takes_the_names_of_the_contract_only() -> None:
    assert Door().submit(payload={"text": "x", "replyTo": "a"})
    assert Door().faults(payload={"text": "x", "reply_to": "a"}) == ["/payload/reply_to"]


def test_an_unknown_type_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownJobType, match="there are: note"):
        Door().submit(type="nope")


def test_every_fault_is_told_at_once_with_its_pointer() -> None:
    faults = Door().faults(
        payload={"txt": 1, "priority": "high"},
        tenant="a\x00b",
        tags={"": "x"},
        max_age=timedelta(seconds=1),
        ordering_key="k",
    )
    assert sorted(faults) == [
        "/maxAgeSeconds", "/orderingKey", "/payload/priority", "/payload/text", "/payload/txt", "/tags", "/tenantId",
    ]  # fmt: skip


@pytest.mark.parametrize("tenant", ["", "a b", "a\n", "../x", "-a", "é", "x" * 65])
def test_a_tenant_that_could_not_be_a_key_part_is_refused(tenant: str) -> None:
    assert Door().faults(tenant=tenant) == ["/tenantId"]


def test_a_delay_within_15_minutes_is_queued_at_once_for_later() -> None:
    job = Door().submit(delay=timedelta(minutes=15)).job
    assert (job.state, job.run_at, job.available_at) == (State.QUEUED, NOW + timedelta(minutes=15), job.run_at)
    assert job.deadline_at == job.run_at + timedelta(hours=24)


def test_a_time_in_the_past_runs_now() -> None:
    job = Door().submit(run_at=NOW - timedelta(days=1)).job
    assert job.available_at == NOW
    assert job.deadline_at == NOW + timedelta(hours=24)


def test_a_time_further_ahead_is_scheduled_without_a_doorbell_on_a_fifo_lane_any_time() -> None:
    for door, ahead in ((Door(), timedelta(minutes=16)), (Door(queue="webhooks.partner-a"), timedelta(seconds=1))):
        job = door.submit(run_at=NOW + ahead).job
        assert (job.state, job.dispatch, job.outbox, job.open_key) == (State.SCHEDULED, 0, None, None)
        assert (job.due_at, job.due_key is None) == (NOW + ahead, False)
        assert job.deadline_at == NOW + ahead + timedelta(hours=24)


def test_a_time_that_cannot_be_is_refused_by_its_own_name() -> None:
    assert Door().faults(run_at=NOW + timedelta(days=367)) == ["/runAt"]
    assert Door().faults(delay=timedelta(days=367)) == ["/delaySeconds"]
    assert Door().faults(delay=timedelta(seconds=-1)) == ["/delaySeconds"]
    assert Door().faults(delay=timedelta(seconds=1), run_at=NOW) == ["/delaySeconds"]


def test_an_ordering_key_belongs_to_fifo_lanes() -> None:
    assert Door(queue="webhooks.partner-a").submit(ordering_key="acct-1").job.ordering_key == "acct-1"
    assert Door(queue="webhooks.partner-a").faults(ordering_key="a b") == ["/orderingKey"]


def test_a_table_that_does_not_answer_is_said_and_never_a_202() -> None:
    door = Door()

    def down(*_: object) -> None:
        raise StoreUnavailable("throttled")

    door.store.submit = down  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        door.submit()
    assert door.store.images == []
