"""The sample jobs of `make local`, sent over HTTP as a client would: one that completes, one that dies on purpose."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping

from local.place import LocalCloudError, Place

EXPORT = {"tenantId": "acme-eu", "month": "2026-05"}
MISSING = {"tenantId": "acme-eu", "month": "2026-04"}
ANNOUNCED = "two sample jobs: one completes; the other names a month without data, to show how a job dies"


def curl(place: Place) -> str:
    """The README's line, for this address."""
    header = "-H 'content-type: application/json'"
    return f"curl -s -XPOST {place.url}/exports {header} -d '{json.dumps(EXPORT, separators=(',', ':'))}'"


def submit_samples(place: Place, say: Callable[[str], None]) -> None:
    """Ask for both exports. Raises LocalCloudError when the API does not accept one."""
    say(ANNOUNCED)
    for export in (EXPORT, MISSING):
        status, answer = _post(place, "/exports", export)
        if status != 202:
            raise LocalCloudError(f"POST /exports {json.dumps(export)} answered {status}: {json.dumps(answer)}")
        say(f"POST /exports {json.dumps(export)}: 202 {answer['jobId']}")


def _post(place: Place, path: str, body: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=35)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()
