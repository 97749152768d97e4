"""The one address: what it changes (the Host header) and what it leaves alone (everything else)."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from local.front import MAX_BODY_BYTES, Front
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

        do_GET = do_DELETE = do_POST

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

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.server, self.thread = server, threading.Thread(target=server.serve_forever)

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


def test_a_web_page_that_points_its_own_name_here_gets_nothing(front: Front, api: Api) -> None:
    answer = fetch(url(front, "/jobs"), "POST", b"{}", {"Host": "evil.example"})

    assert answer.status == 421
    assert api.heard == []


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
