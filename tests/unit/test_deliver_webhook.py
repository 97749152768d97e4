"""The job type deliver-webhook, against a real receiver on this machine."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import time
import urllib.error
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.message import Message
from pathlib import Path
from typing import Any

import boto3
import pytest
import standardwebhooks
from moto import mock_aws

from lambdas.api.view import shown
from shared.domain.failures import classify
from shared.domain.retry import FailureClass
from shared.domain.states import State
from shared.errors import DeterministicFailure, EnvironmentalFailure, JobFailure, TransientFailure
from shared.jobs import Catalogue, _bounded_post, _clients
from shared.jobs._http_answer import Answer as HttpAnswer
from shared.jobs._outside_address import Url, checked_addresses, is_public
from shared.jobs._webhook_signature import keys_of, signed
from shared.jobs.deliver_webhook import TO_RECORD, WHOLE_EXCHANGE, DeliverWebhook, _judged, deliver_webhook
from shared.queues import QUEUES
from tests.builders import NOW, a_job
from tests.certificates import certify
from tests.handling import HandledRun
from tests.receiver import Answer, Receiver, drips, floods, hangs_up, never_answers, receiver, says
from tests.world import World

OLD_KEY, NEW_KEY = b"o" * 24, b"n" * 32
BODY: dict[str, Any] = {"type": "invoice.paid", "data": {"invoice": "A-1", "customer": "Łódź"}}
SHORT = timedelta(seconds=3)  # one second of it for the exchange, two for the record
DELIVER = Catalogue().get("deliver-webhook")
assert DELIVER is not None


def written(key: bytes) -> str:
    return "whsec_" + base64.b64encode(key).decode()


@pytest.fixture(scope="module")
def secrets_manager() -> Iterator[Any]:
    """One for all tests, and one client of the handler's: making them is most of the time these tests take."""
    with pytest.MonkeyPatch.context() as environment, mock_aws():
        environment.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        _clients.client.cache_clear()
        yield boto3.client("secretsmanager")
        _clients.client.cache_clear()


@pytest.fixture
def secrets(secrets_manager: Any) -> Any:
    """Secrets Manager with the secret of acme-eu's partner, and no other."""
    for secret in secrets_manager.list_secrets(IncludePlannedDeletion=True)["SecretList"]:
        secrets_manager.delete_secret(SecretId=secret["Name"], ForceDeleteWithoutRecovery=True)
    secrets_manager.create_secret(Name="holdfast/local/webhooks/acme-eu/partner-a", SecretString=written(OLD_KEY))
    return secrets_manager


@pytest.fixture
def partner(secrets: Any) -> Iterator[Receiver]:
    with receiver() as listening:
        yield listening


def deliver(url: str, run: HandledRun | None = None, **fields: Any) -> HandledRun:
    run = run or HandledRun()
    deliver_webhook(DeliverWebhook(**({"url": url, "body": BODY, "secret_name": "partner-a"} | fields)), run)
    return run


def refusal(url: str, kind: type[JobFailure], run: HandledRun | None = None, **fields: Any) -> JobFailure:
    with pytest.raises(JobFailure) as raised:
        deliver(url, run, **fields)
    assert type(raised.value) is kind, raised.value
    return raised.value


# What is sent


def test_the_receiver_gets_the_body_signed_with_one_key_and_the_job_keeps_its_status(partner: Receiver) -> None:
    run = deliver(partner.url(path="/hooks/orders?v=2"))

    (request,) = partner.requests
    assert request.path == "/hooks/orders?v=2"
    assert request.body.decode() == '{"type":"invoice.paid","data":{"invoice":"A-1","customer":"Łódź"}}'
    assert request.headers["content-type"] == "application/json"
    assert request.headers["host"] == f"127.0.0.1:{partner.port}"
    assert request.headers["idempotency-key"] == run.idempotency_key
    assert run.effects == {"deliver": {"status": 200}}
    id, at = request.headers["webhook-id"], request.headers["webhook-timestamp"]
    expected = hmac.new(OLD_KEY, f"{id}.{at}.".encode() + request.body, hashlib.sha256).digest()
    assert id == run.job_id
    assert abs(int(at) - time.time()) < 5
    assert request.headers["webhook-signature"] == "v1," + base64.b64encode(expected).decode()


def test_the_signature_is_the_one_of_the_published_test_vector() -> None:
    keys = keys_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "vector")
    headers = signed(keys, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("key", [OLD_KEY, NEW_KEY], ids=["old", "new"])
def test_the_standards_own_implementation_verifies_what_is_sent(secrets: Any, partner: Receiver, key: bytes) -> None:
    """With either secret while one replaces the other."""
    name = "holdfast/local/webhooks/acme-eu/partner-a"
    secrets.put_secret_value(SecretId=name, SecretString=f"{written(NEW_KEY)} {written(OLD_KEY)}")
    deliver(partner.url())
    (request,) = partner.requests
    receiving = standardwebhooks.Webhook(written(key))
    assert receiving.verify(request.body, dict(request.headers)) == BODY
    for forged in ({"webhook-id": "msg_other"}, {"webhook-timestamp": str(int(time.time()) - 1)}):
        with pytest.raises(standardwebhooks.WebhookVerificationError):
            receiving.verify(request.body, {**request.headers, **forged})
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        receiving.verify(request.body + b" ", dict(request.headers))


def test_while_a_secret_is_replaced_both_sign(secrets: Any, partner: Receiver) -> None:
    name = "holdfast/local/webhooks/acme-eu/partner-a"
    secrets.put_secret_value(SecretId=name, SecretString=f"{written(NEW_KEY)} {written(OLD_KEY)}")
    deliver(partner.url())
    headers = partner.requests[0].headers
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + partner.requests[0].body
    both = [base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode() for key in (NEW_KEY, OLD_KEY)]
    assert headers["webhook-signature"] == f"v1,{both[0]} v1,{both[1]}"


def test_a_recorded_delivery_is_not_made_again(partner: Receiver) -> None:
    deliver(partner.url(), deliver(partner.url()))
    assert len(partner.requests) == 1


def test_one_delivery_is_accepted_under_one_key_after_the_receiver_was_down_three_times(partner: Receiver) -> None:
    partner.answers[:] = [says(503, Retry_After="7"), says(503), says(503), says(200)]
    run = HandledRun()
    first = refusal(partner.url(), TransientFailure, run)
    assert (first.code, first.retry_after) == ("http-503", timedelta(seconds=7))
    refusal(partner.url(), TransientFailure, run)
    refusal(partner.url(), TransientFailure, run)
    deliver(partner.url(), run)

    assert {r.headers["idempotency-key"] for r in partner.requests} == {run.idempotency_key}
    assert {r.body for r in partner.requests} == {partner.requests[0].body}
    assert list(partner.accepted) == [run.idempotency_key]
    assert len(partner.requests) == 4


def test_a_repeat_after_silence_has_the_same_key_so_the_receiver_counts_one(partner: Receiver) -> None:
    partner.answers[:] = [never_answers, says(200)]
    run = HandledRun(time_left=SHORT)
    assert refusal(partner.url(), TransientFailure, run).code == "webhook-timeout"
    deliver(partner.url(), run)
    assert [r.headers["webhook-id"] for r in partner.requests] == [run.job_id] * 2
    assert [r.headers["idempotency-key"] for r in partner.requests] == [run.idempotency_key] * 2


# What the receiver may answer


CLASSES = {
    TransientFailure: FailureClass.TRANSIENT,
    EnvironmentalFailure: FailureClass.ENVIRONMENTAL,
    DeterministicFailure: FailureClass.DETERMINISTIC,
}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, TransientFailure) for status in (404, 408, 409, 423, 425, 429, 500, 502, 503, 504, 599)),
        *((status, EnvironmentalFailure) for status in (401, 402, 403)),
        *((status, DeterministicFailure) for status in (300, 304, 400, 410, 413, 422, 451)),
    ],
)
def test_a_status_says_whether_trying_again_helps(partner: Receiver, status: int, kind: type[JobFailure]) -> None:
    partner.answers[:] = [says(status)]
    assert refusal(partner.url(), kind).code == f"http-{status}"


@pytest.mark.parametrize("status", range(400, 600))
def test_a_webhook_and_the_failure_table_say_the_same_of_every_status(status: int) -> None:
    said = urllib.error.HTTPError("https://partner.example", status, "no", Message(), None)
    with pytest.raises(JobFailure) as raised:
        _judged(HttpAnswer(status, None, None), Url.parse("https://partner.example/"))
    told = classify(said, NOW)
    assert (CLASSES[type(raised.value)], raised.value.code) == (told.failure_class, told.code)


def test_a_receiver_that_is_being_deployed_loses_no_delivery_to_a_404(partner: Receiver) -> None:
    partner.answers[:] = [says(404, Retry_After="30"), says(404), says(200)]
    run = HandledRun()
    assert refusal(partner.url(), TransientFailure, run).retry_after == timedelta(seconds=30)
    refusal(partner.url(), TransientFailure, run)
    assert deliver(partner.url(), run).effects == {"deliver": {"status": 200}}


def test_a_refused_signature_waits_for_the_receivers_people_and_says_so(partner: Receiver) -> None:
    partner.answers[:] = [says(401, Retry_After="600")]
    failure = refusal(partner.url(), EnvironmentalFailure)
    assert failure.retry_after == timedelta(seconds=600)
    assert "does not accept our signature" in str(failure)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_a_yes(partner: Receiver, status: int) -> None:
    partner.answers[:] = [says(status)]
    assert deliver(partner.url()).effects == {"deliver": {"status": status}}


def test_a_retry_after_is_honoured_as_a_date_too_and_nonsense_is_not(partner: Receiver) -> None:
    at = datetime.now(UTC) + timedelta(minutes=3)
    partner.answers[:] = [
        says(429, Retry_After=at.strftime("%a, %d %b %Y %H:%M:%S GMT")),
        says(429, Retry_After="soon"),
    ]
    wait = refusal(partner.url(), TransientFailure).retry_after
    assert wait is not None
    assert timedelta(seconds=170) < wait <= timedelta(seconds=180)
    assert refusal(partner.url(), TransientFailure).retry_after is None


def test_a_redirect_to_the_metadata_address_is_refused_and_not_followed(partner: Receiver) -> None:
    partner.answers[:] = [says(302, Location="http://169.254.169.254/latest/meta-data/\x1b[31m")]
    failure = refusal(partner.url(), DeterministicFailure)
    assert failure.code == "http-302"
    assert "'http://169.254.169.254/latest/meta-data/\\x1b[31m'" in str(failure)
    assert len(partner.requests) == 1


def writes(*pieces: bytes) -> Answer:
    """Sends these bytes, each piece a little after the one before."""

    def answer(handler: Any) -> None:
        for number, piece in enumerate(pieces):
            time.sleep(0.02 * min(number, 1))
            handler.wfile.write(piece)

    return answer


YES = b"HTTP/1.1 200 OK\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
PROCESSING = b"HTTP/1.1 102 Processing\r\n\r\n"


@pytest.mark.parametrize(
    "interim",
    [
        [EARLY], [PROCESSING], [b"HTTP/1.1 100 Continue\r\n\r\n"], [b"HTTP/1.1 199\r\n\r\n"],
        [EARLY, EARLY, PROCESSING], [b"HTTP/1.1 103 Hints\r\n" + b"Link: </a.css>\r\n" * 150 + b"\r\n"],
        [PROCESSING] * 20,
    ],
    ids=["103", "102", "100", "199", "several", "many-hints", "many"],
)  # fmt: skip
def test_interim_answers_are_skipped_and_the_final_one_counts(partner: Receiver, interim: list[bytes]) -> None:
    partner.answers[:] = [
        writes(*interim, YES + b"Content-Length: 2\r\n\r\nok"),
        writes(*interim, b"HTTP/1.1 503 No\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"),
    ]
    assert deliver(partner.url()).effects == {"deliver": {"status": 200}}
    refused = refusal(partner.url(), TransientFailure)
    assert (refused.code, refused.retry_after) == ("http-503", timedelta(seconds=7))


@pytest.mark.parametrize(
    "rest",
    [
        b"X-Trace: y\r\n" * 120 + b"Content-Length: 0\r\n\r\n", b"Set-Cookie: " + b"y" * 70_000 + b"\r\n\r\n",
        b"X: " + b"y" * 3_000_000 + b"\r\n\r\n", b"no header at all\r\n\xff\xfe\r\n: \r\n\r\n", b"", b"X: cut o",
        b"\r\n", b"Content-Length: -1\r\n\r\n", b"Content-Length: 9999999999999999999999\r\n\r\n",
        b"Content-Length: x\r\n\r\nab",
        b"Transfer-Encoding: chunked\r\n\r\nnonsense", b"Transfer-Encoding: gzip\r\nContent-Length: 5\r\n\r\n12",
    ],
    ids=lambda rest: f"{rest[:24]!r}-{len(rest)}",
)  # fmt: skip
def test_the_status_decides_whatever_follows_it(partner: Receiver, rest: bytes) -> None:
    partner.answers[:] = [writes(YES, rest), writes(b"HTTP/1.0 503\r\n", rest), writes(b"HTTP/1.1 410 Gone\r\n", rest)]
    assert deliver(partner.url()).effects == {"deliver": {"status": 200}}
    assert refusal(partner.url(), TransientFailure).code == "http-503"
    assert refusal(partner.url(), DeterministicFailure).code == "http-410"


@pytest.mark.parametrize("after", [YES, YES + b"X: ", b"HTTP/1.1 200 "], ids=["a-line", "in-a-header", "in-the-reason"])
def test_a_yes_is_kept_when_the_connection_breaks_right_after_it(partner: Receiver, after: bytes) -> None:
    def breaks(handler: Any) -> None:
        handler.wfile.write(after)
        handler.wfile.flush()
        time.sleep(0.05)
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset

    partner.answers[:] = [breaks]
    assert deliver(partner.url()).effects == {"deliver": {"status": 200}}


def test_a_yes_of_a_receiver_that_did_not_read_to_the_end_is_kept(secrets: Any) -> None:
    """It answers on the head alone and closes, so that the sending of a large body breaks."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hasty() -> None:
            taken, _ = listening.accept()
            taken.recv(1024)
            taken.sendall(YES + b"Content-Length: 0\r\n\r\n")
            taken.close()

        with ThreadPoolExecutor(1) as pool:
            pool.submit(hasty)
            run = deliver(f"http://127.0.0.1:{listening.getsockname()[1]}/", body={"x": "x" * 8_000_000})
    assert run.effects == {"deliver": {"status": 200}}


def test_a_switch_to_another_protocol_is_no_interim_answer(partner: Receiver) -> None:
    """Nobody asked for one, and what follows it is not HTTP."""
    partner.answers[:] = [writes(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", YES + b"\r\n")]
    assert refusal(partner.url(), TransientFailure).code == "http-101"


def test_no_exchange_however_slow_takes_longer_than_fifteen_seconds() -> None:
    """What the tests of slow receivers below measure in one second, for the whole of an attempt."""
    assert WHOLE_EXCHANGE + timedelta(seconds=_bounded_post.REST_SECONDS) <= timedelta(seconds=15)
    assert DELIVER.deadline > WHOLE_EXCHANGE + TO_RECORD


@pytest.mark.parametrize("interim", [PROCESSING, b"HTTP/1.1 103 Hints\r\nX: y\r\n" * 1000], ids=["heads", "headers"])
def test_interim_answers_without_end_hold_nobody(partner: Receiver, interim: bytes) -> None:
    def endless(handler: Any) -> None:
        while not handler.receiver.closing.is_set():
            handler.wfile.write(interim * 100)

    partner.answers[:] = [endless]
    started = time.monotonic()
    assert refusal(partner.url(), TransientFailure).code == "webhook-unreachable"
    assert time.monotonic() - started < 2


def test_an_endless_body_is_cut_off_and_its_status_counts(partner: Receiver) -> None:
    partner.answers[:] = [floods]
    assert deliver(partner.url()).effects == {"deliver": {"status": 200}}
    time.sleep(0.1)
    flooded = partner.flooded
    time.sleep(0.1)
    assert partner.flooded == flooded < 20_000_000  # what sockets hold, and it has ended


def test_a_body_that_drips_changes_nothing_and_holds_nobody(partner: Receiver) -> None:
    partner.answers[:] = [drips(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")]
    started = time.monotonic()
    assert deliver(partner.url()).effects == {"deliver": {"status": 200}}
    assert time.monotonic() - started < 2.5  # DRAIN_SECONDS and room


@pytest.mark.parametrize("head", [YES, YES + b"X: ", YES + b"X: y\r\n\r\n"])
def test_headers_that_drip_change_nothing_and_hold_nobody(partner: Receiver, head: bytes) -> None:
    partner.answers[:] = [drips(head)]
    started = time.monotonic()
    assert deliver(partner.url()).effects == {"deliver": {"status": 200}}
    assert time.monotonic() - started < 2  # REST_SECONDS and room


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 20", EARLY, EARLY + b"HTTP/1.1 ", b"HTTP/1.1 102 P\r\nX: "])
def test_an_answer_that_drips_before_its_status_holds_the_worker_no_longer_than_the_attempt_has(
    partner: Receiver, head: bytes
) -> None:
    partner.answers[:] = [drips(head)]
    started = time.monotonic()
    assert refusal(partner.url(), TransientFailure, HandledRun(time_left=SHORT)).code == "webhook-timeout"
    assert 0.9 < time.monotonic() - started < 2


def test_a_receiver_that_reads_nothing_holds_the_worker_no_longer_than_the_attempt_has(secrets: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        started = time.monotonic()
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
        failure = refusal(url, TransientFailure, HandledRun(time_left=SHORT), body={"x": "x" * 8_000_000})
        assert failure.code == "webhook-timeout"
        assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    "answer",
    [
        hangs_up,
        lambda h: h.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n"),
        *(
            writes(said)
            for said in (
                b"HTTP/1.1 \xff\xfe\r\n\r\n",
                b"HTTP/1.1 20",
                b"HTTP/1.1 2000 OK\r\n\r\n",
                b"HTTP/1.1 099 X\r\n\r\n",
                b"HTTP/2 200\r\n\r\n",
                b"\r\n\r\n",
                EARLY,
                EARLY[:-2],
                PROCESSING + b"garbage\r\n",
            )
        ),
    ],
)
def test_what_is_no_answer_is_tried_again(partner: Receiver, answer: Answer) -> None:
    partner.answers[:] = [answer]
    assert refusal(partner.url(), TransientFailure).code == "webhook-unreachable"


def test_nobody_listening_is_tried_again(secrets: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert refusal(f"http://127.0.0.1:{port}/", TransientFailure).code == "webhook-unreachable"


# TLS


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """trusting(pem): that authority, and no other."""

    def trust(pem: Path) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
        monkeypatch.setenv("SSL_CERT_DIR", str(pem.parent / "none"))
        _bounded_post._tls.cache_clear()

    yield trust
    _bounded_post._tls.cache_clear()


def test_a_delivery_over_tls_checks_the_certificate_against_the_hosts_name(
    secrets: Any, trusting: Any, tmp_path: Path
) -> None:
    served, trusted = certify("localhost", tmp_path)
    trusting(trusted)
    with receiver(certificate=served) as partner:
        assert deliver(partner.url("https", "localhost")).effects == {"deliver": {"status": 200}}
        # The same certificate at the same place, and another name in the URL.
        failure = refusal(partner.url("https", "127.0.0.1"), EnvironmentalFailure)
        assert failure.code == "webhook-certificate-invalid"
        assert len(partner.requests) == 1


@pytest.mark.parametrize("wrong", ["unknown authority", "ran out"])
def test_a_certificate_that_does_not_hold_gets_no_body_and_waits_for_somebody_to_mend_it(
    secrets: Any, trusting: Any, tmp_path: Path, wrong: str
) -> None:
    (tmp_path / "other").mkdir()
    served, trusted = certify("localhost", tmp_path, timedelta(days=-1 if wrong == "ran out" else 1))
    trusting(certify("localhost", tmp_path / "other")[1] if wrong == "unknown authority" else trusted)
    with receiver(certificate=served) as partner:
        failure = refusal(partner.url("https", "localhost"), EnvironmentalFailure)
        assert failure.code == "webhook-certificate-invalid"
        assert partner.requests == []


def test_a_handshake_that_never_ends_holds_the_worker_no_longer_than_the_attempt_has(secrets: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        started = time.monotonic()
        url = f"https://localhost:{mute.getsockname()[1]}/"
        assert refusal(url, TransientFailure, HandledRun(time_left=SHORT)).code == "webhook-timeout"
        assert time.monotonic() - started < 2


# Where it may lead

INSIDE = [
    "127.0.0.1", "127.8.9.10", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1",
    "169.254.169.254", "169.254.170.2", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.255", "240.0.0.1", "255.255.255.255", "192.0.0.192", "192.88.99.0", "192.88.99.1", "192.88.99.255",
    "::ffff:192.88.99.1", "64:ff9b::c058:6301", "3fff::1", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
    "192.0.0.9", "2001:2::1", "2001:10::1", "2001:20::1", "2001:1ff::1",
    "::", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::10.0.0.1", "fd00:ec2::254",
    "fc00::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "64:ff9b::a9fe:a9fe", "64:ff9b::a00:1",
    "64:ff9b:1::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:db8::1", "2001::1", "100::1", "5f00::1", "4000::1",
]  # fmt: skip
OUTSIDE = [
    "1.1.1.1", "8.8.8.8", "52.94.236.248", "172.32.0.1", "100.128.0.1", "169.253.255.255",
    "192.88.98.255", "192.88.100.0", "192.0.1.1", "3ffe::1", "2001:200::1", "2606:4700:4700::1111", "2a05:d018::1",
    "::ffff:8.8.8.8", "64:ff9b::808:808",
]  # fmt: skip


@pytest.mark.parametrize("ip", INSIDE)
def test_an_address_that_is_not_on_the_public_internet_is_known(ip: str) -> None:
    assert not is_public(ip)


@pytest.mark.parametrize("ip", OUTSIDE)
def test_an_address_on_the_public_internet_is_known(ip: str) -> None:
    assert is_public(ip)


class Names:
    """A resolver that answers each question about a name with the next of its answers."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers, self.asked = list(answers), 0

    def __call__(self, host: str, port: int, **_: Any) -> list[Any]:
        self.asked += 1
        ips = self.answers.pop(0)
        families = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(families[":" in ip], socket.SOCK_STREAM, 6, "", (ip, port)) for ip in ips]


@pytest.fixture
def resolving(monkeypatch: pytest.MonkeyPatch) -> Any:
    def to(*answers: list[str]) -> Names:
        names = Names(*answers)
        monkeypatch.setattr(socket, "getaddrinfo", names)
        return names

    return to


@pytest.mark.parametrize("stage", ["dev", "prod"])
@pytest.mark.parametrize("ips", [["127.0.0.1"], ["10.0.0.1"], ["8.8.8.8", "169.254.169.254"], ["::1", "8.8.8.8"]])
def test_a_name_with_any_address_inside_is_refused_before_anything_is_sent(
    resolving: Any, stage: str, ips: list[str]
) -> None:
    resolving(ips)  # no secret, no connection: either would fail in another way
    failure = refusal("https://partner.example.com/", DeterministicFailure, HandledRun(stage=stage))
    assert failure.code == "webhook-address-refused"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.1", "0", "[::1]",
        "localhost", "0xa9fea9fe", "0251.0376.0251.0376", "2852039166", "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::a9fe:a9fe]", "[64:ff9b::7f00:1]", "[3fff::1]", "192.88.99.1",
    ],
)  # fmt: skip
def test_no_spelling_of_an_address_inside_gets_past(host: str) -> None:
    failure = refusal(f"https://{host}/", DeterministicFailure, HandledRun(stage="prod"))
    assert failure.code == "webhook-address-refused"


@pytest.mark.parametrize("url", ["http://partner.example.com/", "https://partner.example.com:8443/", "http://8.8.8.8/"])
def test_a_deployed_stage_speaks_only_tls_to_port_443(resolving: Any, url: str) -> None:
    names = resolving(["8.8.8.8"])
    failure = refusal(url, DeterministicFailure, HandledRun(stage="prod"))
    assert failure.code == "webhook-address-refused"
    assert names.asked == 0


@pytest.mark.parametrize("ips", [["10.0.0.1"], ["8.8.8.8"], ["127.0.0.1", "8.8.8.8"], ["169.254.169.254"]])
def test_the_local_stage_speaks_without_tls_only_to_this_machine(resolving: Any, ips: list[str]) -> None:
    resolving(ips)
    assert refusal("http://partner.example.com/", DeterministicFailure).code == "webhook-address-refused"


def test_a_public_name_is_let_out_on_every_stage(resolving: Any) -> None:
    for loopback in (True, False):
        resolving(["8.8.8.8", "2606:4700:4700::1111"])
        found = checked_addresses(Url.parse("https://partner.example.com/"), loopback=loopback, last_error_code=None)
        assert [address[0] for _, address in found] == ["8.8.8.8", "2606:4700:4700::1111"]


def test_the_address_that_was_checked_is_the_one_spoken_to(partner: Receiver, resolving: Any) -> None:
    """DNS rebinding: the second look-up would lead elsewhere."""
    names = resolving(["127.0.0.1"], ["169.254.169.254"])
    deliver(partner.url(host="partner.example.com"))
    assert partner.requests[0].headers["host"] == f"partner.example.com:{partner.port}"
    assert names.asked == 1


def test_the_next_address_is_tried_where_the_first_takes_no_connection(partner: Receiver, resolving: Any) -> None:
    resolving(["127.0.0.9", "127.0.0.1"])
    deliver(partner.url(host="partner.example.com"))
    assert len(partner.requests) == 1


NO_NAME, AGAIN = socket.EAI_NONAME, socket.EAI_AGAIN


@pytest.fixture
def unresolved(monkeypatch: pytest.MonkeyPatch) -> Any:
    """unresolved(errno): what every look-up raises from now on."""

    def fail(errno: int) -> None:
        def look_up(*_: Any, **__: Any) -> Any:
            raise socket.gaierror(errno, "no address")

        monkeypatch.setattr(socket, "getaddrinfo", look_up)

    return fail


@pytest.mark.parametrize(
    ("before", "errno", "code"),
    [
        (None, NO_NAME, "webhook-host-unknown"),
        (None, socket.EAI_NODATA, "webhook-host-unknown"),
        (None, AGAIN, "webhook-resolver-failed"),
        (None, socket.EAI_FAIL, "webhook-resolver-failed"),
        ("webhook-host-unknown", NO_NAME, "webhook-host-unknown"),
        ("webhook-host-unknown", AGAIN, "webhook-resolver-failed"),
        ("webhook-resolver-failed", NO_NAME, "webhook-host-unknown"),
        *(
            (before, errno, "webhook-host-lost")
            for before in ("http-503", "webhook-timeout", "webhook-secret-missing", "webhook-host-lost")
            for errno in (NO_NAME, AGAIN)
        ),
    ],
)
def test_a_name_that_never_resolved_is_told_from_one_that_does_not_just_now(
    unresolved: Any, before: str | None, errno: int, code: str
) -> None:
    unresolved(errno)
    run = HandledRun(stage="prod", last_error_code=before)
    assert refusal("https://partner.example.com/", TransientFailure, run).code == code


def test_a_label_that_no_name_can_have_never_resolves(resolving: Any) -> None:
    failure = refusal(f"https://{'x' * 64}.example/", TransientFailure, HandledRun(stage="prod"))
    assert failure.code == "webhook-host-unknown"


@pytest.mark.parametrize("known", [True, False])
def test_the_record_and_its_view_say_whether_the_name_ever_resolved(
    unresolved: Any, partner: Receiver, known: bool
) -> None:
    """Through all attempts of one job, as its owner sees them."""
    partner.answers[:] = [says(503)]
    url = partner.url() if known else "https://partner.exmaple.com/"
    payload = DeliverWebhook(url=url, body=BODY, secret_name="partner-a")
    world = World(handler=lambda _, run: deliver_webhook(payload, run), policy=DELIVER.policy, stage="local")
    message = world.submitted(a_job(tenant="acme-eu", max_attempts=DELIVER.policy.max_attempts))
    if known:
        world.deliver(message)
        message = world.when_due(message)
    unresolved(NO_NAME)
    while world.found(message).state != State.DEAD:
        world.deliver(message)
        if world.found(message).state != State.DEAD:
            message = world.when_due(message)
    error = shown(world.found(message)).model_dump(mode="json", by_alias=True)["error"]
    assert error["class"] == "transient"
    assert (error["code"], "never resolved" in error["message"]) == (
        ("webhook-host-lost", False) if known else ("webhook-host-unknown", True)
    )


# Secrets


def test_a_secret_that_is_not_there_waits_for_an_operator_and_says_its_name(partner: Receiver) -> None:
    failure = refusal(partner.url(), EnvironmentalFailure, secret_name="partner-b")
    assert failure.code == "webhook-secret-missing"
    assert "holdfast/local/webhooks/acme-eu/partner-b" in str(failure)
    assert partner.requests == []


def test_a_secret_about_to_be_deleted_waits_for_an_operator(secrets: Any, partner: Receiver) -> None:
    secrets.delete_secret(SecretId="holdfast/local/webhooks/acme-eu/partner-a")
    assert refusal(partner.url(), EnvironmentalFailure).code == "webhook-secret-missing"


def test_a_tenant_cannot_sign_with_the_secret_of_another(secrets: Any, partner: Receiver) -> None:
    refusal(partner.url(), EnvironmentalFailure, HandledRun(tenant="evil"))
    refusal(partner.url(), EnvironmentalFailure, HandledRun(tenant=None))
    secrets.create_secret(Name="holdfast/local/webhooks/partner-a", SecretString=written(NEW_KEY))
    deliver(partner.url(), HandledRun(tenant=None))
    refusal(partner.url(), EnvironmentalFailure, HandledRun(tenant="evil"))
    assert len(partner.requests) == 1


@pytest.mark.parametrize(
    ("secret", "which"),
    [
        ("", "it is empty"),
        ("hunter2", "secret 1 of 1"),
        ("whsec_!!!", "secret 1 of 1"),
        (base64.b64encode(b"k" * 24).decode(), "secret 1 of 1"),
        ("whsec_" + base64.b64encode(b"k" * 23).decode(), "secret 1 of 1"),
        ("whsec_" + base64.b64encode(b"k" * 65).decode(), "secret 1 of 1"),
        (f"{written(OLD_KEY)} whsec_x", "secret 2 of 2"),
    ],
)
def test_a_secret_of_another_form_is_refused_without_being_told(secret: str, which: str) -> None:
    with pytest.raises(DeterministicFailure, match=which) as raised:
        keys_of(secret, "holdfast/dev/webhooks/x")
    assert raised.value.code == "webhook-secret-invalid"
    assert not secret or secret not in str(raised.value)


def test_a_worker_without_the_right_to_a_secret_waits_for_the_next_deployment() -> None:
    client = boto3.client("secretsmanager", region_name="eu-west-1")
    error = client.exceptions.ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetSecretValue")
    assert classify(error, datetime.now(UTC)).failure_class is FailureClass.ENVIRONMENTAL


# At the door


@pytest.mark.parametrize(
    "url",
    [
        "", "partner.example.com", "ftp://partner.example.com/", "file:///etc/passwd", "gopher://x/", "//x/",
        "https://", "https:///x", "https://user@partner.example.com/", "https://user:pass@partner.example.com/",
        "https://partner.example.com:0/", "https://partner.example.com:65536/", "https://partner.example.com:x/",
        "https://partner.example.com/#part", "https://partner.example.com/a b", "https://partner.example.com/\r\nX: y",
        "https://partner.example.com\\@evil.example/", "https://pärtner.example.com/", "https://par%74ner.example.com/",
        "https://[::1/", "https://-x/", "https://x./", "https://partner.example.com/" + "x" * 2048,
    ],
)  # fmt: skip
def test_a_url_that_could_be_read_in_two_ways_is_refused_at_the_door(url: str) -> None:
    _, faults = DELIVER.accept({"url": url, "body": {}, "secretName": "partner-a"})
    assert [fault.pointer for fault in faults] == ["/payload/url"]


@pytest.mark.parametrize("secret", ["", "../other", "a/b", "A", "x" * 65, "a b", "a\n"])
def test_a_secret_name_is_one_plain_name(secret: str) -> None:
    _, faults = DELIVER.accept({"url": "https://x.example/", "body": {}, "secretName": secret})
    assert [fault.pointer for fault in faults] == ["/payload/secretName"]


def test_an_ordinary_payload_is_taken_and_read_back_as_it_was() -> None:
    given = {"url": "https://partner.example.com/h?a=b", "body": BODY | {"n": [1, 2.5, None]}, "secretName": "a"}
    accepted, faults = DELIVER.accept(given)
    assert accepted is not None, faults
    assert DELIVER.parse(accepted.model_dump_json(by_alias=True), 1).body == given["body"]  # type: ignore[attr-defined]


def test_it_declares_its_lane_its_version_and_a_deadline_its_own_time_limits_fit_into() -> None:
    assert (DELIVER.queue, DELIVER.version) == (QUEUES["webhooks.partner-a"], 1)
    assert DELIVER.policy.max_attempts == 8
    waits = sum(DELIVER.policy.delays, timedelta())
    assert timedelta(hours=2) < waits < DELIVER.max_age
