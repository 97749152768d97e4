"""The emulator's own port: a web page that a developer has open gets nothing of it."""

from __future__ import annotations

import base64
import io
import json
import socket
import zipfile
from collections.abc import Iterator

import pytest

from local.emulator import start_emulator, wait_until_ready
from local.environment import client
from local.place import Place
from local.processes import end
from tests.e2e.cloud import fetch
from tests.e2e.conftest import some_port

FROM_ELSEWHERE = [
    {"Host": "evil.example"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},  # the address bar led elsewhere, and that redirected
]
CREATE_FUNCTION = "/2015-03-31/functions"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """An empty emulator, started as `make up` starts it."""
    place = Place(home=tmp_path_factory.mktemp("emulator"), port=some_port())
    emulator = start_emulator(place, place.port)
    try:
        wait_until_ready(place, place.port, emulator)
        yield place.port
    finally:
        end(emulator)


def url(port: int, path: str) -> str:
    return f"http://127.0.0.1:{port}{path}"


def a_function() -> bytes:
    """What creates a function without any credentials, as a form or a script of any page may send it."""
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("evil.py", "def handler(event, context):\n    return 'ran'\n")
    wanted = {"FunctionName": "evil", "Runtime": "python3.12", "Handler": "evil.handler"}
    zipped = {"ZipFile": base64.b64encode(code.getvalue()).decode()}
    return json.dumps(wanted | {"Role": "arn:aws:iam::000000000000:role/x", "Code": zipped}).encode()


@pytest.mark.parametrize("page", FROM_ELSEWHERE, ids=str)
def test_no_page_makes_a_function_calls_one_or_wipes_the_cloud(port: int, page: dict[str, str]) -> None:
    form = {"Content-Type": "text/plain"} | page
    refused = [
        fetch(url(port, CREATE_FUNCTION), "POST", a_function(), form),
        fetch(url(port, f"{CREATE_FUNCTION}/evil/invocations"), "POST", b"{}", form),
        fetch(url(port, "/_ministack/reset"), "POST", b"", form),
        fetch(url(port, "/?Action=CreateQueue&QueueName=evil&Version=2012-11-05"), headers=page),
    ]

    assert {answer.status for answer in refused} <= {403, 421}
    assert client("lambda", url(port, "")).list_functions()["Functions"] == []
    assert client("sqs", url(port, "")).list_queues().get("QueueUrls", []) == []


@pytest.mark.parametrize("page", FROM_ELSEWHERE, ids=str)
def test_no_page_may_ask_before_it_sends_or_read_what_is_answered(port: int, page: dict[str, str]) -> None:
    for method in ("OPTIONS", "GET", "HEAD"):
        answer = fetch(url(port, CREATE_FUNCTION), method, headers=page | {"Access-Control-Request-Method": "POST"})

        assert answer.status in (403, 421)
        assert not any(name.lower().startswith("access-control-") for name in answer.headers)


def test_no_page_opens_a_web_socket(port: int) -> None:
    asked = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    key = {"Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(), "Origin": "https://evil.example"}

    assert fetch(url(port, "/"), headers=asked | key | {"Host": "a.execute-api.localhost"}).status == 403


def test_the_same_calls_of_a_program_are_answered(port: int) -> None:
    """Without this one, a port that answers nobody would pass all the others."""
    answer = fetch(url(port, CREATE_FUNCTION), "POST", a_function(), {"Content-Type": "text/plain"})
    ran = fetch(url(port, f"{CREATE_FUNCTION}/evil/invocations"), "POST", b"{}")
    client("lambda", url(port, "")).delete_function(FunctionName="evil")

    assert (answer.status, ran.status, ran.body) == (201, 200, b'"ran"')


def test_a_presigned_link_opens_in_a_tab_from_anywhere_and_only_there(port: int) -> None:
    s3 = client("s3", url(port, ""), signature_version="s3v4", s3={"addressing_style": "path"})
    s3.create_bucket(Bucket="results")
    s3.put_object(Bucket="results", Key="may.txt", Body=b"hello")
    link = s3.generate_presigned_url("get_object", Params={"Bucket": "results", "Key": "may.txt"}, ExpiresIn=60)
    tab = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}

    assert fetch(link, headers=tab | {"User-Agent": "Mozilla/5.0"}).body == b"hello"
    assert fetch(link, headers=tab | {"Sec-Fetch-Dest": "image"}).status == 403
    assert fetch(link.partition("?")[0], headers=tab).status == 403


def test_a_second_host_line_does_not_help(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n")

        assert connection.recv(1000).split(b" ")[1] in (b"400", b"421")
