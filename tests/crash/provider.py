"""The outside world of the handlers: a server on 127.0.0.1 that takes their calls and keeps a ledger of them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any

from shared.domain.job import Job
from tests.crash.ledger import Call, End, Ledger, Start
from tests.crash.processes import spawned_at
from tests.guarded import GuardedHandler

Look = Callable[[str], Job | None]
"""Reads a job's record strongly."""


class Provider(ThreadingHTTPServer):
    """Takes `start`, `end` and `effect`. A start is answered only after its job's record was read: while the handler
    waits, its own run is the current one.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, ledger: Ledger, look: Look) -> None:
        self.ledger, self.look = ledger, look
        super().__init__(("127.0.0.1", 0), _Handler)

    def take(self, what: str, said: Mapping[str, Any]) -> None:
        """Write one line. Raises KeyError for anything but start, end and effect."""
        at = time.time()
        line = {"start": self._start, "end": self._end, "effect": self._effect}[what]
        line(said, at)

    def _start(self, said: Mapping[str, Any], at: float) -> None:
        job = self.look(said["jobId"])
        started_at = None if job is None else job.started_at
        start = Start(
            job_id=said["jobId"],
            mark=said["mark"],
            run=0 if job is None else job.run,
            attempt=said["attempt"],
            pid=said["pid"],
            at=at,
            leased_at=at if started_at is None else started_at.timestamp(),
            spawned_at=spawned_at(said["pid"]),
            key=said["key"],
        )
        with self.ledger.lock:
            self.ledger.starts.append(start)

    def _end(self, said: Mapping[str, Any], at: float) -> None:
        with self.ledger.lock:
            self.ledger.ends[said["mark"]] = End(mark=said["mark"], at=at, how=said["how"])

    def _effect(self, said: Mapping[str, Any], at: float) -> None:
        call = Call(job_id=said["jobId"], effect=said["effect"], mark=said["mark"], at=at)
        with self.ledger.lock:
            self.ledger.calls.append(call)


class _Handler(GuardedHandler):
    server: Provider

    def do_POST(self) -> None:
        self.server.take(self.path.strip("/"), json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response_only(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the ledger says it all."""


@contextmanager
def provider(ledger: Ledger, look: Look) -> Iterator[int]:
    """Serve until the end of the block; gives the port."""
    with Provider(ledger, look) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
