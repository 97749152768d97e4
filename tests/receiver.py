"""Somebody else's server, on this machine: answers as it is told and keeps what it was sent."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Request:
    """One request as it came in; header names in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes


Answer = Callable[["_Handler"], None]
"""Writes what the receiver answers."""


@dataclass
class Receiver:
    """`answers` are given in turn, the last one for ever. `accepted` are the bodies of what got a yes, by key: what a
    receiver that knows repeats has taken. `flooded` counts the bytes of `floods`.
    """

    answers: list[Answer]
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    accepted: dict[str, bytes] = field(default_factory=dict)
    flooded: int = 0
    closing: threading.Event = field(default_factory=threading.Event)

    def next_answer(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def url(self, scheme: str = "http", host: str = "127.0.0.1", path: str = "/hooks") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@contextmanager
def receiver(answers: Sequence[Answer] | None = None, certificate: Path | None = None) -> Iterator[Receiver]:
    """Listening on 127.0.0.1; with TLS when given a certificate and its key in one PEM file."""
    kept = Receiver(list(answers or [says(200)]))

    class Handler(_Handler):
        receiver = kept

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    kept.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield kept
    finally:
        kept.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    receiver: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.request_seen = Request(self.path, headers, body)
        self.receiver.requests.append(self.request_seen)
        with suppress(OSError):  # the other side was tired of it
            self.receiver.next_answer()(self)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


def says(status: int, body: bytes = b"", **headers: str) -> Answer:
    """An ordinary answer; header names with underscores for dashes."""

    def answer(handler: _Handler) -> None:
        if status < 300:
            seen = handler.request_seen
            handler.receiver.accepted.setdefault(seen.headers.get("idempotency-key", ""), seen.body)
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def never_answers(handler: _Handler) -> None:
    """Takes the request, and that is all."""
    handler.receiver.closing.wait(30)


def hangs_up(handler: _Handler) -> None:
    """Takes the request and closes the connection."""


def drips(head: bytes, bytes_per_second: float = 10) -> Answer:
    """Sends this, and then a byte at a time for ever."""

    def answer(handler: _Handler) -> None:
        handler.wfile.write(head)
        while not handler.receiver.closing.is_set():
            handler.wfile.write(b"a")
            time.sleep(1 / bytes_per_second)

    return answer


def floods(handler: _Handler) -> None:
    """Answers 200 with a body without end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while not handler.receiver.closing.is_set():
        handler.wfile.write(b"a" * 65_536)
        handler.receiver.flooded += 65_536
