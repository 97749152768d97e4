"""Accepted is stored: one key is one job, and what is refused leaves nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from shared.adapters.dynamodb import DynamoJobStore
from shared.adapters.memory import MemoryJobStore
from shared.domain.job import JOB_ID, RETENTION, Job, job_id_for_key
from shared.domain.retry import DEFAULT_POLICY
from shared.domain.states import State
from shared.errors import InvalidRequest, KeyReused, PayloadTooLarge, StoreUnavailable, UnknownJobType
from shared.jobs import JobType, Payload
from shared.operations.submit import Accepted, JobRequest, submit
from shared.queues import QUEUES
from tests.api import EXPORT, EXPORT_JOB, Client
from tests.aws import create_jobs_table
from tests.builders import NOW, a_message
from tests.world import World


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


KEY = {"Idempotency-Key": "month-end"}


PATHS = [("/jobs", EXPORT_JOB), ("/exports", EXPORT)]


OTHER = {"/jobs": EXPORT_JOB | {"payload": EXPORT | {"month": "2026-04"}}, "/exports": EXPORT | {"month": "2026-04"}}


@dataclass
class Throttling:
    """A real client of a real table that answers some calls with a throttle, before or after it did them."""

    client: Any
    refuses: Any
    after: bool = False
    refused: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        def call(**arguments: Any) -> Any:
            if not self.refuses(name, arguments):
                return getattr(self.client, name)(**arguments)
            if self.after:
                getattr(self.client, name)(**arguments)
            self.refused.append(name)
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow down"}}, name)

        return call


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("dynamodb", region_name="eu-west-1")
        for table in ("jobs", "exports"):
            create_jobs_table(client, table)
        yield client


def items(dynamodb: Any) -> list[str]:
    found = [item for table in ("jobs", "exports") for item in dynamodb.scan(TableName=table)["Items"]]
    return sorted(item["sk"]["S"].partition("#")[0] for item in found)


def writes_a_record(name: str, arguments: dict[str, Any]) -> bool:
    return name == "transact_write_items" or (name == "put_item" and arguments["Item"]["sk"]["S"] == "JOB")


def accepted(text: str, **fields: Any) -> Job:
    request = JobRequest(type="note", payload={"text": text}, **fields)
    store = MemoryJobStore()
    return submit(request, catalogue=Notes(), store=store, now=NOW, entropy=bytes(10)).job  # type: ignore[arg-type]


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


@pytest.mark.parametrize("after", [False, True], ids=["nothing done", "done, answer lost"])
@pytest.mark.parametrize(("path", "body"), PATHS)
def test_a_job_throttled_at_the_door_is_a_503_and_its_repeat_is_the_one_job(
    dynamodb: Any, path: str, body: Any, after: bool
) -> None:
    """SCENARIOS 24. Row and job, or neither; and never a 404 or 409 for what was only busy."""
    table = Throttling(dynamodb, writes_a_record, after)
    client = Client(store=DynamoJobStore(table, "jobs", sleep=lambda _: None))
    busy = client.post(path, body, KEY)
    assert (busy.status, int(busy.headers["retry-after"]) >= 1) == (503, True)
    whole = ["EXPORT", "JOB"] if path == "/exports" else ["JOB"]
    assert items(dynamodb) == (whole if after else [])
    table.refuses = lambda *_: False
    again = client.post(path, body, KEY)
    assert again.status == 202
    assert items(dynamodb) == whole
    assert client.get(again.headers["location"]).status == 200


def test_a_throttle_between_a_large_payload_and_its_record_leaves_no_record_and_the_repeat_has_both(
    dynamodb: Any,
) -> None:
    """SCENARIOS 24. The payload is written first: alone it is an orphan that its time to live removes."""
    table = Throttling(dynamodb, writes_a_record)
    store = DynamoJobStore(table, "jobs")
    request = JobRequest(type="note", payload={"text": "x" * 500}, idempotency_key="k")
    said = {"catalogue": Notes(), "store": store, "now": NOW, "entropy": bytes(10)}
    with pytest.raises(StoreUnavailable, match="Throttling"):
        submit(request, **said)  # type: ignore[arg-type]
    assert items(dynamodb) == ["PAYLOAD"]
    assert "expires_at" in dynamodb.scan(TableName="jobs")["Items"][0]
    table.refuses = lambda *_: False
    job = submit(request, **said).job  # type: ignore[arg-type]
    assert items(dynamodb) == ["JOB", "PAYLOAD"]
    assert "xxx" in str(store.get_payload(job.job_id, job.payload_ref or b""))


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_the_same_post_with_the_same_key_after_twelve_minutes_is_the_same_job(
    dynamodb: Any, path: str, body: Any
) -> None:
    """SCENARIOS 25. A transaction's own token guards for ten; the record guards as long as it lives."""
    client = Client(store=DynamoJobStore(dynamodb, "jobs"))
    first = client.post(path, body, KEY)
    written = items(dynamodb)
    for wait in (timedelta(minutes=12), timedelta(days=13)):
        client.clock.forward(wait)
        again = client.post(path, body, KEY)
        assert (again.status, again.json["jobId"]) == (202, first.json["jobId"])
        assert again.headers["idempotent-replayed"] == "true"
    assert items(dynamodb) == written


@pytest.mark.parametrize("state", sorted(set(State)))
@pytest.mark.parametrize(("path", "body"), PATHS)
def test_a_key_with_another_payload_is_a_422_whatever_became_of_its_job(path: str, body: Any, state: State) -> None:
    """SCENARIOS 28."""
    client = Client()
    assert isinstance(client.store, MemoryJobStore)
    first = client.post(path, body, KEY)
    job = client.store._jobs[first.json["jobId"]]
    client.store._jobs[job.job_id] = moved = replace(job, state=state)
    written = len(client.store.images)
    refused = client.post(path, OTHER[path], KEY)
    assert (refused.status, refused.json["type"]) == (422, "urn:holdfast:problem:idempotency-key-reused")
    assert (client.store.get(job.job_id), len(client.store.images)) == (moved, written)
    assert client.post(path, body, KEY).json["jobId"] == job.job_id


def test_a_key_with_another_payload_is_a_422_while_its_job_runs_in_a_batch_which_goes_on() -> None:
    """SCENARIOS 28. The other body comes from within the batch, for its own key and for its neighbours'."""
    client, answers = Client(), []

    def other(number: int) -> int:
        body = EXPORT_JOB | {"payload": EXPORT | {"month": "2026-04"}}
        return client.post("/jobs", body, {"Idempotency-Key": f"k{number}"}).status

    assert isinstance(client.store, MemoryJobStore)
    world = World(handler=lambda payload, run: answers.extend(other(n) for n in range(4)), store=client.store)
    ids = [client.post("/jobs", EXPORT_JOB, {"Idempotency-Key": f"k{n}"}).json["jobId"] for n in range(4)]
    jobs = [client.store._jobs[job_id] for job_id in ids]
    assert world.run_batch(*[a_message(job) for job in jobs]) == []
    assert answers == [422] * 16
    assert {client.get(f"/jobs/{job_id}").json["status"] for job_id in ids} == {State.COMPLETED}


def test_a_stored_payload_is_named_by_sixteen_bytes_of_the_sha_256_of_its_text() -> None:
    """The same text under the same name, another under another: else a repeat would overwrite, or be lost."""
    first, same, other = accepted("x" * 500), accepted("x" * 500, tenant="t"), accepted("x" * 499 + "y")
    stored = f'{{"text":"{"x" * 500}","replyTo":"","priority":0}}'
    assert first.payload_ref == hashlib.sha256(stored.encode()).digest()[:16]
    assert first.payload_ref == same.payload_ref != other.payload_ref


def test_a_request_is_named_by_sixteen_bytes_that_equal_contents_share_and_no_others() -> None:
    fingerprints = [accepted(text, idempotency_key=key).fingerprint for text, key in (("a", "1"), ("a", "2"))]
    assert fingerprints[0] == fingerprints[1], "the key names the job, the fingerprint its content"
    assert {len(mark) for mark in fingerprints} == {16}
    assert len({accepted(f"body {n}").fingerprint for n in range(300)}) == 300
