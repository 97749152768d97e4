"""Every path a job can take, as a history: what its handler does, and what happens to it on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from shared.domain.job import MAX_EFFECTS, RETENTION, Job
from shared.domain.outcome import Alert
from shared.domain.retry import DEFAULT_POLICY, FailureClass
from shared.domain.run import Cancel, Continue, Defer
from shared.domain.states import (
    ERASE_EFFECT,
    FINISH_EFFECT,
    LEASE,
    START_EFFECT,
    START_EFFECT_AT_MOST_ONCE,
    State,
)
from shared.domain.writes import Terms, Write, reclaim
from shared.errors import DeterministicFailure, KeyReused, MoveRefused, NotDone, StoreUnavailable, TransientFailure
from shared.jobs import JobType
from shared.operations.redrive import cancel, replay
from shared.operations.relay import OutboxRecord
from shared.operations.submit import Accepted, JobRequest, submit, transact_items
from shared.ports import Row
from shared.queues import QUEUES
from tests.builders import NOW
from tests.world import Order

if TYPE_CHECKING:
    from tests.chaos.cloud import Cloud

Handler = Callable[["Cloud", Any], Any]
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
LANE, FIFO = "exports.month-end", "webhooks.partner-a"
ASKED = ("ada", "wrong month")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One path.

    ends       states its jobs may come to
    dead_as    classes that may stand in a dead one, `stalled` after two crashes in a row apart
    meanwhile  called before each invocation: what happens to the world besides
    loses      whether the stream loses this image's record
    store      the table as the worker reaches it
    done       what else must have happened before the history ends
    within     how long it may take to its end, whatever is killed on the way
    loads      whether the type's file imports in a worker
    tells      what a person must have heard of by then
    moved      the lane for which a worker of this lane knows the job type; clients know it on `queue`
    """

    handler: Handler
    ends: frozenset[State] = frozenset({State.COMPLETED})
    dead_as: frozenset[FailureClass] = frozenset()
    begin: Callable[[Cloud], None] = lambda cloud: post(cloud)
    meanwhile: Callable[[Cloud], None] = lambda cloud: None
    loses: Callable[[Cloud, Job], bool] = lambda cloud, job: False
    store: Callable[[Cloud], Any] = lambda cloud: cloud.store
    done: Callable[[Cloud], bool] = lambda cloud: True
    within: timedelta | None = None
    time_left: Callable[[Cloud], Callable[[], timedelta]] = lambda cloud: lambda: timedelta(minutes=14)
    known: Callable[[Cloud], bool] = lambda cloud: True
    loads: bool = True
    tells: frozenset[Alert] = frozenset()
    queue: str = LANE
    moved: Callable[[Cloud, str], str] = lambda cloud, lane: cloud.kind.queue
    deadline: timedelta = 20 * SECOND
    receives: int = 0
    promoter_runs: bool = True
    first_ring_refused: bool = False

    def catalogue(self, cloud: Cloud, lane: str) -> Any:
        """The job types a worker of this lane knows now."""
        return _Catalogue(cloud, self.known(cloud), self.loads, self.moved(cloud, lane))


@dataclass(frozen=True)
class _Catalogue:
    cloud: Cloud
    knows: bool
    loads: bool = True
    lane: str = ""

    def get(self, name: str) -> JobType | None:
        if not self.loads:
            raise ImportError("a file that does not import")
        if name != "invoice-export" or not self.knows:
            return None
        return JobType(
            name=name,
            queue=QUEUES[self.lane or self.cloud.kind.queue],
            payload=Order,
            handler=self.cloud.world.handler,
            version=1,
            upgrades={},
            requires_result=False,
            policy=replace(DEFAULT_POLICY, spread=timedelta()),
            deadline=self.cloud.kind.deadline,
            lease=30 * SECOND,
            max_age=timedelta(hours=24),
        )


# ---- clients ---------------------------------------------------------------------------------------------------------


def request(key: str = "k1", month: str = "2026-05", **more: Any) -> JobRequest:
    payload = {"tenantId": "acme-eu", "month": month}
    return JobRequest(type="invoice-export", payload=payload, tenant="acme-eu", idempotency_key=key, **more)


LARGE = "x" * 500
Rows = Callable[[Job], list[Row]]


def post(cloud: Cloud, asked: JobRequest | None = None, rows: Rows | None = None) -> None:
    """POST it, again and again under the same key, until it is accepted."""
    accepted = cloud.until_answered(lambda p: _submits(cloud, p, asked or request(), rows))
    cloud.accepted.append(accepted.job.job_id)


def _submits(cloud: Cloud, process: Any, asked: JobRequest, rows: Rows | None = None) -> Accepted:
    return submit(
        asked,
        catalogue=_Catalogue(cloud, True),  # type: ignore[arg-type]
        store=process.port("store", cloud.store),
        now=cloud.clock.now(),
        entropy=bytes(10),
        rows=rows,
    )


def promised_then_asked_for_at_once(cloud: Cloud) -> None:
    """For in 30 days; then under the same key for now, which is another content and refused."""

    def refused(process: Any) -> str:
        with pytest.raises(KeyReused) as answer:
            _submits(cloud, process, request(month=LARGE))
        return str(answer.value)

    post(cloud, request(month=LARGE, delay=timedelta(days=30)))
    cloud.until_answered(refused)


def post_with_row(cloud: Cloud) -> None:
    """As POST /exports does: the row and the job in one transaction."""
    post(cloud, rows=lambda job: [Row("exports", {"pk": job.job_id, "sk": "EXPORT"})])
    assert len(cloud.store.rows) == 1, "one row, whatever died"


class TwinTransactions:
    """A store whose submit can be an element of the caller's own transaction, and that transaction."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cloud.store, name)

    def submit_write(self, job: Job, now: Any) -> dict[str, Any]:
        return {"Put": (job, now)}


def post_in_own_transaction(cloud: Cloud) -> None:
    """Another service's own TransactWriteItems, with our write in it."""

    def act(process: Any) -> Job:
        store = process.port("store", TwinTransactions(cloud))
        job, items = transact_items(
            request(month=LARGE),
            catalogue=_Catalogue(cloud, True),  # type: ignore[arg-type]
            store=store,
            now=cloud.clock.now(),
            entropy=bytes(10),
        )
        (written, now) = items[0]["Put"]
        if cloud.store.get(job.job_id) is None:
            store.submit_with(written, [Row("orders", {"pk": "o1", "sk": "ORDER"})], now)
        return job

    cloud.accepted.append(cloud.until_answered(act).job_id)
    assert len(cloud.store.rows) == 1, "both or neither, once"


# ---- handlers --------------------------------------------------------------------------------------------------------


def works(cloud: Cloud, run: Any) -> None:
    return None


def one_effect(cloud: Cloud, run: Any) -> None:
    run.once("charge", cloud.provider.do("charge", run))


def two_effects(cloud: Cloud, run: Any) -> None:
    run.once("charge", cloud.provider.do("charge", run))
    run.once("mail", cloud.provider.do("mail", run))


def at_most_once(cloud: Cloud, run: Any) -> None:
    run.once("notify-bank", cloud.provider.do("notify-bank", run), at_most_once=True)


def refused_at_first(cloud: Cloud, run: Any) -> None:
    """The provider does not do it, and says so."""

    def do() -> str:
        if cloud.first("refused by the bank"):
            raise NotDone(TransientFailure("closed"))
        return cloud.provider.do("notify-bank", run)()

    run.once("notify-bank", do, at_most_once=True)


def too_many_effects(cloud: Cloud, run: Any) -> None:
    for n in range(MAX_EFFECTS + 1):
        run.once(f"effect {n}", cloud.provider.do(f"effect {n}", run))


def effect_raises(cloud: Cloud, run: Any) -> None:
    """The provider does it, and the answer does not come: the row is erased, the effect tried again."""

    def do() -> str:
        ref = cloud.provider.do("charge", run)()
        if cloud.first("timed out"):
            raise TransientFailure("timed out")
        return ref

    run.once("charge", do)


def short_retry(cloud: Cloud, run: Any) -> None:
    one_effect(cloud, run)
    if run.attempt == 1:
        raise TransientFailure("busy")


def long_retry(cloud: Cloud, run: Any) -> None:
    one_effect(cloud, run)
    if run.attempt == 1:
        raise TransientFailure("busy", retry_after=600)


def long_retry_of_the_first(cloud: Cloud, run: Any) -> None:
    one_effect(cloud, run)
    if run.job_id == cloud.accepted[0] and run.attempt == 1:
        raise TransientFailure("busy", retry_after=600)


def defers(cloud: Cloud, run: Any) -> Defer | None:
    if cloud.first("long look"):
        return Defer(timedelta(seconds=300))
    return Defer(20 * SECOND) if cloud.first("short look") else None


def says_not_now(cloud: Cloud, run: Any) -> Defer | None:
    return Defer(timedelta()) if cloud.clock.now() < NOW + 10 * SECOND else None


def head_waits_for_hours(cloud: Cloud, run: Any) -> None:
    one_effect(cloud, run)
    if run.job_id == cloud.accepted[0]:
        raise TransientFailure("busy", retry_after=6 * 3600)


def continues(cloud: Cloud, run: Any) -> Continue | None:
    page = (run.checkpoint or {"page": 0})["page"] + 1
    run.once(f"page {page}", cloud.provider.do(f"page {page}", run))
    return None if page == 3 else Continue({"page": page})


def cancels(cloud: Cloud, run: Any) -> Cancel:
    return Cancel("paid meanwhile")


def dies(cloud: Cloud, run: Any) -> None:
    one_effect(cloud, run)
    raise DeterministicFailure("row 7", code="row-invalid")


def dies_once(cloud: Cloud, run: Any) -> None:
    one_effect(cloud, run)
    if cloud.first("died"):
        raise DeterministicFailure("row 7", code="row-invalid")


def dies_four_times(cloud: Cloud, run: Any) -> None:
    one_effect(cloud, run)
    if any(cloud.first(f"death {n}") for n in range(4)):
        raise DeterministicFailure("row 7", code="row-invalid")


def worker_dies_once(cloud: Cloud, run: Any) -> None:
    one_effect(cloud, run)
    if cloud.first("worker died"):
        cloud.worker_dies()


def worker_dies_and_message_is_lost(cloud: Cloud, run: Any) -> None:
    one_effect(cloud, run)
    if cloud.first("worker died"):
        cloud.purge()
        cloud.worker_dies()


def worker_always_dies_and_message_is_lost(cloud: Cloud, run: Any) -> None:
    cloud.purge()
    cloud.worker_dies()


def lost_until_too_late(cloud: Cloud, run: Any) -> None:
    """Nobody hears of it again but the sweeper, a day later."""
    cloud.purge()
    cloud.clock.forward(timedelta(hours=25))
    cloud.worker_dies()


def poison(cloud: Cloud, run: Any) -> None:
    cloud.worker_dies()


def reports(cloud: Cloud, run: Any) -> None:
    """Renews its lease, once."""
    one_effect(cloud, run)
    cloud.clock.forward(15 * SECOND)
    run.progress(1, 2, "pages")


def asked_to_stop_then_reports(cloud: Cloud, run: Any) -> None:
    operator_cancels(cloud)
    reports(cloud, run)


def asked_to_stop_then_fails(cloud: Cloud, run: Any) -> None:
    operator_cancels(cloud)
    raise TransientFailure("busy")


def asked_to_stop_then_worker_dies(cloud: Cloud, run: Any) -> None:
    operator_cancels(cloud)
    cloud.worker_dies()


def asked_to_stop_then_lost(cloud: Cloud, run: Any) -> None:
    operator_cancels(cloud)
    cloud.purge()
    cloud.worker_dies()


def delivered_a_second_time(cloud: Cloud, run: Any) -> None:
    """At-least-once: another worker gets the message that this one holds."""
    one_effect(cloud, run)
    if cloud.first("second delivery") and cloud.queue:
        cloud.deliver(cloud.queue[:1])


def hangs(cloud: Cloud, run: Any) -> None:
    one_effect(cloud, run)
    if cloud.first("hung"):
        cloud.clock.forward(25 * SECOND)
        cloud.over.wait(30)


def moved_away_then_worker_dies(cloud: Cloud, run: Any) -> None:
    if cloud.first("moved away"):
        cloud.move_to_dlq()
        cloud.worker_dies()


def first_of_key_retries(cloud: Cloud, run: Any) -> None:
    one_effect(cloud, run)
    if cloud.first("failed"):
        raise TransientFailure("busy")


# ---- what happens besides --------------------------------------------------------------------------------------------


def operator_cancels(cloud: Cloud) -> None:
    """Until it is done or refused: then it had ended, or his first try did it."""
    if cloud.first("cancel asked"):
        job_id = cloud.accepted[0]
        cloud.until_answered(lambda p: _or_refused(lambda: cancel(job_id, *ASKED, cloud.operator_ports(p))))


def operator_cancels_the_waiting_head(cloud: Cloud) -> None:
    head = cloud.store.get(cloud.accepted[0])
    if head is not None and head.state is State.RETRYING:
        operator_cancels(cloud)


def operator_replays(cloud: Cloud) -> None:
    """Once it is dead and its copy lies in the DLQ, which so becomes stale."""
    if cloud.dlq and "replayed" not in cloud.happened:
        cloud.happened.add("replayed")
        job_id = cloud.accepted[0]
        cloud.until_answered(lambda p: _or_refused(lambda: replay(job_id, *ASKED, cloud.operator_ports(p))))


def redriven_natively_then_replayed_late(cloud: Cloud) -> None:
    """After each death AWS's redrive, as late as the DLQ keeps the copy; then an operator's."""
    if not cloud.dlq:
        return
    if any(cloud.first(f"redrive {n}") for n in range(3)):
        cloud.clock.forward(timedelta(days=13))
        cloud.redrive_natively()
    else:
        replayed_late(cloud)


def replayed_late(cloud: Cloud) -> None:
    """As late as the record is kept."""
    if cloud.dlq and "replayed" not in cloud.happened:
        cloud.clock.forward(RETENTION[State.DEAD] - timedelta(hours=1))
        cloud.let_ttl_pass()
        operator_replays(cloud)


def _or_refused(act: Callable[[], Job]) -> Job | MoveRefused:
    try:
        return act()
    except MoveRefused as e:
        return e


def nothing_dead(cloud: Cloud) -> bool:
    return all(job.state is not State.DEAD for job in cloud.jobs)


def lost_from_the_queue(cloud: Cloud) -> None:
    """The first message, before anyone received it."""
    if cloud.queue and cloud.first("purged"):
        cloud.purge()


def lost_while_retrying(cloud: Cloud) -> None:
    if cloud.queue and any(job.state is State.RETRYING for job in cloud.jobs) and cloud.first("purged"):
        cloud.purge()


def moved_unrun(cloud: Cloud) -> None:
    if cloud.queue and cloud.first("moved away"):
        cloud.move_to_dlq()


def moved_after_days(cloud: Cloud) -> None:
    """Nobody could read the record for so long."""
    if cloud.queue and cloud.jobs[0].state is not State.RUNNING and cloud.first("moved away"):
        cloud.clock.forward(timedelta(days=4))
        cloud.move_to_dlq()


def moved_after_days_of_waiting(cloud: Cloud) -> None:
    if any(job.state is State.RETRYING for job in cloud.jobs):
        moved_after_days(cloud)


def redriven_natively(cloud: Cloud) -> None:
    if cloud.dlq and cloud.first("redriven"):
        cloud.redrive_natively()


def deadline_passes(cloud: Cloud) -> None:
    if cloud.queue and cloud.first("deadline passed"):
        cloud.clock.forward(timedelta(hours=25))


def hours_pass(cloud: Cloud) -> None:
    """So that a job which waits by the minute comes to its deadline within a history's steps."""
    cloud.clock.forward(timedelta(hours=5))


def begins_with(*bodies: str) -> Callable[[Cloud], None]:
    """Messages that no relay sent, then the job."""

    def begin(cloud: Cloud) -> None:
        for body in bodies:
            cloud.send(body)
        post(cloud)

    return begin


def unreadable_record_first(cloud: Cloud) -> None:
    cloud.outbox.append(OutboxRecord({"dynamodb": "garbled"}, None, "no job in it"))
    post(cloud)


def two_of_one_key(cloud: Cloud) -> None:
    post(cloud, request("k1", ordering_key="acme"))
    post(cloud, request("k2", ordering_key="acme"))


def two_tenants_of_one_key(cloud: Cloud) -> None:
    post(cloud, request("k1", ordering_key="customer-1"))
    post(cloud, replace(request("k2", ordering_key="customer-1"), tenant="bolt-us"))


def the_others_goes_first(cloud: Cloud) -> bool:
    """Where the first tenant's job waited for minutes, the second's did not wait for it."""
    first, second = cloud.jobs
    waited = first.first_error_at is not None and first.completed_at is not None
    return not waited or (second.completed_at is not None and second.completed_at < first.completed_at)  # type: ignore[operator]


def each_to_the_other(cloud: Cloud, lane: str) -> str:
    """Workers of two versions side by side: each knows the type on the other's lane."""
    return "thumbnails" if lane == "emails.high" else "emails.high"


def sent_a_while_ago(cloud: Cloud) -> None:
    """By another version's worker, so recently that its lane does not change yet."""
    post(cloud)
    (job,) = cloud.jobs
    cloud.store._write(replace(job, rerouted_at=NOW - 14 * MINUTE))


def not_back_and_forth(cloud: Cloud) -> bool:
    """Its lane changed once in a quarter of an hour at most."""
    times = sorted({job.rerouted_at for job in cloud.store.images if job.rerouted_at is not None})
    return bool(times) and all(later - earlier >= 15 * MINUTE for earlier, later in pairwise(times))


def dies_before_the_move(cloud: Cloud, lane: str) -> str:
    """Deployed after the job's first worker died."""
    return LANE if cloud.worker_deaths else "emails.high"


LANDED_AFTER = timedelta(seconds=40)
"""Longer than a lease."""


class Spoilt:
    """The table as one worker reaches it: the first call of each of these moves comes out otherwise."""

    def __init__(self, cloud: Cloud, how: Callable[[Cloud, Callable[[], Job]], Job], moves: tuple[Any, ...]) -> None:
        self._cloud, self._how, self._moves = cloud, how, moves

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cloud.store, name)

    def apply(self, job_id: str, write: Write) -> Job:
        call = lambda: self._cloud.store.apply(job_id, write)  # noqa: E731
        if write.move in self._moves and self._cloud.first(f"spoilt {write.move.name}"):
            return self._how(self._cloud, call)
        return call()

    def make(self, job_id: str, write: Write) -> None:
        self.apply(job_id, write)


def spoilt(how: Callable[[Cloud, Callable[[], Job]], Job], *moves: Any) -> Callable[[Cloud], Any]:
    return lambda cloud: Spoilt(cloud, how, moves)


def throttled(cloud: Cloud, call: Callable[[], Job]) -> Job:
    raise StoreUnavailable("throttled")


def answer_lost(cloud: Cloud, call: Callable[[], Job]) -> Job:
    call()
    raise StoreUnavailable("timed out after it landed")


def answered_late(cloud: Cloud, call: Callable[[], Job]) -> Job:
    after = call()
    cloud.clock.forward(LANDED_AFTER)
    return after


def repeated_after_a_takeover(cloud: Cloud, call: Callable[[], Job]) -> Job:
    """By the SDK; meanwhile the message came back, and another worker has the job, or has done it."""
    call()
    cloud.clock.forward(LANDED_AFTER)
    cloud.deliver(cloud.queue[:1])
    return call()


def repeated_beside_another(cloud: Cloud, call: Callable[[], Job]) -> Job:
    """The same, and the other worker stands before its own effect, or dies there."""
    job = call()
    cloud.clock.forward(LANDED_AFTER)
    now = cloud.clock.now()
    theirs = Terms(holder="another", started_at=now, ends_at=now + LANDED_AFTER, code_version="abc1234")
    cloud.store.apply(job.job_id, reclaim(job, theirs))
    return call()


class Away:
    """The table as workers reach it: it does not answer at first, or (`why`) nobody can read it."""

    why: Exception = StoreUnavailable("no answer")

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def __getattr__(self, name: str) -> Any:
        if self._cloud.clock.now() < NOW + AWAY:
            raise self.why
        return getattr(self._cloud.store, name)


class Unreadable(Away):
    why = ValueError("attribute 'state' is no State: 'archived'")


def first_queued_image(cloud: Cloud, job: Job) -> bool:
    return job.state is State.QUEUED and cloud.first("record lost")


def dead_image(cloud: Cloud, job: Job) -> bool:
    return job.state is State.DEAD and cloud.first("record lost")


def no_time_at_first(cloud: Cloud) -> Callable[[], timedelta]:
    return lambda: timedelta(seconds=10) if cloud.first("no time") else timedelta(minutes=14)


def no_time_for_suspects(cloud: Cloud) -> Callable[[], timedelta]:
    """Time enough, except once, when the turn of a suspect to run alone has come (the third time that one asks)."""
    asked: list[None] = []

    def left() -> timedelta:
        asked.append(None)
        scarce = cloud.worker_deaths > 0 and len(asked) == 3 and cloud.first("no time")
        return timedelta(seconds=10) if scarce else timedelta(minutes=14)

    return left


EXPIRED, TOO_OLD = frozenset({State.EXPIRED}), frozenset({Alert.EXPIRED})
CANCELLED, DEAD = frozenset({State.CANCELLED}), frozenset({State.DEAD})
STALLED, NEVER_RAN = frozenset({FailureClass.STALLED}), frozenset({FailureClass.NEVER_RAN})
DETERMINISTIC, UNKNOWN = frozenset({FailureClass.DETERMINISTIC}), frozenset({FailureClass.UNKNOWN_OUTCOME})
EFFECT_WRITES = (START_EFFECT, START_EFFECT_AT_MOST_ONCE, FINISH_EFFECT, ERASE_EFFECT)
COMPLETED_OR_DEAD = frozenset({State.COMPLETED, State.DEAD})
AWAY = timedelta(minutes=40)
LONG_LIVED = lambda cloud: post(cloud, request(max_age=timedelta(days=10)))  # noqa: E731
PROMISED_LATER = lambda cloud: post(cloud, request(delay=timedelta(hours=1)))  # noqa: E731

KINDS: Mapping[str, Kind] = {
    "no effect": Kind(handler=works),
    "one effect": Kind(handler=one_effect),
    "two effects": Kind(handler=two_effects),
    "at-most-once effect": Kind(handler=at_most_once, ends=COMPLETED_OR_DEAD, dead_as=UNKNOWN),
    "effect raises": Kind(handler=effect_raises),
    "too many effects": Kind(handler=too_many_effects, ends=DEAD, dead_as=DETERMINISTIC),
    "large payload": Kind(handler=works, begin=lambda cloud: post(cloud, request(month=LARGE))),
    "transactional submit": Kind(handler=works, begin=post_with_row),
    "own transaction": Kind(handler=works, begin=post_in_own_transaction),
    "scheduled": Kind(handler=one_effect, begin=PROMISED_LATER),
    "promised for next month, its key refused": Kind(
        handler=dies_once, begin=promised_then_asked_for_at_once, meanwhile=replayed_late, done=nothing_dead
    ),
    "overdue": Kind(handler=one_effect, begin=PROMISED_LATER, promoter_runs=False),
    "short retry": Kind(handler=short_retry),
    "long retry": Kind(handler=long_retry),
    "defer": Kind(handler=defers),
    "continue": Kind(handler=continues),
    "renew": Kind(handler=reports),
    "cancel by its handler": Kind(handler=cancels, ends=CANCELLED),
    "cancel while queued": Kind(handler=works, meanwhile=operator_cancels, ends=CANCELLED),
    "cancel while running": Kind(handler=asked_to_stop_then_reports, ends=CANCELLED),
    "cancel where it would retry": Kind(handler=asked_to_stop_then_fails, ends=CANCELLED),
    "cancel, then the worker dies": Kind(handler=asked_to_stop_then_worker_dies, ends=CANCELLED),
    "cancel, worker and message lost": Kind(handler=asked_to_stop_then_lost, ends=CANCELLED),
    "dead-letter": Kind(handler=dies, ends=DEAD, dead_as=DETERMINISTIC),
    "dead-letter, its record lost": Kind(handler=dies, ends=DEAD, dead_as=DETERMINISTIC, loses=dead_image),
    "replay by an operator": Kind(
        handler=dies_once,
        begin=lambda cloud: post(cloud, request(month=LARGE)),
        meanwhile=operator_replays,
        done=nothing_dead,
    ),
    "native redrive": Kind(handler=dies_once, meanwhile=redriven_natively, done=nothing_dead),
    "native redrive, replayed late": Kind(
        handler=dies_four_times,
        begin=lambda cloud: post(cloud, request(month=LARGE)),
        meanwhile=redriven_natively_then_replayed_late,
        done=nothing_dead,
    ),
    "expired": Kind(handler=works, meanwhile=deadline_passes, ends=EXPIRED, tells=TOO_OLD),
    "expired, worker and message lost": Kind(handler=lost_until_too_late, ends=EXPIRED, tells=TOO_OLD),
    "type that never loads": Kind(
        handler=works, loads=False, meanwhile=hours_pass, ends=EXPIRED, tells=TOO_OLD | {Alert.TYPE_NOT_LOADED}
    ),
    "worker dies": Kind(handler=worker_dies_once),
    "poison": Kind(handler=poison, ends=DEAD, dead_as=STALLED),
    "worker and message lost": Kind(handler=worker_dies_and_message_is_lost),
    "poison, its messages lost": Kind(handler=worker_always_dies_and_message_is_lost, ends=DEAD, dead_as=STALLED),
    "stream record lost": Kind(handler=one_effect, loses=first_queued_image),
    "message lost": Kind(handler=one_effect, meanwhile=lost_from_the_queue),
    "message lost while retrying": Kind(handler=short_retry, meanwhile=lost_while_retrying),
    "moved to the DLQ unrun": Kind(handler=works, meanwhile=moved_unrun, ends=COMPLETED_OR_DEAD, dead_as=NEVER_RAN),
    "moved to the DLQ, worker dead": Kind(handler=moved_away_then_worker_dies, ends=COMPLETED_OR_DEAD, dead_as=STALLED),
    "second delivery": Kind(handler=delivered_a_second_time),
    "lease answer lost": Kind(handler=one_effect, store=spoilt(answer_lost, LEASE)),
    "lease answered late": Kind(handler=one_effect, store=spoilt(answered_late, LEASE)),
    "lease repeated after a takeover": Kind(
        handler=one_effect, store=spoilt(repeated_after_a_takeover, LEASE), ends=COMPLETED_OR_DEAD, dead_as=STALLED
    ),
    "effect answers lost": Kind(handler=two_effects, store=spoilt(answer_lost, *EFFECT_WRITES)),
    "effect writes throttled": Kind(handler=two_effects, store=spoilt(throttled, *EFFECT_WRITES)),
    "effect raises, its erase throttled": Kind(handler=effect_raises, store=spoilt(throttled, ERASE_EFFECT)),
    "effect raises, the answer to its erase lost": Kind(handler=effect_raises, store=spoilt(answer_lost, ERASE_EFFECT)),
    "effect answers lost, at most once": Kind(
        handler=at_most_once, store=spoilt(answer_lost, *EFFECT_WRITES), ends=COMPLETED_OR_DEAD, dead_as=UNKNOWN
    ),
    "effect start answered late": Kind(
        handler=one_effect, store=spoilt(answered_late, START_EFFECT), ends=COMPLETED_OR_DEAD, dead_as=STALLED
    ),
    "effect start answered late, at most once": Kind(
        handler=at_most_once,
        store=spoilt(answered_late, START_EFFECT_AT_MOST_ONCE),
        ends=COMPLETED_OR_DEAD,
        dead_as=STALLED | UNKNOWN,
    ),
    "effect start repeated after a takeover": Kind(
        handler=one_effect,
        store=spoilt(repeated_after_a_takeover, START_EFFECT),
        ends=COMPLETED_OR_DEAD,
        dead_as=STALLED,
    ),
    "effect start repeated, the job taken over": Kind(
        handler=one_effect, store=spoilt(repeated_beside_another, START_EFFECT), ends=COMPLETED_OR_DEAD, dead_as=STALLED
    ),
    "at-most-once effect not done": Kind(handler=refused_at_first, ends=COMPLETED_OR_DEAD, dead_as=UNKNOWN),
    "type not known yet": Kind(handler=works, known=lambda cloud: not cloud.first("not known yet")),
    "no time left": Kind(handler=works, time_left=no_time_at_first),
    "suspect without room": Kind(handler=worker_dies_once, time_left=no_time_for_suspects),
    "suspect without room, often received": Kind(handler=worker_dies_once, time_left=no_time_for_suspects, receives=30),
    "requeued suspect without room, often received": Kind(
        handler=worker_dies_and_message_is_lost, time_left=no_time_for_suspects, receives=30
    ),
    "requeued suspect without room": Kind(handler=worker_dies_and_message_is_lost, time_left=no_time_for_suspects),
    "hung": Kind(handler=hangs, deadline=timedelta(milliseconds=20)),
    "two of one key": Kind(handler=first_of_key_retries, begin=two_of_one_key, queue=FIFO),
    "two tenants of one key": Kind(
        handler=long_retry_of_the_first, begin=two_tenants_of_one_key, queue=FIFO, done=the_others_goes_first
    ),
    "type moved to another lane": Kind(
        handler=one_effect, queue="emails.high", moved=lambda cloud, lane: LANE, deadline=5 * MINUTE
    ),
    "type moved, worker vanished": Kind(
        handler=worker_dies_once, queue="emails.high", moved=dies_before_the_move, deadline=40 * SECOND
    ),
    "type moved, later": Kind(
        handler=one_effect,
        begin=PROMISED_LATER,
        queue="emails.high",
        moved=lambda cloud, lane: LANE,
        deadline=5 * MINUTE,
    ),
    "each version on the other's lane": Kind(
        handler=one_effect, queue="emails.high", moved=each_to_the_other, done=not_back_and_forth
    ),
    "sent a while ago where nobody has the time": Kind(
        handler=one_effect,
        begin=sent_a_while_ago,
        queue="emails.high",
        moved=lambda cloud, lane: LANE,
        deadline=2 * MINUTE,
        done=not_back_and_forth,
    ),
    "type never known, on a FIFO lane": Kind(
        handler=works,
        begin=lambda cloud: post(cloud, request(max_age=timedelta(hours=2))),
        queue=FIFO,
        receives=970,
        known=lambda cloud: False,
        ends=frozenset({State.EXPIRED}),
    ),
    "not now, nearly at once": Kind(handler=says_not_now, receives=596),
    "not now, nearly at once, on a FIFO lane": Kind(handler=says_not_now, queue=FIFO, receives=994),
    "cancel of a waiting head": Kind(
        handler=head_waits_for_hours,
        begin=two_of_one_key,
        queue=FIFO,
        meanwhile=operator_cancels_the_waiting_head,
        ends=frozenset({State.COMPLETED, State.CANCELLED}),
        within=timedelta(minutes=30),
    ),
    "table away": Kind(handler=one_effect, store=Away, receives=597),
    "table away, on a FIFO lane": Kind(handler=short_retry, store=Away, queue=FIFO, receives=994),
    "record unreadable for hours": Kind(handler=one_effect, store=Unreadable, receives=590),
    "moved to the DLQ after days": Kind(handler=works, meanwhile=moved_after_days, begin=LONG_LIVED),
    "moved to the DLQ after days, retrying": Kind(
        handler=short_retry, meanwhile=moved_after_days_of_waiting, begin=LONG_LIVED
    ),
    "no doorbell, and one of no job": Kind(
        handler=works,
        begin=begins_with(
            "garbage",
            '{"jobId":"job_00000000000000000000000000","dispatch":1,"type":"invoice-export","payloadVersion":1}',
        ),
    ),
    "unreadable outbox record": Kind(handler=works, begin=unreadable_record_first),
    "ring refused once": Kind(handler=works, first_ring_refused=True),
}
