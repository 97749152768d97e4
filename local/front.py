"""One plain address for the local cloud's API: `python -m local.front <port> <emulator port> <api id>`.

The emulator tells its APIs apart by the Host header, which no one wants to type. Everything else passes through as it
is, the API's refusals of bad input included.
"""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MAX_BODY_BYTES = 10 * 1024 * 1024
"""Where API Gateway itself refuses. What the API refuses earlier is the API's to say."""

ANSWER_SECONDS = 35.0
"""Above the 30 s after which API Gateway gives up on a function."""

HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect"}
    | {"host", "content-length"}  # said anew on each side
)


class Front(ThreadingHTTPServer):
    """The address. `api` is the Host header under which the emulator knows the API."""

    daemon_threads = True
    request_queue_size = 128
    """Connections that wait for their thread. The standard library's 5 turn a burst of clients away."""

    def __init__(self, port: int, emulator_port: int, api_id: str) -> None:
        self.emulator_port, self.api = emulator_port, f"{api_id}.execute-api.localhost:{emulator_port}"
        super().__init__(("127.0.0.1", port), Forward)
        bound = self.server_address[1]
        self.names = {f"{name}{port}" for name in ("127.0.0.1", "localhost") for port in ("", f":{bound}")}


class Forward(BaseHTTPRequestHandler):
    """One connection: forwards each request, whatever its method, and passes the answer back."""

    protocol_version = "HTTP/1.1"
    timeout = 60
    server: Front

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self.forward
        raise AttributeError(name)

    def forward(self) -> None:
        """Answer one request; 502 when the emulator is gone, with the way out."""
        if refusal := self._refusal():
            self.close_connection = True  # its body was not read, so what follows on the wire is no request
            self._problem(*refusal)
            return
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.emulator_port, timeout=ANSWER_SECONDS)
        try:
            answer = self._ask(upstream)
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close_connection = True
            self._problem(502, "The emulator did not answer", f"{type(error).__name__}: {error}; see make status")
            return
        finally:
            upstream.close()
        self._send(answer.status, [(k, v) for k, v in answer.getheaders() if k.lower() not in HOP_BY_HOP], body)

    def _refusal(self) -> tuple[int, str, str] | None:
        # A web page that points its own name at 127.0.0.1 could otherwise read and submit jobs in this browser.
        if self.headers.get("Host", "") not in self.server.names:
            return 421, "Misdirected Request", f"this address is http://127.0.0.1:{self.server.server_address[1]}"
        if "Transfer-Encoding" in self.headers:
            return 411, "Length Required", "send the body with a Content-Length"
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdecimal()):
            return 400, "Bad Request", "Content-Length is not a number"
        if int(length) > MAX_BODY_BYTES:
            return 413, "Content Too Large", f"the body has {length} bytes; API Gateway takes {MAX_BODY_BYTES}"
        return None

    def _ask(self, upstream: http.client.HTTPConnection) -> http.client.HTTPResponse:
        length = int(self.headers.get("Content-Length", "0"))
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        upstream.putheader("Host", self.server.api)
        for name, value in self.headers.items():
            if name.lower() not in HOP_BY_HOP:
                upstream.putheader(name, value)
        if length or self.command in ("POST", "PUT", "PATCH"):
            upstream.putheader("Content-Length", str(length))
        upstream.endheaders()
        for chunk in self._body(length):
            upstream.send(chunk)
        return upstream.getresponse()

    def _body(self, length: int) -> Iterator[bytes]:
        while length > 0:
            chunk = self.rfile.read(min(length, 64 * 1024))
            if not chunk:
                raise ConnectionError("the client ended in the middle of its body")
            length -= len(chunk)
            yield chunk

    def _problem(self, status: int, title: str, detail: str) -> None:
        document = {"type": "about:blank", "title": title, "status": status, "detail": detail}
        self._send(status, [("Content-Type", "application/problem+json")], json.dumps(document).encode())

    def _send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name.lower() == "x-content-type-options" for name, _ in headers):
            self.send_header("X-Content-Type-Options", "nosniff")
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the live view shows what the requests did."""


def main() -> None:
    """Serve until ended."""
    port, emulator_port, api_id = sys.argv[1:4]
    with Front(int(port), int(emulator_port), api_id) as front:
        front.serve_forever()


if __name__ == "__main__":
    main()
