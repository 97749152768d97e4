"""Every move has a constructor, and what it writes is what its row of the table takes."""

from __future__ import annotations

from shared.domain import writes
from shared.domain.job import EFFECT_STARTED, Effect, Progress
from shared.domain.lease import Lease
from shared.domain.retry import Failure, FailureClass
from shared.domain.run import StoredFile
from shared.domain.states import RESCHEDULE, SUBMIT, SUBMIT_SCHEDULED, TABLE, State
from shared.domain.writes import Terms, Write
from tests.builders import HOUR, NOW, a_job, a_running_job

LEASE = Lease("job_1", 1, "holder-1")
TERMS = Terms(holder="h", started_at=NOW, ends_at=NOW + HOUR, code_version="abc1234")
FAILURE = Failure(FailureClass.TRANSIENT, "http-503", "busy", told=True)
ASKED = {"who": "op1", "why": "stop"}
PAGE = Progress(1, 2, "pages")
ENTRY = Effect(status=EFFECT_STARTED, run=1, at=NOW)
QUEUED, RUNNING, DEAD = a_job(), a_running_job(), a_job(state=State.DEAD)

WRITES: tuple[Write, ...] = (
    writes.lease(1, TERMS),
    writes.reclaim(RUNNING, TERMS),
    writes.renew(LEASE, NOW, PAGE),
    writes.complete(LEASE, StoredFile("key", 1, "text/csv", "v1"), NOW, PAGE),
    *(writes.retry(LEASE, FAILURE, NOW, NOW, PAGE, leaves_message=leaves) for leaves in (True, False)),
    *(writes.defer(LEASE, "closed", FAILURE, NOW, NOW, PAGE, leaves_message=leaves) for leaves in (True, False)),
    writes.continue_from(LEASE, {"page": 1}, NOW, PAGE),
    writes.dead_letter(LEASE, RUNNING, FAILURE, NOW, PAGE),
    writes.request_own_cancel(LEASE, ASKED),
    writes.cancel_running(LEASE, ASKED, NOW, PAGE),
    *(writes.start_effect(LEASE, "pay", ENTRY, at_most_once=once) for once in (True, False)),
    writes.finish_effect(LEASE, "pay", ENTRY),
    writes.erase_effect(LEASE, "pay"),
    *(writes.defer_unleased("job_1", 1, "later", NOW, NOW, leaves_message=leaves) for leaves in (True, False)),
    writes.reroute("job_1", 1, "emails.bulk", NOW),
    writes.mark(1, NOW),
    writes.promote(QUEUED, NOW, NOW, NOW),
    writes.ring_again(QUEUED, NOW),
    writes.redispatch(QUEUED, NOW),
    writes.requeue(RUNNING, NOW),
    *(writes.park(found, NOW) for found in (QUEUED, RUNNING)),
    writes.dead_letter_lapsed(RUNNING, NOW),
    *(writes.expire(found, NOW) for found in (QUEUED, RUNNING)),
    writes.request_cancel(ASKED),
    *(writes.cancel(found, ASKED, NOW) for found in (QUEUED, RUNNING)),
    writes.replay(DEAD, "emails.bulk", NOW),
    writes.replay_by_message(DEAD, NOW),
)


def test_every_move_but_the_ways_into_the_table_has_a_constructor() -> None:
    """A submit writes a whole record. `reschedule` has no caller yet."""
    made = {write.move.name for write in WRITES}
    assert made == {move.name for move in TABLE} - {SUBMIT.name, SUBMIT_SCHEDULED.name, RESCHEDULE.name}


def test_what_a_constructor_writes_is_what_its_row_takes() -> None:
    for write in WRITES:
        write.move.check_changes(write.changes)
        for arm in write.move.arms:
            for guard in (*write.move.guards, *arm.guards):
                if name := getattr(guard, "seen", ""):
                    assert write.seen.value(name) is not None or name == "now", write.move.name
