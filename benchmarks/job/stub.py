"""DynamoDB and SQS as far as one benchmark asks: every call is granted, on 127.0.0.1, in a process of its own, so that
its CPU is nobody's. Prints its port and serves until its standard input ends.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from shared.adapters.wire import to_item
from shared.domain.job import Job
from shared.domain.states import State

NOW = datetime.now(UTC)
RUNNING = Job(
    job_id="job_" + "0" * 26,
    type="bench",
    queue="emails.high",
    state=State.RUNNING,
    payload_version=1,
    created_at=NOW,
    run_at=NOW,
    deadline_at=NOW + timedelta(hours=24),
    max_age_seconds=86_400,
    max_attempts=6,
    fingerprint=bytes(16),
    run=1,
    attempts=1,
    dispatch=1,
    tenant="acme-eu",
    payload='{"tenantId":"acme-eu","month":"2026-05"}',
    available_at=NOW,
    queued_at=NOW,
)
SETS = re.compile(r"(#\w+) = (:\w+)")


def updated(asked: dict[str, Any]) -> dict[str, Any]:
    """The record after an update that is granted, where the caller asked for it."""
    if asked.get("ReturnValues") != "ALL_NEW":
        return {}
    names, values = asked["ExpressionAttributeNames"], asked["ExpressionAttributeValues"]
    sets = {names[name]: values[value] for name, value in SETS.findall(asked["UpdateExpression"])}
    return {"Attributes": to_item(RUNNING) | asked["Key"] | sets}


class Stub(BaseHTTPRequestHandler):
    """One connection, kept open."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Any call."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
        answer: dict[str, Any] = {}
        if operation == "UpdateItem":
            answer = updated(asked)
        elif operation == "GetQueueUrl":
            answer = {"QueueUrl": f"http://127.0.0.1:{self.server.server_port}/0/queue"}  # type: ignore[attr-defined]
        elif operation.endswith("Batch"):
            answer = {"Successful": [{"Id": one["Id"], "MessageId": "m"} for one in asked["Entries"]], "Failed": []}
        body = json.dumps(answer, default=lambda value: value.decode("latin-1")).encode()
        self.send_response(200)
        self.send_header("Content-Type", self.headers.get("Content-Type", "application/x-amz-json-1.0"))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Silent."""


def main() -> None:
    """Serve."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
