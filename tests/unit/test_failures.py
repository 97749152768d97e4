"""The table of others' exceptions, with real ones of real libraries."""

from __future__ import annotations

import json
import socket
import ssl
import urllib.error
import urllib.request
from datetime import timedelta
from email.message import Message
from email.utils import format_datetime
from typing import Any

import botocore.exceptions
import pytest
import requests
import urllib3
import urllib3.exceptions
from botocore.exceptions import ClientError
from pydantic import BaseModel, ValidationError

from shared.domain.failures import classify
from shared.domain.retry import FailureClass
from shared.errors import DeterministicFailure, EnvironmentalFailure, TransientFailure, UnknownOutcome
from tests.builders import NOW

T, D, E = FailureClass.TRANSIENT, FailureClass.DETERMINISTIC, FailureClass.ENVIRONMENTAL


def client_error(code: str, status: int = 400, headers: dict[str, str] | None = None) -> ClientError:
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": headers or {}}
    return ClientError({"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": metadata}, "Op")  # type: ignore[typeddict-item]


def http_error(status: int, headers: dict[str, str] | None = None) -> urllib.error.HTTPError:
    said = Message()
    for name, value in (headers or {}).items():
        said[name] = value
    return urllib.error.HTTPError("https://partner.example", status, "no", said, None)


class Response:
    """As requests and httpx carry one on their exceptions."""

    def __init__(self, status_code: int, headers: dict[str, str]) -> None:
        self.status_code, self.headers = status_code, headers


class LikeRequests(Exception):
    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"{status} for url")
        self.response = Response(status, headers or {})


class Model(BaseModel):
    n: int


def validation_error() -> ValidationError:
    with pytest.raises(ValidationError) as raised:
        Model.model_validate({"n": "x"})
    return raised.value


CASES: list[tuple[BaseException, FailureClass, str]] = [
    (TransientFailure("x", code="mine"), T, "mine"),
    (DeterministicFailure("x"), D, "deterministic"),
    (EnvironmentalFailure("x", code="quota"), E, "quota"),
    (UnknownOutcome("x"), FailureClass.UNKNOWN_OUTCOME, "unknown-outcome"),
    (client_error("SlowDown", 503), T, "SlowDown"),
    (client_error("ThrottlingException"), T, "ThrottlingException"),
    (client_error("TooManyRequestsException", 429), T, "TooManyRequestsException"),
    (client_error("ProvisionedThroughputExceededException"), T, "ProvisionedThroughputExceededException"),
    (client_error("AccessDenied", 403), E, "AccessDenied"),
    (client_error("SendingPausedException"), E, "SendingPausedException"),
    (client_error("ServiceQuotaExceededException", 402), E, "ServiceQuotaExceededException"),
    (client_error("MessageRejected"), D, "MessageRejected"),
    (client_error("ValidationException"), D, "ValidationException"),
    (client_error("SomethingNew", 500), T, "SomethingNew"),
    (client_error("SomethingNew", 404), D, "SomethingNew"),
    (http_error(429), T, "http-429"),
    (http_error(503), T, "http-503"),
    (http_error(500), T, "http-500"),
    (http_error(404), T, "http-404"),
    (http_error(410), D, "http-410"),
    (http_error(403), E, "http-403"),
    (http_error(401), E, "http-401"),
    (LikeRequests(502), T, "http-502"),
    (LikeRequests(404), T, "http-404"),
    (client_error("NoSuchKey", 404), D, "NoSuchKey"),
    (LikeRequests(422), D, "http-422"),
    (urllib.error.URLError("no route"), T, "URLError"),
    (urllib3.exceptions.ReadTimeoutError(None, "/", "slow"), T, "ReadTimeoutError"),  # type: ignore[arg-type]
    (urllib3.exceptions.ProtocolError("reset"), T, "ProtocolError"),
    (botocore.exceptions.EndpointConnectionError(endpoint_url="x"), T, "EndpointConnectionError"),
    (botocore.exceptions.ParamValidationError(report="x"), D, "ParamValidationError"),
    (botocore.exceptions.NoCredentialsError(), E, "NoCredentialsError"),
    (TimeoutError("slow"), T, "TimeoutError"),
    (ConnectionResetError("reset"), T, "ConnectionResetError"),
    (socket.gaierror(socket.EAI_NONAME, "no such host"), T, "host-unknown"),
    (socket.gaierror(socket.EAI_AGAIN, "later"), T, "resolver-failed"),
    (ssl.SSLError("handshake"), T, "SSLError"),
    (validation_error(), D, "ValidationError"),
    (json.JSONDecodeError("x", "", 0), D, "JSONDecodeError"),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"), D, "UnicodeDecodeError"),
    (KeyError("vat_rate"), D, "KeyError"),
    (TypeError("x"), D, "TypeError"),
    (ZeroDivisionError(), D, "ZeroDivisionError"),
    (RecursionError(), D, "RecursionError"),
    (ModuleNotFoundError("stripe"), D, "ModuleNotFoundError"),
    (MemoryError(), T, "MemoryError"),
    (SystemExit(3), T, "SystemExit"),
    (Exception("nobody knows"), T, "Exception"),
]


@pytest.mark.parametrize(
    ("error", "found", "code"), CASES, ids=lambda v: getattr(v, "code", "") if isinstance(v, str) else ""
)
def test_an_exception_belongs_to_its_class_under_a_short_code(
    error: BaseException, found: FailureClass, code: str
) -> None:
    failure = classify(error, NOW)
    assert (failure.failure_class, failure.code) == (found, code)
    assert failure.message


@pytest.mark.parametrize(
    "error",
    [
        http_error(503, {"Retry-After": "120"}),
        LikeRequests(429, {"Retry-After": "120"}),
        client_error("SlowDown", 503, {"retry-after": "120"}),
        TransientFailure("x", retry_after=timedelta(seconds=120)),
        http_error(503, {"Retry-After": format_datetime(NOW + timedelta(seconds=120), usegmt=True)}),
    ],
)
def test_a_servers_retry_after_is_read_wherever_it_stands(error: BaseException) -> None:
    assert classify(error, NOW).retry_after == timedelta(seconds=120)


@pytest.mark.parametrize("response", [None, "text", {"Error": "text"}, {"Error": {}}, {"ResponseMetadata": None}, 7])
def test_an_exception_with_an_odd_response_is_classified_all_the_same(response: Any) -> None:
    error = Exception("x")
    error.response = response  # type: ignore[attr-defined]
    assert classify(error, NOW).failure_class is FailureClass.TRANSIENT


def test_long_texts_are_cut_to_what_the_record_keeps() -> None:
    failure = classify(TransientFailure("x y\n" * 200, code="c" * 100), NOW)
    assert (len(failure.message), len(failure.code)) == (200, 64)
    assert "\n" not in failure.message


@pytest.mark.parametrize("retry_after", [30, "soon", None, 12.5])
def test_anothers_retry_after_of_any_kind_never_stops_the_judging(retry_after: Any) -> None:
    error = Exception("rate limited")
    error.retry_after = retry_after  # type: ignore[attr-defined]
    assert classify(error, NOW).retry_after is None


def test_ours_takes_seconds_too_and_any_code() -> None:
    failure = classify(TransientFailure("x", code=404, retry_after=30), NOW)  # type: ignore[arg-type]
    assert (failure.code, failure.retry_after) == ("404", timedelta(seconds=30))
    assert classify(TransientFailure("x", code=""), NOW).code == "transient"


def test_a_bugs_message_says_what_kind_of_bug() -> None:
    assert classify(KeyError("vat_rate"), NOW).message == "KeyError: 'vat_rate'"
    assert classify(TransientFailure("busy"), NOW).message == "busy"
    assert classify(ValueError(), NOW).message == "ValueError"
    assert classify(client_error("SlowDown", 503), NOW).message == "ClientError: m"


def test_an_exception_that_cannot_say_what_it_is_is_classified_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    assert "Mute" in classify(Mute(), NOW).message


@pytest.mark.parametrize(
    ("errno", "code"), [(socket.EAI_NONAME, "host-unknown"), (socket.EAI_AGAIN, "resolver-failed")]
)
def test_a_name_that_does_not_exist_is_told_from_a_resolver_in_trouble_through_any_http_client(
    monkeypatch: pytest.MonkeyPatch, errno: int, code: str
) -> None:
    def unresolved(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(errno, "no")

    monkeypatch.setattr(socket, "getaddrinfo", unresolved)
    for client in (
        lambda: urllib.request.urlopen("http://partner.example/"),
        lambda: urllib3.PoolManager(retries=False).request("GET", "http://partner.example/"),
        lambda: urllib3.PoolManager(retries=1).request("GET", "http://partner.example/"),
        lambda: requests.get("http://partner.example/"),
    ):
        with pytest.raises((OSError, urllib3.exceptions.HTTPError)) as raised:
            client()
        failure = classify(raised.value, NOW)
        assert (failure.failure_class, failure.code) == (T, code)


def test_a_bug_in_the_handling_of_an_unknown_name_keeps_its_own_name() -> None:
    try:
        raise socket.gaierror(socket.EAI_NONAME, "no")
    except OSError as error:
        bug = KeyError("fallback")
        bug.__context__ = error
    assert classify(bug, NOW).code == "KeyError"
