"""Time: leases lapse, waits end, deadlines pass, records expire. And a restored backup, which turns it back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from shared.domain.states import FINAL, State
from tests.builders import NOW
from tests.model.changes import spent
from tests.model.explore import Step
from tests.model.record import Record
from tests.model.world import IDLE, World

if TYPE_CHECKING:
    from tests.model.job_model import JobModel


def steps(world: World, model: JobModel) -> Iterator[Step]:
    """What time may do now."""
    record = world.record
    if record is None:
        return
    if record.state is State.RUNNING and not record.lapsed:
        yield from _lapse(world, record, model)
    if record.waiting and record.state in (State.SCHEDULED, State.RETRYING):
        yield model.step(f"time: the {record.state} job is due", world._replace(record=model.records.wait_over(record)))
    if (world.budget.move or model.moved) and record.job.rerouted_at == NOW:
        yield model.step("time: its lane may change again", world._replace(record=model.records.rested(record)))
    if world.budget.deadline and not record.late and record.state not in FINAL:
        yield model.step(
            "time: the deadline passes",
            world._replace(
                record=model.records.grow_late(record),
                budget=spent(world.budget, "deadline"),
                ghost=world.ghost._replace(replayed=False),
            ),
            fair=False,
        )
    if model.time_to_live and record.job.expires_at is not None:
        broken = None if record.state in FINAL else "(a) a replayed job is deleted by its old time to live"
        yield model.step(f"TTL removes the {record.state} record", world._replace(record=None), False, broken)
    if world.budget.restore and record is not model.first and record.dispatch == 1 and not world.ghost.performed:
        yield _restore(world, model)


def _lapse(world: World, record: Record, model: JobModel) -> Iterator[Step]:
    holders = [w for w in world.workers if w.run == record.run and w.holder == record.holder and w.step != IDLE]
    workers = tuple(sorted(w._replace(passed=True) if w in holders else w for w in world.workers))
    lapsed = world._replace(record=model.records.lapse(record), workers=workers)
    if not any(w.slot >= 0 for w in holders):
        yield model.step(f"time: the lease of run {record.run} ends", lapsed)
    elif world.budget.frozen:
        yield model.step(
            f"FAULT: the lease of run {record.run} ends, its worker alive but frozen",
            lapsed._replace(budget=spent(world.budget, "frozen")),
            fair=False,
        )


def _restore(world: World, model: JobModel) -> Step:
    """Only before any effect and any second doorbell: a backup that forgets those cannot keep promises about them."""
    return model.step(
        "FAULT: the table is restored from an older backup",
        world._replace(
            record=model.first,
            workers=tuple(sorted(w._replace(passed=True) if w.run else w for w in world.workers)),
            budget=spent(world.budget, "restore"),
            ghost=world.ghost._replace(spent=0, in_row=0),
        ),
        fair=False,
    )
