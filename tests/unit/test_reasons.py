"""What a dead job's record says where only something missing was found: the finding, and the true reason before it."""

from __future__ import annotations

import pytest

from shared.domain.job import MESSAGE_CUT, Job
from shared.domain.reasons import last_words
from shared.domain.retry import Failure, FailureClass
from shared.domain.told import told_digest, told_error
from shared.domain.writes import dead_fields
from tests.builders import NOW, a_job

FOUND = Failure(FailureClass.UNKNOWN_OUTCOME, "unknown-outcome", "effect 'send' never said how it ended", told=True)
VANISHED = Failure(FailureClass.STALLED, "worker-vanished", "run 3 ended without a word", told=True)


def known(message: str, code: str = "busy", failure_class: str = "transient", *, told: bool = True) -> Job:
    mark = told_digest(message) if told else None
    return a_job(error_class=failure_class, error_code=code, error_message=message, error_told=mark)


def dead(job: Job, failure: Failure) -> Job:
    """The same job after this death and a replay."""
    changes = {name: value for name, value in dead_fields(job, failure, NOW).items() if name.startswith("error_")}
    return a_job(**({"error_told": None} | changes))


def test_a_finding_names_the_failure_that_was_known_before_it() -> None:
    job = known("the bank is closed")
    assert last_words(FOUND, job).message == "effect 'send' never said how it ended; before: busy: the bank is closed"


def test_however_many_findings_follow_the_first_reason_stays() -> None:
    job = known("the bank is closed")
    for failure in (FOUND, FOUND, VANISHED, FOUND, VANISHED):
        job = dead(job, failure)
        assert str(job.error_message) == f"{failure.message}; before: busy: the bank is closed"


def test_a_failure_of_its_own_speaks_for_itself() -> None:
    own = Failure(FailureClass.DETERMINISTIC, "row-invalid", "row 7", told=True)
    assert last_words(own, known("the bank is closed")) == own


@pytest.mark.parametrize("failure", [FOUND, VANISHED])
def test_a_finding_with_nothing_before_it_says_so_once(failure: Failure) -> None:
    first = dead(a_job(), failure)
    assert first.error_message == failure.message
    assert dead(first, failure).error_message == failure.message


def test_the_reason_is_not_cut_off_by_a_long_finding() -> None:
    long = Failure(FailureClass.UNKNOWN_OUTCOME, "unknown-outcome", f"effect {'x' * 64!r} began in run 99 and …")
    said = last_words(long, known("MessageRejected: not verified " + "y" * 200, "MessageRejected")).message
    assert "before: MessageRejected: not verified" in said
    assert len(said) == MESSAGE_CUT


@pytest.mark.parametrize("told", [True, False])
def test_callers_read_the_reason_only_where_they_might_before(told: bool) -> None:
    job = dead(known("postgresql://user:password@db", told=told), FOUND)
    assert (told_error(job) is not None) == told
    assert "postgresql" in str(job.error_message), "the operator's"
