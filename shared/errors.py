"""Every error of Holdfast, drawn before it is defined.

HoldfastError
├── DeclarationError        a queue, job type or policy that cannot work; raised at import, so at synthesis
├── SettingsError           a Lambda's environment lacks or garbles a setting
├── RequestRefused          what was asked cannot be accepted; says where and what to do; nothing is stored
│   ├── UnknownJobType
│   ├── InvalidRequest      one or more fields are wrong, each with its pointer
│   ├── PayloadTooLarge
│   ├── NotAllowed          another tenant's, or not for tenants to ask for
│   ├── KeyReused           the Idempotency-Key already names a job with another content
│   └── QuotaExceeded       too much in this minute, or too much open; says when to ask again
├── StoreUnavailable        the table did not answer; nothing is known to be stored, so say 503
├── MoveRefused             the record was not as the move needs it; carries the record that was found
│   └── LeaseLost           the move was a worker's, and another holder has the job now
├── AlreadySubmitted        the job id exists; carries the record that was found
├── PayloadMissing          the stored payload of a job is gone, so it cannot be sent round again
├── RingRefused             a doorbell that its queue did not take
├── PromotionFailed         due jobs that could not be made queued; the next tick tries again
├── NotDone                 inside an effect: what failed certainly did not take place; carries the failure
└── JobFailure              a handler says how its attempt failed
    ├── TransientFailure        likely to clear by itself: retried with backoff and jitter
    ├── EnvironmentalFailure    something outside is off for long: slow schedule, no attempt spent
    ├── DeterministicFailure    the same input will fail the same way: dead at once
    └── UnknownOutcome          an at-most-once effect was interrupted: dead, for a human to look
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.domain.job import Job


LONGEST_RETRY_AFTER = timedelta(days=30)
"""What a server asks for beyond this is cut: no job lives so long."""


class HoldfastError(Exception):
    """The root; nothing raises it itself."""


class DeclarationError(HoldfastError):
    """A declaration that cannot work. The message names the declaration, the rule and the way out."""


class SettingsError(HoldfastError):
    """An environment variable that a Lambda needs is absent or unreadable."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong field of a request: a JSON pointer (RFC 6901, "" is the whole body) and what is wrong there."""

    pointer: str
    detail: str


class RequestRefused(HoldfastError):
    """The request cannot become a job. Nothing was stored."""

    def __init__(self, detail: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.faults = tuple(faults)


class UnknownJobType(RequestRefused):
    """No file in shared/jobs declares this job type."""


class InvalidRequest(RequestRefused):
    """One or more fields are wrong; `faults` has a pointer and a sentence for each."""


class PayloadTooLarge(RequestRefused):
    """The payload is above what a job may carry: store it elsewhere and pass a pointer."""


class NotAllowed(RequestRefused):
    """This caller or tenant may not ask for that: another tenant's things, or a type that no tenant submits."""


class KeyReused(RequestRefused):
    """The Idempotency-Key names a job that was submitted with another content."""


class QuotaExceeded(RequestRefused):
    """The caller or its tenant has its fill for now; `retry_after` says when to ask again."""

    def __init__(self, detail: str, retry_after: timedelta) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class StoreUnavailable(HoldfastError):
    """The table throttled the call or did not answer in time. The caller may try again."""


class MoveRefused(HoldfastError):
    """The record did not allow the move. `found` is the record as it was at that instant, None if there is none."""

    def __init__(self, job_id: str, move: str, found: Job | None) -> None:
        state = "no record" if found is None else f"{found.state} run={found.run} dispatch={found.dispatch}"
        super().__init__(f"{move} of {job_id} refused: found {state}")
        self.job_id, self.move, self.found = job_id, move, found


class LeaseLost(MoveRefused):
    """The worker's lease is no longer the record's. Write nothing more and do not acknowledge."""


class AlreadySubmitted(HoldfastError):
    """The job id is taken; `found` is its record. Not an error for a repeated submit with the same content."""

    def __init__(self, found: Job) -> None:
        super().__init__(f"{found.job_id} was already submitted, now {found.state}")
        self.found = found


class PayloadMissing(HoldfastError):
    """The job's stored payload is gone (its time to live passed): submit the work anew as another job."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"the stored payload of {job_id} is gone; submit its work again as a new job")
        self.job_id = job_id


class RingRefused(HoldfastError):
    """SQS did not take these doorbells; the stream must deliver their records again. `code`: SQS's own, if it said."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class PromotionFailed(HoldfastError):
    """Some due jobs could not be read or written; all others were promoted."""


class NotDone(HoldfastError):
    """Raised inside an effect: it failed, and certainly did not take place. Its start is erased, an at-most-once one's
    too, so the next run may begin it; `once` raises `failure`, which says whether and when there is one.

        raise NotDone(EnvironmentalFailure("the bank is closed", code="bank-closed")) from error

    Not needed for a refusal or a connection that domain/not_done.py recognises by itself.
    """

    def __init__(self, failure: Exception) -> None:
        super().__init__(f"not done: {failure}")
        self.failure = failure


class JobFailure(HoldfastError):
    """How an attempt failed, in the handler's own words.

    code         short and stable, for grouping ("csv-row-invalid"), at most 64 characters
    retry_after  the earliest wait a server asked for, a timedelta or seconds; never undercut
    """

    code = "failed"

    def __init__(self, message: str, *, code: str | None = None, retry_after: timedelta | float | None = None) -> None:
        super().__init__(message)
        if code:
            self.code = str(code)
        if retry_after is not None and not isinstance(retry_after, timedelta):
            retry_after = timedelta(seconds=min(max(retry_after, 0), LONGEST_RETRY_AFTER.total_seconds()))
        self.retry_after = retry_after


class TransientFailure(JobFailure):
    """Likely to clear by itself: a timeout, a reset, 429, 503, throttling."""

    code = "transient"


class EnvironmentalFailure(JobFailure):
    """A dependency down for hours, a flag off, a quota gone, a maintenance window."""

    code = "environment"


class DeterministicFailure(JobFailure):
    """It will fail again the same way: a malformed payload, an unknown tenant, a broken invariant."""

    code = "deterministic"


class UnknownOutcome(JobFailure):
    """An at-most-once effect began and nobody knows how it ended: no answer came, or a 5xx, or its worker vanished. It
    is never begun again; an operator must look.
    """

    code = "unknown-outcome"
