"""A mail that someone waits for, through Amazon SES."""

from __future__ import annotations

from datetime import timedelta

from shared.domain.retry import RetryPolicy
from shared.domain.run import Run
from shared.jobs import job_type
from shared.jobs._email import Email, send_once


# Not open to tenants: recipients and text are free, and complaints about one tenant's mail end everyone's sending.
@job_type(
    "send-email",
    queue="emails.high",
    version=1,
    deadline=timedelta(seconds=20),
    policy=RetryPolicy.exponential(timedelta(seconds=2), attempts=7, factor=5.0),  # 2 s, 10 s, 50 s, … 1 h
    max_age=timedelta(hours=12),  # a welcome of the day before is worse than none
)
def send_email(payload: Email, run: Run) -> None:
    """Sends it once; see send_once for what that is worth."""
    send_once(payload, run)
