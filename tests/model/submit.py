"""Submitting under one Idempotency-Key: two clients with different bodies, and the key used again after the retention.

The calls are those that shared.operations.submit makes (recorded once per body); here they are interleaved, with every
crash between them, on a table whose guard is the row SUBMIT.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from shared.domain.job import Job
from shared.domain.moves import allowed
from shared.domain.states import SUBMIT, Seen, State, Transition
from shared.operations.submit import JobRequest, submit
from shared.ports import Row
from tests.builders import NOW
from tests.model.explore import Step
from tests.world import OneType

SUBMIT_RULES: Mapping[str, str] = {
    "payload_by_content": "a payload item is named by its content, so a refused body cannot replace an accepted one",
    "payload_life_grows": "the life of a payload item only grows, so a refused request cannot shorten it",
    "payload_first": "the payload item is written before the record",
    "effects_in_record": "the effects of a job live and end with its record",
}

LATER = NOW + timedelta(days=365)
"""When the record of a job that was submitted NOW has outlived its retention."""


@dataclass(slots=True)
class Recorder:
    """A store that notes what submit asks of it."""

    payloads: list[tuple[bytes, str, datetime]] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def put_payload(self, job_id: str, ref: bytes, payload: str, expires_at: datetime) -> None:
        """See JobStore."""
        self.order.append("payload")
        self.payloads.append((ref, payload, expires_at))

    def submit(self, job: Job, now: datetime) -> None:
        """See JobStore."""
        self.order.append("record")
        self.jobs.append(job)

    def submit_with(self, job: Job, rows: Sequence[Row], now: datetime) -> None:
        """See JobStore."""
        self.submit(job, now)


class Asked(NamedTuple):
    """What one client's submit writes."""

    ref: bytes
    payload: str
    until: datetime
    job: Job


PROMISED = "+"
"""Ends the body of a client who asks for next month."""


def asked(body: str) -> Asked:
    """The writes of the real submit for a payload too large for its record."""
    store, payload = Recorder(), {"tenantId": body.removesuffix(PROMISED) * 500, "month": "2026-05"}
    delay = timedelta(days=30) if body.endswith(PROMISED) else None
    request = JobRequest(type="invoice-export", payload=payload, idempotency_key="k", delay=delay)
    submit(request, catalogue=OneType(lambda payload, run: None), store=store, now=NOW, entropy=bytes(10))  # type: ignore[arg-type]
    if store.order != ["payload", "record"]:
        raise AssertionError(f"submit writes {store.order}")
    return Asked(*store.payloads[0], store.jobs[0])


class Table(NamedTuple):
    """One state. payloads: names, texts, how long each is kept; record: which client's; effect: of which record it was
    recorded.
    """

    payloads: tuple[tuple[bytes, str, datetime], ...] = ()
    record: tuple[int, State] | None = None
    incarnation: int = 0
    clients: tuple[str, ...] = ()
    effect: int = 0
    performed: bool = False
    overdue: bool = False


NEW, HALF, ACCEPTED, REFUSED, CRASHED = "new", "half-way", "accepted", "refused", "crashed"


@dataclass(slots=True)
class SubmitModel:
    """See the module. again: the first client comes back with its key after the retention."""

    bodies: tuple[str, ...] = ("x", "y")
    again: bool = False
    off: Collection[str] = ()
    row: Transition = SUBMIT
    asks: tuple[Asked, ...] = field(init=False)
    goals: Mapping[str, Callable[[Any], bool]] = field(init=False)

    def __post_init__(self) -> None:
        if unknown := set(self.off) - set(SUBMIT_RULES):
            raise ValueError(f"there are no rules {sorted(unknown)}")
        self.asks = tuple(asked(body) for body in self.bodies)
        self.goals = {"answered": lambda table: all(client not in (NEW, HALF) for client in table.clients)}

    def initial(self) -> Table:
        """An empty table."""
        return Table(clients=(NEW,) * len(self.asks))

    def steps(self, table: Any) -> Iterator[Step]:
        """Everything that may happen next."""
        for n, client in enumerate(table.clients):
            if client in (NEW, HALF):
                yield self._write(table, n, first=client == NEW)
            if client == HALF:
                yield Step(f"FAULT: client {n}'s request breaks off", _now(table, n, CRASHED), False)
            if client == ACCEPTED and self.again and table.incarnation == 1 and (table.record is None or table.overdue):
                yield Step(f"client {n}: the same key again, after the retention", _now(table, n, NEW))
        if table.record is not None and table.record[1] is State.QUEUED:
            yield self._run(table, table.record[0])
        if table.record is not None and table.record[1] is State.COMPLETED and self.again:
            if not table.overdue:
                yield Step("time: the record outlives its retention", table._replace(overdue=True))
            yield Step("TTL removes the record", table._replace(record=None, overdue=False, effect=self._kept(table)))

    def _kept(self, table: Table) -> int:
        return 0 if "effects_in_record" not in self.off else table.effect

    def _write(self, table: Table, n: int, *, first: bool) -> Step:
        payload_next = first == ("payload_first" not in self.off)
        after = _now(table, n, HALF if first else ACCEPTED)
        if payload_next:
            name = self.asks[n].ref if "payload_by_content" not in self.off else b""
            others = tuple(item for item in table.payloads if item[0] != name)
            until = max([self.asks[n].until, *(item[2] for item in table.payloads if item[0] == name and self._grows)])
            stored = after._replace(payloads=(*others, (name, self.asks[n].payload, until)))
            return Step(f"client {n}: stores its payload", stored)
        return self._put(table, after, n)

    @property
    def _grows(self) -> bool:
        return "payload_life_grows" not in self.off

    def _put(self, table: Table, after: Table, n: int) -> Step:
        job, now = self.asks[n].job, LATER if table.overdue else NOW
        found = None if table.record is None else self._found(table)
        if allowed(found, self.row, Seen(now=now)):
            lost = table.record is not None and not table.overdue
            broken = "(a) an accepted job is overwritten" if lost else None
            effect = 0 if "effects_in_record" not in self.off else table.effect
            written = after._replace(
                record=(n, State.QUEUED),
                incarnation=table.incarnation + 1,
                performed=False,
                overdue=False,
                effect=effect,
            )
            return Step(f"client {n}: writes its record, 202", written, True, broken)
        if found is not None and found.fingerprint == job.fingerprint:
            broken = "(a) a job of long ago answers for a new one" if table.overdue else None
            return Step(f"client {n}: the record is there, 202", _now(after, n, ACCEPTED), True, broken)
        if found is None:
            return Step(f"client {n}: refused by nothing, 503", table, False)
        return Step(f"client {n}: the key has another body, 422", _now(after, n, REFUSED))

    def _found(self, table: Table) -> Job:
        assert table.record is not None
        which, state = table.record
        ended = NOW + timedelta(days=14) if state is State.COMPLETED else None
        return replace(self.asks[which].job, state=state, expires_at=ended)

    def _run(self, table: Table, which: int) -> Step:
        name = self.asks[which].ref if "payload_by_content" not in self.off else b""
        needed = self.asks[which].until
        payload = next((text for ref, text, until in table.payloads if ref == name and until >= needed), None)
        done = table._replace(record=(which, State.COMPLETED))
        if payload != self.asks[which].payload:
            wrong = "(a) an accepted job has no payload" if payload is None else "(b) a job runs with another's body"
            return Step(f"worker: reads the payload of client {which}'s job", done, True, wrong)
        if table.effect:
            broken = None if table.performed else "(a) a job completes without its effect: an older one's answered"
            return Step("worker: finds the outcome of its effect, completes", done, True, broken)
        return Step("worker: runs the effect, completes", done._replace(effect=table.incarnation, performed=True))


def _now(table: Table, n: int, client: str) -> Table:
    return table._replace(clients=(*table.clients[:n], client, *table.clients[n + 1 :]))


CASES: Mapping[str, SubmitModel] = {
    "two bodies, one key": SubmitModel(),
    "the same body twice": SubmitModel(("x", "x")),
    "the same body for next month and for now": SubmitModel(("x+", "x")),
    "three clients, two bodies": SubmitModel(("x", "y", "x")),
    "the key again after the retention": SubmitModel(("x",), again=True),
    "two bodies, the key again after the retention": SubmitModel(again=True),
}

WITHOUT: Mapping[str, SubmitModel] = {
    "payload_by_content": SubmitModel(off=("payload_by_content",)),
    "payload_life_grows": SubmitModel(("x+", "x"), off=("payload_life_grows",)),
    "payload_first": SubmitModel(("x",), off=("payload_first",)),
    "effects_in_record": SubmitModel(("x",), again=True, off=("effects_in_record",)),
}
"""Each rule switched off, where it is missed."""
