"""What stands outside the pipeline: a partner who checks what it is sent, and the mail that has left."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from typing import Any

from local.environment import client
from tests.e2e.cloud import Cloud, fetch
from tests.receiver import Request

KEY = b"shared with this partner, no other"
SECRET_NAME = "partner-of-job-types"
TENANT = "acme-eu"
TOLERANCE_SECONDS = 300


def agree_on_a_secret(cloud: Cloud) -> None:
    """What an operator does once for each partner."""
    client("secretsmanager", cloud.up.endpoint).create_secret(
        Name=f"holdfast/local/webhooks/{TENANT}/{SECRET_NAME}",
        SecretString="whsec_" + base64.b64encode(KEY).decode(),
    )


def verifies(request: Request) -> bool:
    """As Standard Webhooks tells receivers to: one of the signatures is ours, and its time is about now."""
    id, at = request.headers["webhook-id"], request.headers["webhook-timestamp"]
    expected = hmac.new(KEY, f"{id}.{at}.".encode() + request.body, hashlib.sha256).digest()
    signatures = request.headers["webhook-signature"].split()
    recent = abs(time.time() - int(at)) < TOLERANCE_SECONDS
    return recent and f"v1,{base64.b64encode(expected).decode()}" in signatures


def verify_sender(cloud: Cloud, domain: str) -> None:
    """What SES wants before it sends for a domain; the emulator asks for no DNS record."""
    client("sesv2", cloud.up.endpoint).create_email_identity(EmailIdentity=domain)


def mails_to(cloud: Cloud, address: str) -> list[dict[str, Any]]:
    """What SES has sent to this address: MessageId, Source, To, Subject, BodyText, …"""
    by_account = fetch(f"{cloud.up.endpoint}/_ministack/ses/messages").json["messages"]
    return [mail for mails in by_account.values() for mail in mails if address in mail["To"]]
