"""What the contract says in prose, told to schemathesis, in whose environment this runs (SCHEMATHESIS_HOOKS).

Only this: everything else it knows from /openapi.json.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import schemathesis
from hypothesis import strategies as st

from shared.jobs._outside_address import Url

NOBODY = "http://127.0.0.1:9/"  # the discard port


# runAt: "at most 366 days ahead (30 with a large payload)"; any time that has passed will do.
schemathesis.openapi.format(
    "date-time",
    st.timedeltas(-timedelta(days=20_000), timedelta(days=29)).map(lambda far: (datetime.now(UTC) + far).isoformat()),
)


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """sourceKey: "of that very tenant". delaySeconds: "at most 30 days with a large payload". A key names one content.
    And no delivery leaves this machine.
    """
    if case.headers and isinstance(key := case.headers.get("Idempotency-Key"), str) and valid(case):
        case.headers["Idempotency-Key"] = f"{key[:200]}{uuid4()}"
    body = case.body
    payload = body.get("payload") if isinstance(body, dict) else None
    if not isinstance(payload, dict):
        return
    if valid(case):
        if isinstance(delay := body.get("delaySeconds"), int):
            body["delaySeconds"] = min(delay, 29 * 86_400)
        if body["type"] == "thumbnail":
            payload["sourceKey"] = "/".join(["uploads", payload["tenantId"], *payload["sourceKey"].split("/")[2:]])
    if isinstance(payload.get("url"), str) and would_be_delivered(payload["url"]):
        payload["url"] = NOBODY


def valid(case: Any) -> bool:
    """Whether the contract lets this request be."""
    return case.meta is None or case.meta.generation.mode.is_positive


def would_be_delivered(url: str) -> bool:
    try:
        Url.parse(url)
    except ValueError:
        return False
    return True
