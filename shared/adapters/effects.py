"""Recorded effects: Powertools idempotency, kept inside the job record and fenced by its lease.

The stock layer's traps, and what stands against each: one layer object shared by threads loses records (one per call);
its key holds module and function name, so a rename forgets (the effect's own name is the key); a missing key only warns
(refused here); an hour's in-progress expiry (the run number decides, no clock does); a falsy outcome comes back as None
(outcomes are wrapped); any exception erases the row (an at-most-once effect's only where it certainly was not done); a
row that cannot be erased hides why the effect failed (the reason goes first); its own exceptions hide ours (unwrapped);
an environment variable switches it off without a word (refused).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from typing import Any

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
    IdempotencyPersistenceLayerError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import STATUS_CONSTANTS, DataRecord

from shared.domain import writes
from shared.domain.job import EFFECT_COMPLETED, EFFECT_STARTED, MAX_EFFECTS, MAX_OUTCOME_BYTES, Effect
from shared.domain.refused import Refusal, refused
from shared.domain.writes import Write
from shared.errors import DeterministicFailure, LeaseLost, MoveRefused, NotDone, StoreUnavailable, UnknownOutcome
from shared.ports import Clock, Guarded, JobStore

DISABLED = "POWERTOOLS_IDEMPOTENCY_DISABLED"


class PowertoolsEffects:
    """Effects (see ports) over any job store."""

    def __init__(self, store: JobStore, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def once(self, guarded: Guarded, fn: Callable[[], Any]) -> Any:
        """See Run.once. Raises LeaseLost, UnknownOutcome, DeterministicFailure, StoreUnavailable, or what fn raises."""
        if os.environ.get(DISABLED):
            raise DeterministicFailure(f"{DISABLED} is set: effects would run unguarded", code="effects-disabled")

        @idempotent_function(  # type: ignore[untyped-decorator]
            data_keyword_argument="effect",
            persistence_store=EffectStore(self._store, self._clock, guarded),
            key_prefix=guarded.name,
            config=IdempotencyConfig(
                raise_on_no_idempotency_key=True,
                hash_function="sha256",
                lambda_context=_NO_EXPIRY,  # type: ignore[arg-type]
            ),
        )
        def run(*, effect: str) -> dict[str, Any]:  # noqa: ARG001
            return _wrapped(fn())

        try:
            outcome: dict[str, Any] = run(effect=guarded.name)
        except IdempotencyPersistenceLayerError as e:
            raise e.__cause__ or e from None
        if "refused" in outcome:  # done and recorded, so it is never repeated for an outcome that cannot be kept
            raise DeterministicFailure(f"effect {guarded.name!r}: {outcome['refused']}", code="effect-outcome-invalid")
        return outcome["outcome"]


class EffectStore(BasePersistenceLayer):
    """Powertools' rows as entries of the job record's `effects`."""

    def __init__(self, store: JobStore, clock: Clock, guarded: Guarded) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._store, self._clock, self._guarded = store, clock, guarded

    def _put_record(self, data_record: DataRecord) -> None:
        guarded = self._guarded
        entry = self._entry(EFFECT_STARTED)
        start = writes.start_effect(guarded.lease, guarded.name, entry, at_most_once=guarded.at_most_once)
        try:
            job = guarded.apply(start)
        except MoveRefused as e:
            self._refused(e, data_record)
            return
        if not guarded.lease.lasts(job, self._clock.now()):
            self._take_back()
            raise LeaseLost(job.job_id, start.move.name, job)
        if len(job.effects) > MAX_EFFECTS:
            self._take_back()
            raise DeterministicFailure(f"more than {MAX_EFFECTS} effects in one job: split it", code="too-many-effects")

    def _refused(self, refused: MoveRefused, data_record: DataRecord) -> None:
        """Returns where the row is our own start, by an earlier try whose answer was lost, and may still begin."""
        guarded, found = self._guarded, refused.found
        effect = None if found is None else found.effects.get(guarded.name)
        if effect is not None and effect.status == EFFECT_COMPLETED:
            raise IdempotencyItemAlreadyExistsError(
                old_data_record=DataRecord(
                    data_record.idempotency_key,
                    status=STATUS_CONSTANTS["COMPLETED"],
                    response_data=effect.outcome or "",
                )
            )
        # Under our own run the row may stand in a record that another worker has taken over meanwhile.
        own = effect is not None and effect.run == guarded.lease.run
        if effect is None or not guarded.lease.lasts(found, self._clock.now()):
            if own and not guarded.open:
                self._take_back()
            raise LeaseLost(refused.job_id, refused.move, found) from refused
        if guarded.at_most_once and (guarded.open or not own):
            raise UnknownOutcome(f"effect {guarded.name!r} began in run {effect.run} and never said how it ended")

    def _take_back(self) -> None:
        """A start that nothing began after. What cannot be taken back now is another worker's, or shows as begun."""
        with contextlib.suppress(MoveRefused, StoreUnavailable):
            self._store.make(self._guarded.lease.job_id, writes.erase_effect(self._guarded.lease, self._guarded.name))

    def _update_record(self, data_record: DataRecord) -> None:
        entry = self._entry(EFFECT_COMPLETED, data_record.response_data)
        self._write_or_lost(writes.finish_effect(self._guarded.lease, self._guarded.name, entry))

    def delete_record(self, data: dict[str, Any], exception: Exception) -> None:
        """`fn` raised. An at-most-once effect stays begun, unless it certainly did not take place."""
        if not self._guarded.at_most_once or isinstance(exception, NotDone):
            super().delete_record(data, exception)

    def _delete_record(self, data_record: DataRecord) -> None:  # noqa: ARG002
        # Unanswered, it must hide neither the provider's reason nor its Retry-After. A later call in this run finds the
        # row its own, and the next run takes it over.
        with contextlib.suppress(StoreUnavailable):
            self._write_or_lost(writes.erase_effect(self._guarded.lease, self._guarded.name))

    def _get_record(self, idempotency_key: str) -> DataRecord:
        job = self._store.get(self._guarded.lease.job_id)
        effect = None if job is None else job.effects.get(self._guarded.name)
        if effect is None:
            raise IdempotencyItemNotFoundError
        kind = "COMPLETED" if effect.status == EFFECT_COMPLETED else "INPROGRESS"
        return DataRecord(idempotency_key, status=STATUS_CONSTANTS[kind], response_data=effect.outcome or "")

    def _entry(self, status: str, outcome: str | None = None) -> Effect:
        return Effect(status=status, run=self._guarded.lease.run, at=self._clock.now(), outcome=outcome)

    def _write_or_lost(self, write: Write) -> None:
        try:
            self._guarded.make(write)
        except MoveRefused as e:
            if refused(write, self._guarded.lease, e.found) is not Refusal.LANDED:
                raise LeaseLost(e.job_id, e.move, e.found) from e


class _NoExpiry:
    """Stands where Powertools asks how long the invocation lasts, to date an in-progress row that no clock of ours
    ever looks at; without it every effect would warn.
    """

    def get_remaining_time_in_millis(self) -> int:
        return 0


_NO_EXPIRY = _NoExpiry()


def _wrapped(outcome: Any) -> dict[str, Any]:
    """The outcome as it will be replayed: a tuple is a list the first time too."""
    try:
        text = json.dumps(outcome, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as e:
        return {"refused": f"its outcome is no JSON value ({e}); return a small one"[:200]}
    if len(text.encode()) > MAX_OUTCOME_BYTES:
        return {"refused": f"its outcome has {len(text.encode())} bytes, at most {MAX_OUTCOME_BYTES} are kept"}
    return {"outcome": json.loads(text)}
