"""What a record says when the system ends a job of which it only knows that something is missing: the finding, and the
true reason that was known before it.
"""

from __future__ import annotations

from dataclasses import replace

from shared.domain.job import MESSAGE_CUT, Job
from shared.domain.retry import Failure, FailureClass
from shared.domain.told import told_error

_FINDINGS = frozenset({FailureClass.UNKNOWN_OUTCOME, FailureClass.STALLED, FailureClass.NEVER_RAN})
_BEFORE = "; before: "


def before_that(finding: str, reason: str) -> str:
    """The finding with the reason known before it; what a reason itself had before it comes first, whatever was found
    how often since.
    """
    first = reason.partition(_BEFORE)[2] or reason
    return f"{finding}{_BEFORE}{first}"[:MESSAGE_CUT]


def said(code: str, message: str) -> str:
    """One line for a failure, its code not twice."""
    return message if message.startswith(code) else f"{code}: {message}"


def last_words(failure: Failure, job: Job) -> Failure:
    """A death, with what the record told of the job before. Only a finding needs it: a failure of its own speaks for
    itself. Where callers may not read what was known, they may not read both together either.
    """
    known = job.error_message or ""
    again = job.error_class == failure.failure_class and _BEFORE not in known  # found before, and nothing else is known
    if failure.failure_class not in _FINDINGS or not job.error_code or again or _BEFORE in failure.message:
        return failure
    message = before_that(failure.message, said(job.error_code, known))
    return replace(failure, message=message, told=failure.told and told_error(job) is not None)
