"""What a function said last, from the emulator's CloudWatch logs."""

from __future__ import annotations

from datetime import datetime

from botocore.exceptions import BotoCoreError, ClientError

from local.environment import client

_NOT_ITS_OWN = ("START RequestId:", "END RequestId:", "REPORT RequestId:")


def last_lines(endpoint: str, function: str, since: datetime, lines: int = 20) -> str:
    """The last lines a function logged itself, oldest first; where there are none, why."""
    group, begun_ms = f"/aws/lambda/{function}", int(since.timestamp() * 1000)
    try:
        pages = client("logs", endpoint).get_paginator("filter_log_events")
        events = [e for page in pages.paginate(logGroupName=group, startTime=begun_ms) for e in page["events"]]
    except (BotoCoreError, ClientError) as error:
        return f"(its log cannot be read: {error})"
    messages = [event["message"] for event in events if not event["message"].startswith(_NOT_ITS_OWN)]
    # A structured line holds its traceback as one JSON string.
    said = [line for message in messages for line in message.replace("\\n", "\n").splitlines()]
    return "\n".join(said[-lines:]) or "(it logged nothing)"
