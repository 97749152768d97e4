"""What the contract says in prose, told to schemathesis, in whose environment this runs (SCHEMATHESIS_HOOKS).

Only this: everything else it knows from /openapi.json.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import schemathesis
from hypothesis import strategies as st

from shared.jobs._outside_address import Url
from tests.contract.dns import fits

JOB_TYPES = Path(__file__).parents[2] / "shared" / "jobs"
SENDER = ("acme-eu", "Jobs Team <jobs@example.com>")  # shared/senders.py
SHORT_ADDRESS = "someone@example.com"
NOBODY = "http://127.0.0.1:9/"  # the discard port


# runAt: "at most 366 days ahead (30 with a large payload)"; any time that has passed will do.
schemathesis.openapi.format(
    "date-time",
    st.timedeltas(-timedelta(days=20_000), timedelta(days=29)).map(lambda far: (datetime.now(UTC) + far).isoformat()),
)


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: Any) -> None:
    """The tests' own job types are left out: some of them are there to kill their worker."""
    submission = raw_schema["components"]["schemas"]["JobSubmission"]
    ours = {name: ref for name, ref in submission["discriminator"]["mapping"].items() if is_the_projects(name)}
    submission["discriminator"]["mapping"] = ours
    submission["oneOf"] = [{"$ref": ref} for ref in ours.values()]


def is_the_projects(name: str) -> bool:
    """Whether the type's file lies in shared/jobs of this tree, and not of a test's copy."""
    return (JOB_TYPES / f"{name.replace('-', '_')}.py").exists()


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """sourceKey: "of that very tenant". delaySeconds: "at most 30 days with a large payload". A key names one content.
    An address: "written for DNS it has at most 253 characters". A sender is one that is declared for the job's tenant,
    and the payload's tenant the body's, else the answer is 403. And no delivery leaves this machine.
    """
    if case.headers and isinstance(key := case.headers.get("Idempotency-Key"), str) and valid(case):
        case.headers["Idempotency-Key"] = f"{key[:200]}{uuid4()}"
    body = case.body
    payload = body.get("payload") if isinstance(body, dict) else None
    if not isinstance(payload, dict):
        return
    if valid(case):
        if isinstance(delay := body.get("delaySeconds"), (int, float)):
            body["delaySeconds"] = min(delay, 29 * 86_400)
        if body["type"] == "thumbnail":
            payload["sourceKey"] = "/".join(["uploads", payload["tenantId"], *payload["sourceKey"].split("/")[2:]])
        if "tenantId" in payload:
            body["tenantId"] = payload["tenantId"]
        if "fromAddress" in payload:
            body["tenantId"], payload["fromAddress"] = SENDER
            payload["configurationSet"] = None
        for field in ("to", "replyTo"):
            if field in payload:
                payload[field] = short_addresses(payload[field])
    if isinstance(payload.get("url"), str) and would_be_delivered(payload["url"]):
        payload["url"] = NOBODY


def short_addresses(written: Any) -> Any:
    """An address, or a list of them, each whose domain is too long for DNS replaced."""
    if isinstance(written, list):
        return [short_addresses(each) for each in written]
    return SHORT_ADDRESS if isinstance(written, str) and not fits(written) else written


def valid(case: Any) -> bool:
    """Whether the contract lets this request be."""
    return case.meta is None or case.meta.generation.mode.is_positive


def would_be_delivered(url: str) -> bool:
    try:
        Url.parse(url)
    except ValueError:
        return False
    return True
