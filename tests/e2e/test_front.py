"""The one address: what it changes (the Host header) and what it leaves alone (everything else)."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer

import pytest

from local.front import MAX_BODY_BYTES, Front
from local.guard import BROWSER_MARKS
from tests.e2e.cloud import fetch


@dataclass
class Heard:
    """What the API behind the front was asked."""

    method: str
    path: str
    headers: Message
    body: bytes


@dataclass
class Api:
    """A stand-in for the emulator: answers as it is told and remembers what it heard."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    heard: list[Heard] = field(default_factory=list)


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def front(api: Api) -> Iterator[Front]:
    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            api.heard.append(Heard(self.command, self.path, self.headers, body))
            self.send_response_only(api.status)
            for name, value in api.headers.items():
                self.send_header(name, value)
            if api.status != 304:
                self.send_header("Content-Length", str(len(api.body)))
            self.end_headers()
            self.wfile.write(api.body)

        do_GET = do_DELETE = do_OPTIONS = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Emulator(ThreadingHTTPServer):
        request_queue_size = 128

    with serving(Emulator(("127.0.0.1", 0), Answer)) as emulator_port:
        front = Front(0, emulator_port, "abc123")
        with serving(front):
            yield front


class serving:
    """Runs a server on a thread for a while; gives its port."""

    def __init__(self, server: TCPServer) -> None:
        self.server, self.thread = server, threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> int:
        self.thread.start()
        return int(self.server.server_address[1])

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def url(front: Front, path: str) -> str:
    return f"http://127.0.0.1:{front.server_address[1]}{path}"


def test_a_request_reaches_the_api_under_the_name_the_emulator_knows(front: Front, api: Api) -> None:
    fetch(url(front, "/jobs/job_1?x=%20a"), "DELETE", headers={"If-None-Match": '"tag"'})

    (heard,) = api.heard
    assert (heard.method, heard.path) == ("DELETE", "/jobs/job_1?x=%20a")
    assert heard.headers["Host"] == f"abc123.execute-api.localhost:{front.emulator_port}"
    assert heard.headers["If-None-Match"] == '"tag"'


def test_a_body_the_api_will_refuse_still_reaches_the_api(front: Front, api: Api) -> None:
    api.status, api.body = 413, b'{"status":413}'

    answer = fetch(url(front, "/jobs"), "POST", b"x" * 2_000_000)

    assert (answer.status, answer.body) == (413, b'{"status":413}')
    assert len(api.heard[0].body) == 2_000_000


def test_the_answers_headers_pass_through(front: Front, api: Api) -> None:
    api.status, api.body = 202, b"{}"
    api.headers = {"Location": "/jobs/job_1", "ETag": '"tag"', "Retry-After": "2", "X-Content-Type-Options": "nosniff"}

    answer = fetch(url(front, "/jobs"), "POST", b"{}")

    assert answer.headers["Location"] == "/jobs/job_1"
    assert (answer.headers["ETag"], answer.headers["Retry-After"]) == ('"tag"', "2")
    assert answer.headers.get_all("X-Content-Type-Options") == ["nosniff"]


def test_a_304_has_no_body_and_the_connection_stays_usable(front: Front, api: Api) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", front.server_address[1], timeout=10)
    for api.status, expected in ((304, b""), (200, b"hello")):
        api.body = expected
        connection.request("GET", "/jobs/job_1")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (api.status, expected)
    connection.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example", "Content-Type": "text/plain"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_web_page_from_elsewhere_gets_nothing(
    front: Front, api: Api, method: str, headers: dict[str, str], status: int
) -> None:
    answer = fetch(url(front, "/jobs"), method, b"{}", headers)

    assert answer.status == status
    assert not any(name.lower().startswith("access-control-") for name in answer.headers)
    assert api.heard == []


def test_a_page_of_this_address_is_served_and_the_emulator_hears_of_no_browser(front: Front, api: Api) -> None:
    origin = url(front, "")
    browser = {"Origin": origin, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "User-Agent": "Mozilla/5.0"}

    assert fetch(url(front, "/jobs"), "POST", b"{}", browser).status == 200
    assert not {name.lower() for name in api.heard[0].headers} & BROWSER_MARKS


@pytest.mark.parametrize(
    "path",
    [
        *("/_ministack/reset", "/_ministack/config", "/_localstack/health", "/health", "/", "/bucket/key"),
        *("/jobs/../_ministack/reset", "/jobs/x/../../_ministack/reset", "//_ministack/reset", "/jobs/"),
        *("/2015-03-31/functions/x/invocations", "/?Action=CreateQueue&QueueName=x", "/JOBS", "/jobsx"),
    ],
)
def test_only_the_apis_own_paths_lead_through(front: Front, api: Api, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", front.server_address[1], timeout=10)
    connection.request("POST", path, b"")

    assert connection.getresponse().status == 404
    assert api.heard == []
    connection.close()


SECOND = b"DELETE /jobs/job_2 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: %d\r\nContent-Length: 0" % len(SECOND),
        b"Content-Length: 0\r\nContent-Length: %d" % len(SECOND),
        b"Content-Length : %d" % len(SECOND),
        b"X-A : b\r\nContent-Length: %d" % len(SECOND),
        b"X-A\r\nContent-Length: %d" % len(SECOND),
        b"Content-Length: %d\r\nTransfer-Encoding: chunked" % len(SECOND),
        b"Content-Length: " + b"9" * 5000,
    ],
)
def test_a_body_is_never_read_as_a_second_request(front: Front, api: Api, head: bytes) -> None:
    said = exchange(front, b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n" + head + b"\r\n\r\n" + SECOND)

    assert said.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 411 "))
    assert said.count(b"HTTP/1.1 ") == 1
    assert api.heard == []


@pytest.mark.parametrize("line", ["GET /jöbs HTTP/1.1", "GÉT /jobs HTTP/1.1", "GET /jobs", "GET /jobs HTTP/9.9", "\0"])
def test_a_request_line_that_cannot_be_read_is_a_400_and_not_a_dropped_connection(
    front: Front, api: Api, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    said = exchange(front, line.encode() + b"\r\nHost: 127.0.0.1\r\n\r\n")

    assert said.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"application/problem+json" in said
    assert (api.heard, capfd.readouterr().err) == ([], "")


def test_a_refusal_is_heard_though_the_body_was_not(front: Front, api: Api) -> None:
    answer = fetch(url(front, "/jobs"), "POST", b"x" * 5_000_000, {"Origin": "https://evil.example"})

    assert answer.status == 403


def test_a_client_that_waits_for_leave_to_send_its_body_is_given_it(front: Front, api: Api) -> None:
    head = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    with socket.create_connection(("127.0.0.1", front.server_address[1]), timeout=10) as connection:
        connection.sendall(head)
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")

    assert api.heard[0].body == b"{}"


def test_a_client_that_goes_away_in_the_middle_is_no_news(
    front: Front, api: Api, capfd: pytest.CaptureFixture[str]
) -> None:
    for begun in (b"POST /jobs HT", b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"):
        with socket.create_connection(("127.0.0.1", front.server_address[1]), timeout=10) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, not an end
            connection.sendall(begun)
    assert fetch(url(front, "/jobs")).status == 200

    assert len(api.heard) == 1
    assert capfd.readouterr().err == ""


def exchange(front: Front, raw: bytes) -> bytes:
    """Everything that comes back on one connection."""
    with socket.create_connection(("127.0.0.1", front.server_address[1]), timeout=10) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_a_body_above_what_api_gateway_takes_is_refused_unread(front: Front, api: Api) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", front.server_address[1], timeout=10)
    connection.putrequest("POST", "/jobs")
    connection.putheader("Content-Length", str(MAX_BODY_BYTES + 1))
    connection.endheaders()

    assert connection.getresponse().status == 413
    assert api.heard == []
    connection.close()


def test_sixty_clients_at_once_are_all_answered(front: Front, api: Api) -> None:
    api.status, api.body = 202, b"{}"
    together = threading.Barrier(60)

    def post(number: int) -> int:
        together.wait(timeout=10)
        return fetch(url(front, f"/jobs?{number}"), "POST", b"{}").status

    begun = time.monotonic()
    with ThreadPoolExecutor(60) as clients:
        answers = list(clients.map(post, range(60)))

    assert answers == [202] * 60
    assert sorted(heard.path for heard in api.heard) == sorted(f"/jobs?{number}" for number in range(60))
    assert time.monotonic() - begun < 3  # a connection that found no room is tried again after 1 s, 3 s, 7 s


def test_an_emulator_that_is_gone_is_a_502_that_says_so() -> None:
    front = Front(0, 9, "abc123")  # nothing listens on the discard port
    with serving(front):
        answer = fetch(url(front, "/jobs"))

    assert answer.status == 502
    assert "emulator" in answer.json["title"]
