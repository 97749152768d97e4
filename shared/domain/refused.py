"""What it means when a worker's own write is refused. Asked of every write under a lease, so said once."""

from __future__ import annotations

from enum import Enum, auto

from shared.domain.job import Job, as_stored
from shared.domain.lease import Lease
from shared.domain.states import State
from shared.domain.writes import Write


class Refusal(Enum):
    """Why the table refused it."""

    LANDED = auto()  # an earlier try, whose answer was lost, has made it: nothing more is to do
    MINE = auto()  # the job is still this run's, and something else forbids the move: a cancel request, a done effect
    LOST = auto()  # another worker has had the job since: nothing more may be written


def refused(write: Write, lease: Lease, found: Job | None) -> Refusal:
    """Why this write under `lease` met `found` and was refused."""
    if not lease.is_of(found) or found is None:
        return Refusal.LOST
    return Refusal.LANDED if _landed(write, found) else Refusal.MINE


def _landed(write: Write, found: Job) -> bool:
    """What it wrote is told by its content; the lease need not last, since nothing begins by it."""
    move, name = write.move, write.seen.effect or ""
    if found.state is not (move.target or State.RUNNING):
        return False
    if "effect" in move.drops:
        return name not in found.effects
    told = [field for field in write.changes if field not in move.first]
    shown = {field: found.effects.get(name) if field == "effect" else getattr(found, field) for field in told}
    return all(as_stored(field, shown[field]) == as_stored(field, write.changes[field]) for field in told)
