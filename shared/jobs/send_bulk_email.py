"""A mail that nobody waits for: the same as send-email, in a lane of its own so that a campaign delays no password.

A second type and not a field of the first: a caller who may choose the lane chooses the fast one.
"""

from __future__ import annotations

from datetime import timedelta

from shared.domain.retry import RetryPolicy
from shared.domain.run import Run
from shared.jobs import job_type
from shared.jobs._email import Email, send_once


# Not open to tenants: recipients and text are free, and complaints about one tenant's mail end everyone's sending.
@job_type(
    "send-bulk-email",
    queue="emails.bulk",
    version=1,
    deadline=timedelta(seconds=20),
    policy=RetryPolicy.exponential(timedelta(seconds=30), attempts=7, factor=3.0),  # 30 s, 90 s, … 1 h
    max_age=timedelta(days=2),  # longer than SES's daily quota takes to renew itself
)
def send_bulk_email(payload: Email, run: Run) -> None:
    """Sends it once; see send_once for what that is worth."""
    send_once(payload, run)
