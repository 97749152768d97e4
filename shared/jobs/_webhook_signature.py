"""Standard Webhooks 1.0, symmetric scheme: https://github.com/standard-webhooks/standard-webhooks, spec/."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

from shared.errors import DeterministicFailure

PREFIX = "whsec_"
KEY_BYTES = range(24, 65)


def keys_of(secret: str, name: str) -> list[bytes]:
    """The signing keys in a stored secret: "whsec_<base64>", several apart by blanks while one replaces another.

    Raises DeterministicFailure (webhook-secret-invalid) saying which of them is wrong, never what it is.
    """
    keys = [_key(part) for part in secret.split()]
    if not keys or None in keys:
        which = f"secret {keys.index(None) + 1} of {len(keys)} in it" if keys else "it is empty; it"
        raise DeterministicFailure(
            f"{name}: {which} must be {PREFIX} and the base64 of {KEY_BYTES.start} to {KEY_BYTES.stop - 1} bytes",
            code="webhook-secret-invalid",
        )
    return [key for key in keys if key is not None]


def _key(part: str) -> bytes | None:
    try:
        key = base64.b64decode(part.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if part.startswith(PREFIX) and len(key) in KEY_BYTES else None


def signed(keys: Sequence[bytes], webhook_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers. A signature by each key, so a receiver may hold the old secret or the new one.

    webhook_id  must have no dot, or one message could be read as another
    timestamp   of this attempt, in Unix seconds: receivers refuse old ones
    """
    if "." in webhook_id:
        raise ValueError(f"webhook id {webhook_id!r} has a dot in it")
    content = b".".join((webhook_id.encode(), str(timestamp).encode(), body))
    signatures = [base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode() for key in keys]
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
