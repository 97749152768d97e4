"""A job type whose jobs end in every way a job can, on request."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from typing import Literal

from shared.domain.retry import RetryPolicy
from shared.domain.run import Cancel, Continue, Defer, Run
from shared.errors import DeterministicFailure, EnvironmentalFailure, TransientFailure
from shared.jobs import Payload, job_type

SECOND = timedelta(seconds=1)


class Mishap(Payload):
    """What shall happen."""

    how: Literal["nothing", "hangs", "dies", "busy", "busy-long", "off", "broken", "bug", "waits", "goes-on", "stops"]


@job_type(
    "mishap", queue="emails.bulk", deadline=3 * SECOND, policy=RetryPolicy((0 * SECOND, 2 * SECOND), spread=SECOND)
)
def mishap(payload: Mishap, run: Run) -> Defer | Continue | Cancel | None:
    """Each failing way fails on its first attempt only, so that its job shows both."""
    match payload.how:
        case "hangs" if run.attempt == 1:
            time.sleep(600)
        case "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        case "busy" if run.attempt == 1:
            raise TransientFailure("the partner is busy", code="busy")
        case "busy-long" if run.attempt == 1:
            raise TransientFailure("the partner asks for a minute", code="busy", retry_after=61)
        case "off":
            raise EnvironmentalFailure("the quota of today is used up", code="quota")
        case "broken":
            raise DeterministicFailure("row 7 has no amount", code="row-invalid")
        case "bug":
            return {}["vat_rate"]  # type: ignore[no-any-return]
        case "waits" if time.time() < run.once("first look", time.time) + 1:
            return Defer(2 * SECOND, "not open yet")
        case "goes-on":
            page = (run.checkpoint or {"page": 0})["page"] + 1
            return None if page == 3 else Continue({"page": page})
        case "stops":
            return Cancel("paid meanwhile")
    return None
