"""An event to somebody else's server: signed, with one key for all its attempts, in the order of its ordering key."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, JsonValue

from shared.domain.failures import class_of_status
from shared.domain.retry import FailureClass, RetryPolicy
from shared.domain.retry_after import parse_retry_after
from shared.domain.run import Run
from shared.errors import DeterministicFailure, EnvironmentalFailure, JobFailure, TransientFailure
from shared.jobs import Payload, job_type
from shared.jobs._clients import client
from shared.jobs._outside_address import MAX_URL_CHARACTERS, URL_PATTERN, Url, checked_addresses
from shared.jobs._webhook_signature import keys_of, signed

if TYPE_CHECKING:
    from shared.jobs._http_answer import Answer

WHOLE_EXCHANGE = timedelta(seconds=14)
TO_RECORD = timedelta(seconds=2)
"""Of the attempt's time, what is left for its record after the exchange was cut off."""

_FAILURES: Mapping[FailureClass, type[JobFailure]] = {
    FailureClass.TRANSIENT: TransientFailure,
    FailureClass.ENVIRONMENTAL: EnvironmentalFailure,
    FailureClass.DETERMINISTIC: DeterministicFailure,
}
_MEANINGS = {
    401: ": it does not accept our signature; compare the secret on both sides",
    403: ": it forbids this delivery; ask whoever runs it",
    404: ": nothing is there, or not yet",
    410: ": it wants no more of these; stop sending them",
}
_SECRET_NOT_THERE = frozenset({"ResourceNotFoundException", "InvalidRequestException", "DecryptionFailure"})
"""InvalidRequest: marked for deletion. All three are an operator's to mend, for every job alike."""


def _checked_url(text: str) -> str:
    Url.parse(text)
    return text


class DeliverWebhook(Payload):
    """POSTs `body` to `url` with the headers of Standard Webhooks and an Idempotency-Key.

    secret_name  the secret at AWS Secrets Manager: holdfast/<stage>/webhooks/<tenant>/<secret name>, without
                 <tenant>/ for a job that has none; it holds "whsec_<base64>", or several apart by blanks
    """

    url: Annotated[str, AfterValidator(_checked_url)] = Field(
        examples=["https://partner.example.com/hooks/orders"],
        description="Leads to the public internet; https to port 443 on every stage but the local one.",
        json_schema_extra={"format": "uri", "pattern": URL_PATTERN, "maxLength": MAX_URL_CHARACTERS},
    )
    body: dict[str, JsonValue] = Field(examples=[{"type": "invoice.paid", "data": {"invoice": "A-1"}}])
    secret_name: str = Field(pattern="^[a-z0-9][a-z0-9._-]{0,63}$", examples=["partner-a"])


@job_type(
    "deliver-webhook",
    queue="webhooks.partner-a",
    version=1,
    deadline=timedelta(seconds=18),
    policy=RetryPolicy.exponential(timedelta(seconds=2), attempts=8, factor=4.0, longest=timedelta(hours=2)),
    max_age=timedelta(days=1),
    open_to_tenants=True,  # nothing is sent before an operator has made a secret for the tenant
)
def deliver_webhook(payload: DeliverWebhook, run: Run) -> None:
    """Delivers it; the outcome kept with the job is the status of the receiver's yes, {"status": 200}.

    An attempt whose answer did not come may have been taken all the same. It is repeated, under the same key and
    webhook-id: silence usually means not taken, and by the key the receiver knows a repeat when it sees one.
    """
    run.once("deliver", lambda: _deliver(payload, run))


def _deliver(payload: DeliverWebhook, run: Run) -> dict[str, int]:
    import http.client
    import ssl

    from shared.jobs._bounded_post import post

    url = Url.parse(payload.url)
    addresses = checked_addresses(url, loopback=run.stage == "local", last_error_code=run.last_error_code)
    body = json.dumps(payload.body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Holdfast-Webhooks/1",
        "Idempotency-Key": run.idempotency_key,
        **signed(_keys(payload, run), run.job_id, int(time.time()), body),
    }
    within = min(WHOLE_EXCHANGE, run.time_left - TO_RECORD).total_seconds()
    try:
        answer = post(url, addresses, headers, body, within_seconds=within)
    except ssl.SSLCertVerificationError as error:
        raise EnvironmentalFailure(f"{url.host}: {error.verify_message}", code="webhook-certificate-invalid") from error
    except TimeoutError as error:
        raise TransientFailure(f"{url.host} did not answer in time ({error})", code="webhook-timeout") from error
    except (OSError, http.client.HTTPException) as error:
        raise TransientFailure(f"{url.host}: {error!r}", code="webhook-unreachable") from error
    return _judged(answer, url)


def _judged(answer: Answer, url: Url) -> dict[str, int]:
    """{"status": …} for a yes; raises what any other status stands for, under the code "http-<status>"."""
    if 200 <= answer.status <= 299:
        return {"status": answer.status}
    failure = _FAILURES[class_of_status(answer.status)]
    wait = parse_retry_after(answer.retry_after, datetime.now(UTC)) if answer.retry_after else None
    said = f"{url.host} answered {answer.status}{_meaning(answer)}"
    raise failure(said, code=f"http-{answer.status}", retry_after=wait)


def _meaning(answer: Answer) -> str:
    if 300 <= answer.status <= 399:
        # One that is followed leads to an address nobody checked, and hands body and signature to somebody else.
        return f": a redirect to {str(answer.location)[:80]!r}; none is followed, submit with the new address"
    return _MEANINGS.get(answer.status, "")


def _keys(payload: DeliverWebhook, run: Run) -> list[bytes]:
    """Read at every delivery, so that a secret put in place counts from the next one on.

    By tenant, because a tenant chooses url and body: given another's secret, it would be handed that tenant's
    signature under a body of its own making.
    """
    from botocore.exceptions import ClientError

    owner = "" if run.tenant is None else f"{run.tenant}/"
    name = f"holdfast/{run.stage}/webhooks/{owner}{payload.secret_name}"
    secrets = client("secretsmanager", answer_within=timedelta(seconds=2), tries=2)
    try:
        found = secrets.get_secret_value(SecretId=name)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code")
        if code in _SECRET_NOT_THERE:
            raise EnvironmentalFailure(
                f"secret {name} cannot be read ({code}); create it", code="webhook-secret-missing"
            ) from error
        raise
    return keys_of(found.get("SecretString", ""), name)
