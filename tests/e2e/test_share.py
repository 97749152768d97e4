"""Forty slow receivers of one tenant, and one of another, on a lane that declares a share."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable

from local.environment import client
from tests.e2e.cloud import Cloud
from tests.receiver import drips, receiver, says

SLOW, OTHER, SECRET = "slow-co", "other-co", "partner"
RECEIVERS = 40
WITHIN_SECONDS = 60


def test_forty_receivers_that_drip_do_not_keep_another_tenants_webhook_waiting(
    cloud: Cloud, figure: Callable[[str], None]
) -> None:
    secrets = client("secretsmanager", cloud.up.endpoint)
    for tenant in (SLOW, OTHER):
        name = f"holdfast/local/webhooks/{tenant}/{SECRET}"
        secrets.create_secret(Name=name, SecretString="whsec_" + base64.b64encode(b"k" * 32).decode())

    with receiver([drips(b"HTTP/1.1 200 ")]) as dripping, receiver([says(200)]) as prompt:
        for number in range(RECEIVERS):
            _submit(cloud, SLOW, dripping.url(path=f"/{number}"))
        while not dripping.requests:
            time.sleep(0.05)
        asked_at = time.monotonic()
        _submit(cloud, OTHER, prompt.url())

        while not prompt.requests:
            assert time.monotonic() < asked_at + WITHIN_SECONDS, "the other tenant's webhook has not begun"
            time.sleep(0.05)
        waited = time.monotonic() - asked_at
        figure(f"behind {RECEIVERS} dripping receivers of one tenant another's webhook began after {waited:.1f} s")
        dripping.answers[:] = [says(200)]


def _submit(cloud: Cloud, tenant: str, url: str) -> str:
    payload = {"url": url, "body": {"type": "invoice.paid"}, "secretName": SECRET}
    return cloud.submit("/jobs", {"type": "deliver-webhook", "tenantId": tenant, "payload": payload})
