"""Promoters: read what is due, then promote it as it was read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.model.explore import Step
from tests.model.world import NO_PLAN, Plan, World

if TYPE_CHECKING:
    from tests.model.job_model import JobModel


def steps(world: World, model: JobModel) -> Iterator[Step]:
    """What a promoter may do now."""
    record = world.record
    for place, plan in enumerate(world.promoters):
        if place and plan == world.promoters[place - 1]:
            continue
        if plan != NO_PLAN:
            yield _promote(world, place, plan, model)
        elif record is not None and record.in_due and not record.waiting:
            reads = with_plan(world.promoters, place, Plan("promote", record.dispatch))
            yield model.step(f"promoter: reads the due job d{record.dispatch}", world._replace(promoters=reads))


def _promote(world: World, place: int, plan: Plan, model: JobModel) -> Step:
    idle = world._replace(promoters=with_plan(world.promoters, place, NO_PLAN))
    record = model.records.apply(world.record, "promote", dispatch=plan.dispatch)
    if record is None or world.record is None:
        return model.step("promoter: refused", idle)
    broken = "(k) a job is promoted before its time" if world.record.waiting else None
    return model.step(f"promoter: queues it, d{record.dispatch}", model.written(idle, record), broken=broken)


def with_plan(plans: tuple[Plan, ...], place: int, plan: Plan) -> tuple[Plan, ...]:
    """The plans with that one changed; in order, since whose is which does not matter."""
    return tuple(sorted((*plans[:place], plan, *plans[place + 1 :])))
