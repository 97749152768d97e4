"""What proves that a call outside did not take place: real clients against real servers on this machine, so that it is
their own exceptions which are judged.
"""

from __future__ import annotations

import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
import requests
import urllib3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from shared.domain.not_done import proves_not_done
from shared.errors import DeterministicFailure, NotDone, TransientFailure, UnknownOutcome
from tests.certificates import certify
from tests.receiver import Receiver, hangs_up, receiver, says


@pytest.fixture
def nobody() -> str:
    """Where no server listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def somebody() -> Iterator[Receiver]:
    with receiver([says(200)]) as listening:
        yield listening


def ses(url: str, tries: int) -> Any:
    return boto3.session.Session("test", "test", region_name="eu-west-1").client(
        "sesv2",
        endpoint_url=url,
        config=Config(connect_timeout=1, read_timeout=0.3, retries={"mode": "standard", "total_max_attempts": tries}),
    )


def mail(url: str, tries: int = 1) -> None:
    ses(url, tries).send_email(Content={"Simple": {"Subject": {"Data": "x"}, "Body": {}}})


def raised(call: Callable[[], object]) -> BaseException:
    try:
        call()
    except Exception as error:
        return error
    pytest.fail("nothing was raised")


CLIENTS: dict[str, Callable[[str], object]] = {
    "botocore": mail,
    "requests": lambda url: requests.post(url, data=b"x", timeout=0.3).raise_for_status(),
    "urllib3": lambda url: urllib3.PoolManager().request("POST", url, body=b"x", timeout=0.3, retries=False),
    "urllib": lambda url: urllib.request.urlopen(url, data=b"x", timeout=0.3),
    "sockets": lambda url: socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=0.3),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_connection_that_was_refused_was_never_made(nobody: str, client: str) -> None:
    assert proves_not_done(raised(lambda: CLIENTS[client](nobody)))


@pytest.mark.parametrize("client", ["botocore", "requests", "urllib3", "urllib"])
def test_a_name_that_leads_nowhere_was_never_reached(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert proves_not_done(raised(lambda: CLIENTS[client]("http://no-such-name.invalid")))


@pytest.mark.parametrize("client", ["botocore", "requests", "urllib3", "urllib"])
def test_silence_after_sending_proves_nothing(somebody: Receiver, client: str) -> None:
    somebody.answers[:] = [hangs_up]
    assert not proves_not_done(raised(lambda: CLIENTS[client](somebody.url())))
    assert len(somebody.requests) == 1


def test_no_answer_in_time_proves_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        for client in CLIENTS.values():
            if client is not CLIENTS["sockets"]:
                assert not proves_not_done(raised(lambda client=client: client(url)))


@pytest.mark.parametrize("client", ["botocore", "requests", "urllib"])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 422, 429])
def test_a_refusal_by_the_provider_proves_it(somebody: Receiver, client: str, status: int) -> None:
    somebody.answers[:] = [says(status)]
    assert proves_not_done(raised(lambda: CLIENTS[client](somebody.url())))


@pytest.mark.parametrize("client", ["botocore", "requests", "urllib"])
@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_5xx_proves_nothing(somebody: Receiver, client: str, status: int) -> None:
    somebody.answers[:] = [says(status)]
    assert not proves_not_done(raised(lambda: CLIENTS[client](somebody.url())))


def test_a_certificate_that_is_not_the_hosts_ends_it_before_anything_is_sent(tmp_path: Any) -> None:
    served, _ = certify("elsewhere.example", tmp_path)
    with receiver([says(200)], served) as listening:
        for client in ("requests", "urllib"):
            assert proves_not_done(raised(lambda client=client: CLIENTS[client](listening.url("https"))))
        assert listening.requests == []


def test_a_request_that_its_client_did_not_build_was_never_sent() -> None:
    error = raised(lambda: ses("http://127.0.0.1:9", 1).send_email(Content="no"))
    assert proves_not_done(error)


def test_a_refusal_of_a_repeated_call_proves_nothing_of_the_first_that_nobody_answered(somebody: Receiver) -> None:
    somebody.answers[:] = [hangs_up, says(409)]
    error = raised(lambda: mail(somebody.url(), tries=2))
    assert isinstance(error, ClientError)
    assert len(somebody.requests) == 2
    assert not proves_not_done(error)


def test_a_connection_refused_to_a_repeated_call_proves_nothing_of_the_first_that_nobody_answered() -> None:
    """botocore's exception does not say that it tried before."""
    taken: list[str] = []

    def hangs_up_and_closes(handler: Any) -> None:
        taken.append("request")
        handler.server.socket.close()
        hangs_up(handler)

    with receiver([hangs_up_and_closes]) as listening:
        error = raised(lambda: mail(listening.url(), tries=3))
    assert isinstance(error, BotoCoreError)
    assert taken == ["request"]
    assert not proves_not_done(error)


def test_what_urllib3_repeated_proves_nothing_either() -> None:
    taken: list[str] = []

    def hangs_up_and_closes(handler: Any) -> None:
        taken.append("request")
        handler.server.socket.close()
        hangs_up(handler)

    with receiver([hangs_up_and_closes]) as listening:
        retries = urllib3.Retry(total=2, allowed_methods=None, backoff_factor=0)
        error = raised(lambda: urllib3.PoolManager().request("POST", listening.url(), body=b"x", retries=retries))
    assert taken == ["request"]
    assert not proves_not_done(error)


def test_a_failure_in_a_handlers_own_words_is_proven_by_what_it_was_raised_from() -> None:
    def told(cause: BaseException | None) -> BaseException:
        error = TransientFailure("in other words")
        error.__cause__ = cause
        return error

    assert proves_not_done(told(ConnectionRefusedError()))
    assert not proves_not_done(told(TimeoutError()))
    assert not proves_not_done(told(None))
    assert proves_not_done(NotDone(TransientFailure("it says so")))


def test_what_was_being_handled_meanwhile_is_another_calls_failure() -> None:
    """The first server was never reached; the second was asked instead, and did not answer."""

    def falls_back() -> None:
        try:
            raise ConnectionRefusedError
        except ConnectionRefusedError:
            raise TimeoutError  # noqa: B904

    assert not proves_not_done(raised(falls_back))


@pytest.mark.parametrize(
    "error",
    [
        KeyError("MessageId"), ValueError("no JSON"), TimeoutError(), ConnectionResetError(), BrokenPipeError(),
        OSError(), Exception(), UnknownOutcome("?"), DeterministicFailure("row 7"), ssl.SSLError(), SystemExit(),
    ],
)  # fmt: skip
def test_what_may_come_after_the_call_as_well_as_before_it_proves_nothing(error: BaseException) -> None:
    assert not proves_not_done(error)


def test_an_exception_that_cannot_be_looked_at_proves_nothing() -> None:
    class Hostile(Exception):
        @property
        def response(self) -> object:
            raise RuntimeError

    assert not proves_not_done(Hostile())
