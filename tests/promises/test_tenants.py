"""A tenant reaches its own, at the door and in the worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lambdas.api.identity import Identity
from shared.adapters.memory import MemoryJobStore
from shared.adapters.memory_files import MemoryFiles
from shared.domain.job import Job, job_id_for_key
from shared.domain.run import Run, StoredFile
from shared.domain.states import State
from shared.errors import DeclarationError, NotAllowed
from shared.jobs import Catalogue, JobType, Payload, TenantId, job_type
from shared.operations.submit import JobRequest, submit
from shared.queues import QUEUES, WORK
from tests.api import EXPORT, Client
from tests.builders import NOW, a_job, a_message
from tests.world import World

CATALOGUE = Catalogue().all()


OF_A_TENANT = [name for name, found in CATALOGUE.items() if found.tenant_field is not None]


OPEN = {"deliver-webhook", "invoice-export", "thumbnail"}


ACME, OTHER = {"org": "acme-eu"}, {"org": "other"}


PAYLOADS: dict[str, dict[str, Any]] = {
    "deliver-webhook": {"url": "https://x.example.com/", "body": {}, "secretName": "partner-a"},
    "invoice-export": EXPORT,
    "send-bulk-email": {"to": ["a@x.org"], "subject": "s", "text": "t", "fromAddress": "jobs@example.com"},
    "send-email": {"to": ["a@x.org"], "subject": "s", "text": "t", "fromAddress": "jobs@example.com"},
    "thumbnail": {"tenantId": "acme-eu", "sourceKey": "uploads/acme-eu/a.png", "width": 16, "height": 16},
}
"""One that acme-eu may submit, for every type; a new type is added here, or the first test says so."""


@pytest.fixture
def client() -> Client:
    return Client(identity=Identity("jwt", "org"))


def stored(client: Client) -> list[Any]:
    assert isinstance(client.store, MemoryJobStore)
    return [*client.store.images, *client.store._payloads, *client.store.rows]


def without_tenant(name: str) -> dict[str, Any]:
    return {field: value for field, value in PAYLOADS[name].items() if field != CATALOGUE[name].tenant_field}


# Files


def handled(
    act: Callable[[Run], Any], *, lane: str = "exports.month-end", tenant: str | None = "acme-eu", **more: Any
) -> Job:
    """How a job ended whose handler did this with its run."""

    class Nothing(Payload):
        """No tenant field: the job's own tenant is all there is."""

    def handler(payload: Nothing, run: Run) -> StoredFile | None:
        found = act(run)
        return found if isinstance(found, StoredFile) else None

    declared = job_type("any", queue=lane, **more)(handler_of(Nothing, handler)).job_type  # type: ignore[attr-defined]
    return run_job(declared, {}, tenant)


def handler_of(payload: type[Payload], handler: Any) -> Any:
    handler.__annotations__ = {"payload": payload, "run": Run, "return": None}
    return handler


def run_job(declared: JobType, payload: dict[str, Any], tenant: str | None) -> Job:
    files = MemoryFiles()
    for key in ("invoices/acme-eu/a", "invoices/other/a", "invoices/all/a", "exports/acme-eu/a", "uploads/acme-eu/a"):
        files.write(key, key.encode(), "text/plain")

    class One:
        def get(self, name: str) -> JobType:
            return declared

    world = World(queue=declared.queue.name, catalogue=One())
    job = a_job(type=declared.name, queue=declared.queue.name, payload=json.dumps(payload), tenant=tenant)
    message = world.submitted(job)
    world.deliver(message, files=files)
    return world.found(a_message(job))


def streamed(run: Run, key: str) -> None:
    with run.files.reading(key) as arriving:
        list(arriving)


def written_as_made(run: Run, key: str) -> None:
    with run.files.writing(key, "text/plain") as sink:
        sink.write(b"")


def written_whole(run: Run, key: str) -> None:
    run.files.write(key, b"", "text/plain")


READS = {
    "another tenant's": "invoices/other/a",
    "every tenant's": "invoices/a",
    "a tenant's whose name begins alike": "invoices/acme-eux/a",
    "a path that climbs": "invoices/acme-eu/../other/a",
    "another job's work": "work/job_01K00000000000000000000000/part",
    "what the lane only writes": "exports/acme-eu/a",
    "another lane's": "uploads/acme-eu/a",
    "no prefix": "acme-eu/a",
    "the bucket": "",
}


# Declarations


class Forgetful(Payload):
    tenant_id: str


class Twice(Payload):
    tenant_id: TenantId
    for_whom: TenantId


class Optional(Payload):
    tenant_id: TenantId = "acme-eu"


class Named(Payload):
    """The field need not be called so."""

    customer: TenantId


def test_the_tests_below_walk_the_whole_catalogue() -> None:
    assert set(PAYLOADS) == set(CATALOGUE)
    assert {"invoice-export", "thumbnail"} <= set(OF_A_TENANT)


# Who may submit


def test_only_what_opts_in_is_open_to_tenants() -> None:
    assert {name for name, found in CATALOGUE.items() if found.open_to_tenants} == OPEN


@pytest.mark.parametrize("name", sorted(set(PAYLOADS) - OPEN))
def test_a_tenant_cannot_submit_what_is_not_open_to_tenants(client: Client, name: str) -> None:
    answered = client.post("/jobs", {"type": name, "payload": PAYLOADS[name]}, claims=ACME)
    assert (answered.status, answered.pointers) == (403, ["/type"])
    assert answered.headers["content-type"] == "application/problem+json"
    assert stored(client) == []


@pytest.mark.parametrize("name", sorted(PAYLOADS))
@pytest.mark.parametrize("auth", ["iam", "none"])
def test_a_trusted_caller_submits_every_type_for_any_tenant(name: str, auth: str) -> None:
    answered = Client(identity=Identity(auth, "-")).post(
        "/jobs", {"type": name, "payload": PAYLOADS[name], "tenantId": "acme-eu"}
    )
    assert answered.status == 202, answered.text


def test_an_unknown_type_tells_a_tenant_of_the_open_ones_only(client: Client) -> None:
    answered = client.post("/jobs", {"type": "nope", "payload": {}}, claims=ACME)
    assert (answered.status, "invoice-export" in answered.text, "send-email" in answered.text) == (422, True, False)


# What a payload says of its tenant


@pytest.mark.parametrize("name", OF_A_TENANT)
def test_the_door_fills_in_the_tokens_tenant_where_the_payload_leaves_it_out(client: Client, name: str) -> None:
    key = {"Idempotency-Key": "k"}
    answered = client.post("/jobs", {"type": name, "payload": without_tenant(name)}, key, claims=ACME)
    again = client.post("/jobs", {"type": name, "payload": PAYLOADS[name]}, key, claims=ACME)
    job = client.store.get(answered.json["jobId"])
    assert job is not None
    assert (job.tenant, json.loads(job.payload or "")["tenantId"]) == ("acme-eu", "acme-eu")
    assert (again.status, again.json["jobId"]) == (202, job.job_id), "said or left out, it is the same request"


@pytest.mark.parametrize("name", OF_A_TENANT)
@pytest.mark.parametrize("claimed", ["acme-eu", "ACME-EU", "other ", "", None, 7, ["other"]])
def test_a_payload_that_names_another_tenant_is_a_403_and_nothing_is_stored(
    client: Client, name: str, claimed: Any
) -> None:
    field = CATALOGUE[name].tenant_field
    body = {"type": name, "payload": PAYLOADS[name] | {field: claimed}}
    answered = client.post("/jobs", body, {"Idempotency-Key": "k"}, claims=OTHER)
    assert (answered.status, answered.pointers) == (403, [f"/payload/{field}"])
    assert answered.json["type"] == "urn:holdfast:problem:forbidden"
    assert stored(client) == []


@pytest.mark.parametrize("name", OF_A_TENANT)
def test_a_payload_under_its_fields_other_name_is_no_way_around_the_token(client: Client, name: str) -> None:
    answered = client.post("/jobs", {"type": name, "payload": PAYLOADS[name] | {"tenant_id": "acme-eu"}}, claims=OTHER)
    assert answered.status in (403, 422)
    assert stored(client) == []


@pytest.mark.parametrize("name", OF_A_TENANT)
def test_a_trusted_request_that_names_two_tenants_is_refused(name: str) -> None:
    client = Client()
    answered = client.post("/jobs", {"type": name, "payload": PAYLOADS[name], "tenantId": "other"})
    assert (answered.status, answered.pointers) == (403, ["/payload/tenantId"])
    assert stored(client) == []


@pytest.mark.parametrize("name", OF_A_TENANT)
def test_a_trusted_callers_job_is_its_payloads_tenants_who_can_see_it(client: Client, name: str) -> None:
    trusted = Client(store=client.store)
    url = trusted.post("/jobs", {"type": name, "payload": PAYLOADS[name]}).json["statusUrl"]
    assert [client.get(url, claims=claims).status for claims in (ACME, OTHER)] == [200, 404]


@pytest.mark.parametrize("name", OF_A_TENANT)
@pytest.mark.parametrize("tenant", ["other", None])
def test_the_worker_asserts_the_tenant_before_any_handler_begins(name: str, tenant: str | None) -> None:
    """The door is not the only way to a record: another service's transaction, an operator's edit, an older door."""
    ran: list[str | None] = []

    def handler(payload: Any, run: Run) -> None:
        ran.append(run.tenant)

    ended = run_job(replace(CATALOGUE[name], handler=handler, requires_result=False), PAYLOADS[name], tenant)
    if tenant is None:
        assert (ended.state, ran) == (State.COMPLETED, ["acme-eu"])
    else:
        assert (ended.state, ended.error_class, ended.error_code) == (State.DEAD, "deterministic", "tenant-mismatch")
        assert ran == []


def test_a_job_reaches_its_own_tenants_files_and_its_own_work() -> None:
    def act(run: Run) -> StoredFile:
        assert run.files.read("invoices/acme-eu/a") == b"invoices/acme-eu/a"
        run.files.write(f"work/{run.job_id}/part", b"x", "text/plain")
        assert run.files.read(f"work/{run.job_id}/part") == b"x"
        return run.files.write("exports/acme-eu/out", b"x", "text/plain")

    ended = handled(act)
    assert (ended.state, ended.result["file"]["key"]) == (State.COMPLETED, "exports/acme-eu/out")


@pytest.mark.parametrize("read", [lambda run, key: run.files.read(key), streamed], ids=["whole", "streamed"])
@pytest.mark.parametrize("key", READS.values(), ids=READS)
def test_a_job_reads_nothing_else(key: str, read: Callable[[Run, str], Any]) -> None:
    ended = handled(lambda run: read(run, key))
    assert (ended.state, ended.error_code) == (State.DEAD, "file-out-of-reach")


@pytest.mark.parametrize("write", [written_whole, written_as_made])
@pytest.mark.parametrize(
    "key", ["exports/other/a", "invoices/acme-eu/a", "exports/a", "work/other/x", "exports/acme-eu//a"]
)
def test_a_job_writes_nothing_else(key: str, write: Callable[[Run, str], None]) -> None:
    ended = handled(lambda run: write(run, key))
    assert (ended.state, ended.error_code) == (State.DEAD, "file-out-of-reach")


def test_a_result_of_another_tenants_is_not_handed_out_by_a_link() -> None:
    ended = handled(lambda run: StoredFile("exports/other/a", 1, "text/plain"))
    assert (ended.state, ended.error_code, ended.result) == (State.DEAD, "file-out-of-reach", None)


@pytest.mark.parametrize("lane", [name for name, lane in QUEUES.items() if not lane.reads + lane.writes])
def test_a_lane_without_files_reaches_none(lane: str) -> None:
    for act in (lambda run: run.files.read("invoices/acme-eu/a"), lambda run: run.files.write("a/b", b"", "x/y")):
        assert handled(act, lane=lane).error_code == "file-out-of-reach"


def test_a_job_without_a_tenant_has_no_tenants_files() -> None:
    for key in ("invoices/acme-eu/a", "invoices/None/a", "invoices//a", "invoices/a"):
        assert handled(lambda run, key=key: run.files.read(key), tenant=None).error_code == "file-out-of-reach"


def test_a_type_reaches_more_only_where_it_says_so_by_name() -> None:
    def act(run: Run) -> None:
        run.files.read("invoices/all/a")

    assert handled(act).error_code == "file-out-of-reach"
    assert handled(act, shared_files=("invoices/all/",)).state is State.COMPLETED
    assert handled(act, shared_files=("invoices/all/",), tenant=None).state is State.COMPLETED
    with_more = handled(lambda run: run.files.write("invoices/all/a", b"", "x/y"), shared_files=("invoices/all/",))
    assert with_more.error_code == "file-out-of-reach", "what its lane may only read"


def test_every_prefix_of_a_lane_is_one_place() -> None:
    for lane in QUEUES.values():
        assert WORK not in lane.reads or WORK in lane.writes, "work that is read has been written"


@pytest.mark.parametrize(
    ("payload", "more", "why"),
    [
        (Forgetful, {}, "'tenant_id' names a tenant; declare it as TenantId"),
        (Twice, {}, "tenant_id and for_whom are both TenantId"),
        (Optional, {}, "'tenant_id' has a default"),
        (Named, {"shared_files": ("uploads/",)}, "may not reach 'uploads/'"),
        (Named, {"shared_files": ("invoices/all",)}, "may not reach 'invoices/all'"),
        (Named, {"shared_files": ("",)}, "may not reach ''"),
    ],
)
def test_a_type_that_would_leave_a_tenant_unchecked_is_refused_by_name(payload: Any, more: Any, why: str) -> None:
    with pytest.raises(DeclarationError, match=f"job type 'any': .*{why}"):
        job_type("any", queue="exports.month-end", **more)(handler_of(payload, lambda payload, run: None))


def test_the_tenant_field_may_have_any_name() -> None:
    handler = handler_of(Named, lambda payload, run: None)
    declared = job_type("any", queue="exports.month-end")(handler).job_type  # type: ignore[attr-defined]
    assert (declared.tenant_field, declared.filled({}, "a")) == ("customer", {"customer": "a"})
    with pytest.raises(NotAllowed):
        declared.filled({"customer": "b"}, "a")


def test_a_service_that_submits_by_itself_is_held_to_the_same() -> None:
    request = JobRequest(type="invoice-export", payload=EXPORT, tenant="other")
    store = MemoryJobStore()
    with pytest.raises(NotAllowed):
        submit(request, catalogue=Catalogue(), store=store, now=NOW, entropy=bytes(10))
    assert store.images == []


def test_a_key_of_a_trusted_caller_names_the_job_it_named_before_payloads_said_their_tenant() -> None:
    """Its id comes from what the caller said; were it from the payload's tenant, a repeat would be a second job."""
    answered = Client().post("/jobs", {"type": "invoice-export", "payload": EXPORT}, {"Idempotency-Key": "k"})
    assert answered.json["jobId"] == job_id_for_key(None, "k")
