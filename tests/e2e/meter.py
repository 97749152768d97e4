"""A meter between the functions and the emulator: every DynamoDB call they make, with what DynamoDB would bill."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from typing import Any

from tests.guarded import GuardedHandler


@dataclass(frozen=True)
class Call:
    """One call on the table: the operation, the request as sent, and its capacity, indexes included."""

    operation: str
    request: Mapping[str, Any]
    capacity: list[Mapping[str, Any]]

    @property
    def units(self) -> float:
        return float(sum(used["CapacityUnits"] for used in self.capacity))

    def __str__(self) -> str:
        parts = [f"table {used['Table']['CapacityUnits']:g}" for used in self.capacity]
        for used in self.capacity:
            indexes = used.get("GlobalSecondaryIndexes", {})
            parts += [f"{name} {index['CapacityUnits']:g}" for name, index in sorted(indexes.items())]
        return f"{self.operation:<18} {self.units:g} = {' + '.join(parts)}"


class Meter(ThreadingHTTPServer):
    """Passes every request on to the emulator, asking DynamoDB for the consumed capacity on the way."""

    daemon_threads = True

    def __init__(self, emulator_port: int) -> None:
        self.emulator_port, self.calls, self.lock = emulator_port, list[Call](), threading.Lock()
        super().__init__(("127.0.0.1", 0), _Pass)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def calls_about(self, job_id: str) -> list[Call]:
        """The calls whose request names this job."""
        with self.lock:
            return [call for call in self.calls if job_id in json.dumps(call.request)]


class _Pass(GuardedHandler):
    protocol_version = "HTTP/1.1"
    server: Meter

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        service, _, operation = self.headers.get("X-Amz-Target", "").partition(".")
        metered = service == "DynamoDB_20120810"
        if metered:
            body = json.dumps(json.loads(body) | {"ReturnConsumedCapacity": "INDEXES"}).encode()
        status, headers, answer = self._forward(body)
        if metered:
            self._note(operation, json.loads(body), json.loads(answer))
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.emulator_port, timeout=30)
        try:
            headers = {k: v for k, v in self.headers.items() if k.lower() not in ("content-length", "expect")}
            # The signature no longer fits the body; an emulator that enforces no IAM does not look at it.
            upstream.request(self.command, self.path, body, headers)
            answer = upstream.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            upstream.close()

    def _note(self, operation: str, request: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        used = answer.get("ConsumedCapacity", [])
        with self.server.lock:
            self.server.calls.append(Call(operation, request, used if isinstance(used, list) else [used]))

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def metered(lambda_client: Any, functions: list[str], emulator_port: int) -> Iterator[Meter]:
    """A meter that these functions call instead of the emulator; afterwards they are as they were.

    A function's own AWS_ENDPOINT_URL wins over the emulator's.
    """
    with Meter(emulator_port) as meter:
        thread = threading.Thread(target=meter.serve_forever)
        thread.start()
        before = {name: _variables(lambda_client, name) for name in functions}
        try:
            for name, variables in before.items():
                _set(lambda_client, name, variables | {"AWS_ENDPOINT_URL": meter.url})
            yield meter
        finally:
            for name, variables in before.items():
                _set(lambda_client, name, variables)
            meter.shutdown()
            thread.join()


def _variables(lambda_client: Any, name: str) -> dict[str, str]:
    found: dict[str, str] = lambda_client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    return found


def _set(lambda_client: Any, name: str, variables: dict[str, str]) -> None:
    lambda_client.update_function_configuration(FunctionName=name, Environment={"Variables": variables})
