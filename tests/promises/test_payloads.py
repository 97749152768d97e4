"""A handler gets its payload whole, in its own version, or does not run."""

from __future__ import annotations

from shared.domain.outcome import Alert, Outcome
from shared.domain.states import State
from shared.errors import (
    StoreUnavailable,
)
from shared.jobs import JobType
from tests.builders import NOW, a_job
from tests.world import OneType, World, refuse_to_run


def test_a_payload_nobody_can_parse_is_dead_and_its_neighbours_complete() -> None:
    world = World()
    bad, good = world.submitted(a_job(payload='{"tenantId":7}')), world.submitted(a_job())
    assert world.run_batch(bad, good) == []
    assert (world.found(bad).state, world.found(good).state) == (State.DEAD, State.COMPLETED)
    assert world.found(bad).error_code == "payload-invalid"
    assert "/payload/tenantId" in str(world.found(bad).error_message)


def test_a_stored_payload_is_fetched_and_one_that_is_gone_is_dead_as_payload_missing() -> None:
    seen = []
    world = World(handler=lambda payload, run: seen.append(payload.month))
    kept, gone = a_job(payload=None, payload_ref=b"k" * 16), a_job(payload=None, payload_ref=b"g" * 16)
    world.store.put_payload(kept.job_id, b"k" * 16, '{"tenantId":"a","month":"2026-04"}', NOW)
    assert world.deliver(world.submitted(kept)) is Outcome.COMPLETED
    assert seen == ["2026-04"]
    message = world.submitted(gone)
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_code == "payload-missing"


def test_a_type_this_worker_does_not_know_is_deferred_not_dead() -> None:
    world = World()
    message = world.submitted(a_job(type="unheard-of"))
    assert world.run_batch(message) == [message.message_id]
    job = world.found(message)
    assert (job.state, job.run, job.attempts, job.dispatch) == (State.RETRYING, 0, 0, 1)
    assert "unheard-of" in str(job.reason)


def test_a_payload_version_newer_than_this_worker_is_deferred_and_an_older_one_dead_with_the_reason() -> None:
    world = World(handler=refuse_to_run, version=2)
    newer, older = world.submitted(a_job(payload_version=3)), world.submitted(a_job(payload_version=1))
    assert (world.deliver(newer), world.deliver(older)) == (Outcome.DEFERRED, Outcome.DEAD)
    assert world.found(newer).attempts == 0
    assert world.found(older).error_code == "payload-version-unsupported"


def test_a_job_type_file_that_does_not_import_defers_its_jobs_and_spares_the_others() -> None:
    world = World()

    class Broken(OneType):
        def get(self, name: str) -> JobType | None:
            if name == "broken":
                raise ImportError("no module named stripe")
            return super().get(name)

    world.catalogue = Broken(world.handler)
    bad, good = world.submitted(a_job(type="broken")), world.submitted(a_job())
    assert world.run_batch(bad, good) == [bad.message_id]
    assert world.found(good).state is State.COMPLETED
    assert world.found(bad).reason == "job type 'broken' cannot be loaded (ImportError)", "the log has its words"
    assert world.meter.alerts == [(Alert.TYPE_NOT_LOADED, bad.job_id)], "a person hears of it at once"


def test_a_table_that_does_not_give_the_payload_spends_no_attempt() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_job(payload=None, payload_ref=b"k" * 16))

    def down(*_: object) -> str:
        raise StoreUnavailable("throttled")

    world.store.get_payload = down  # type: ignore[method-assign]
    assert world.deliver(message) is Outcome.DEFERRED
    assert (world.found(message).state, world.found(message).attempts) == (State.RETRYING, 0)


def test_an_older_payload_is_upgraded_step_by_step_and_a_version_without_a_way_is_dead_by_name() -> None:
    seen = []
    steps = {
        2: lambda p: {"tenantId": p["tenant"], "month": p["month"]},
        1: lambda p: {"tenant": p["t"], "month": p["m"]},
    }
    world = World(
        handler=lambda payload, run: seen.append((payload.tenant_id, payload.month)), version=3, upgrades=steps
    )
    for version, text in ((1, '{"t":"a","m":"2026-01"}'), (2, '{"tenant":"b","month":"2026-02"}')):
        assert world.deliver(world.submitted(a_job(payload_version=version, payload=text))) is Outcome.COMPLETED
    assert seen == [("a", "2026-01"), ("b", "2026-02")]
    world.upgrades = {2: steps[2]}
    message = world.submitted(a_job(payload_version=1, payload='{"t":"a","m":"2026-01"}'))
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_code == "payload-version-unsupported"


def test_an_upgrade_that_fails_or_makes_no_valid_payload_is_dead_and_nothing_runs() -> None:
    for upgrade in (lambda p: p["missing"], lambda p: {"tenantId": 7}):
        world = World(handler=refuse_to_run, version=2, upgrades={1: upgrade})
        message = world.submitted(a_job(payload_version=1, payload="{}"))
        assert world.deliver(message) is Outcome.DEAD
        assert world.found(message).error_class == "deterministic"
