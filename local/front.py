"""One plain address for the local cloud's API: `python -m local.front <port> <emulator port> <api id>`.

The emulator tells its APIs apart by the Host header, which no one wants to type. Only the API's own paths lead through:
under others the emulator has an administration that needs no credentials. What comes of a page from elsewhere is
refused (see guard.py); everything else passes through as it is, the API's refusals of bad input included.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import sys
from collections.abc import Iterator
from http import HTTPStatus
from socketserver import StreamRequestHandler, ThreadingTCPServer

from local.guard import BROWSER_MARKS, Refusal, refusal_of_api
from local.request_head import BadHead, Head, read_head
from shared.routes import is_path

MAX_BODY_BYTES = 10 * 1024 * 1024
"""Where API Gateway itself refuses. What the API refuses earlier is the API's to say."""

ANSWER_SECONDS = 35.0
"""Above the 30 s after which API Gateway gives up on a function."""

LAST_WORDS_SECONDS = 1.0
READ_BYTES = 64 * 1024
NO_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)

HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect"}
    | {"host", "content-length"}  # said anew on each side
)


class Front(ThreadingTCPServer):
    """The address. `api` is the Host header under which the emulator knows the API."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128
    """Connections that wait for their thread. The standard library's 5 turn a burst of clients away."""

    def __init__(self, port: int, emulator_port: int, api_id: str) -> None:
        self.emulator_port, self.api = emulator_port, f"{api_id}.execute-api.localhost:{emulator_port}"
        super().__init__(("127.0.0.1", port), Forward)
        self.origins = {f"http://{name}:{self.server_address[1]}" for name in ("127.0.0.1", "localhost")}


class Forward(StreamRequestHandler):
    """One connection: forwards each request, whatever its method, and passes the answer back."""

    timeout = 60
    server: Front

    def handle(self) -> None:
        """Answer requests until either side is done. A client that goes away in between is no news."""
        with contextlib.suppress(OSError):
            while self._handle_one():
                pass
            self._hear_out()

    def _hear_out(self) -> None:
        """Closing on bytes nobody read resets the connection, and the client would lose the answer with it."""
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(LAST_WORDS_SECONDS)
        for _ in range(MAX_BODY_BYTES // READ_BYTES):
            if not self.connection.recv(READ_BYTES):
                break

    def _handle_one(self) -> bool:
        try:
            head = read_head(self.rfile.readline)
        except BadHead as bad:
            return self._problem(Refusal(bad.status, HTTPStatus(bad.status).phrase, str(bad)))
        if head is None:
            return False
        if refused := self._refusal(head):
            return self._problem(refused, with_body=head.method != "HEAD")  # its own body was not read: no more here
        return self._forward(head)

    def _refusal(self, head: Head) -> Refusal | None:
        if foreign := refusal_of_api(head.headers, self.server.origins):
            return foreign
        if not is_path(head.target.partition("?")[0]):
            return Refusal(404, "Not Found", "this address leads to the API alone; GET /openapi.json lists its paths")
        if head.length > MAX_BODY_BYTES:
            why = f"the body has {head.length} bytes; API Gateway takes {MAX_BODY_BYTES}"
            return Refusal(413, "Content Too Large", why)
        return None

    def _forward(self, head: Head) -> bool:
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.emulator_port, timeout=ANSWER_SECONDS)
        with contextlib.closing(upstream):
            body = b"".join(self._body(head))
            try:
                answer = self._ask(upstream, head, body)
                said = answer.read()
            except (OSError, http.client.HTTPException) as error:
                why = f"{type(error).__name__}: {error}; see make status"
                return self._problem(Refusal(502, "The emulator did not answer", why))
        headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in HOP_BY_HOP]
        self._send(answer.status, headers, said, head.method != "HEAD", head.keeps_open)
        return head.keeps_open

    def _ask(self, upstream: http.client.HTTPConnection, head: Head, body: bytes) -> http.client.HTTPResponse:
        upstream.putrequest(head.method, head.target, skip_host=True, skip_accept_encoding=True)
        upstream.putheader("Host", self.server.api)
        for name, value in head.headers:
            if name.lower() not in HOP_BY_HOP | BROWSER_MARKS:
                upstream.putheader(name, value.encode("latin-1"))
        if body or head.method in ("POST", "PUT", "PATCH"):
            upstream.putheader("Content-Length", str(len(body)))
        upstream.endheaders(body)
        return upstream.getresponse()

    def _body(self, head: Head) -> Iterator[bytes]:
        if head.length and any(value.lower() == "100-continue" for value in head.all("expect")):
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        left = head.length
        while left > 0:
            chunk = self.rfile.read(min(left, READ_BYTES))
            if not chunk:
                raise ConnectionError("the client ended in the middle of its body")
            left -= len(chunk)
            yield chunk

    def _problem(self, refused: Refusal, with_body: bool = True) -> bool:
        headers = [("Content-Type", "application/problem+json")]
        self._send(refused.status, headers, refused.document(), with_body, keeps_open=False)
        return False

    def _send(
        self, status: int, headers: list[tuple[str, str]], body: bytes, with_body: bool, keeps_open: bool
    ) -> None:
        known = {name.lower() for name, _ in headers}
        if "x-content-type-options" not in known:
            headers = [*headers, ("X-Content-Type-Options", "nosniff")]
        if status not in NO_BODY:
            headers = [*headers, ("Content-Length", str(len(body)))]
        if not keeps_open:
            headers = [*headers, ("Connection", "close")]
        lines = [f"HTTP/1.1 {status} {http.client.responses.get(status, '')}"]
        lines += [f"{name}: {value}" for name, value in headers]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        self.wfile.write(head + body if with_body else head)


def main() -> None:
    """Serve until ended."""
    port, emulator_port, api_id = sys.argv[1:4]
    with Front(int(port), int(emulator_port), api_id) as front:
        front.serve_forever()


if __name__ == "__main__":
    main()
