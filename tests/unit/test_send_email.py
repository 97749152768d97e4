"""The job types send-email and send-bulk-email: what may be in a mail, and that it goes out once."""

from __future__ import annotations

import json
import re
import socket
import time
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from email.header import decode_header, make_header
from email.utils import getaddresses
from typing import Any

import boto3
import idna
import jsonschema
import pytest
from botocore.exceptions import BotoCoreError, ClientError
from botocore.stub import Stubber
from hypothesis import assume, given
from hypothesis import strategies as st
from moto import mock_aws
from moto.ses.models import ses_backends

from shared.domain.failures import classify
from shared.domain.outcome import Outcome
from shared.domain.retry import FailureClass
from shared.domain.states import State
from shared.errors import EnvironmentalFailure, UnknownOutcome
from shared.jobs import Catalogue, _clients
from shared.jobs._domain import ascii_domain
from shared.jobs._email import Email, send_once
from shared.jobs._mailbox import Mailbox
from shared.ports import Message
from shared.queues import QUEUES
from tests.builders import NOW, a_job, a_message
from tests.contract.dns import fits
from tests.handling import HandledRun
from tests.receiver import Answer, Receiver, hangs_up, receiver, says
from tests.world import World

REGION = "eu-west-1"
LANES = {"send-email": "emails.high", "send-bulk-email": "emails.bulk"}
MAIL = {"to": ["ada@example.com"], "subject": "Ready", "text": "It is.", "fromAddress": "jobs@example.com"}


def a_mail(**fields: Any) -> Email:
    return Email.model_validate_json(json.dumps(MAIL | fields))


def faults(**fields: Any) -> list[str]:
    job_type = Catalogue().get("send-email")
    assert job_type is not None
    _, found = job_type.accept(MAIL | fields)
    return [fault.pointer for fault in found]


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Credentials that are none, and a client of the handler's that no other test has used."""
    for name, value in {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "DEFAULT_REGION": REGION}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    _clients.client.cache_clear()
    yield
    _clients.client.cache_clear()


@pytest.fixture
def ses() -> Iterator[Any]:
    """SES as moto plays it, with a verified domain."""
    with mock_aws():
        client = boto3.client("sesv2")
        client.create_email_identity(EmailIdentity="example.com")
        yield client


def sent() -> list[Any]:
    found: list[Any] = ses_backends["123456789012"][REGION].sent_messages
    return found


# Sending


@pytest.mark.parametrize("name", LANES)
def test_a_mail_goes_out_and_the_job_keeps_its_message_id(ses: Any, name: str) -> None:
    job_type, run = Catalogue().get(name), HandledRun()
    assert job_type is not None
    job_type.handler(a_mail(), run)

    (mail,) = sent()
    assert (mail.source, mail.destinations["ToAddresses"], mail.subject) == (
        "jobs@example.com",
        ["ada@example.com"],
        "Ready",
    )
    assert run.effects == {"send": mail.id}


def test_a_recorded_sending_is_not_done_again(ses: Any) -> None:
    run = HandledRun()
    send_once(a_mail(), run)
    send_once(a_mail(), run)
    assert len(sent()) == 1


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Where the handler's client really sends its requests."""
    with receiver([says(200, b'{"MessageId":"m-1"}', Content_Type="application/json")]) as listening:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{listening.port}")
        yield listening


def test_ses_is_asked_for_all_that_the_payload_says(wire: Receiver) -> None:
    run = HandledRun()
    everything = {"html": "<p>Żółw</p>", "replyTo": "help@example.com", "configurationSet": "reports"}
    send_once(a_mail(to=["ada@example.com", "b@example.org"], subject="Fertig – 🧾", **everything), run)

    (request,) = wire.requests
    assert request.path == "/v2/email/outbound-emails"
    assert json.loads(request.body) == {
        "FromEmailAddress": "jobs@example.com",
        "Destination": {"ToAddresses": ["ada@example.com", "b@example.org"]},
        "ReplyToAddresses": ["help@example.com"],
        "ConfigurationSetName": "reports",
        "EmailTags": [{"Name": "job_id", "Value": run.job_id}],
        "Content": {
            "Simple": {
                "Subject": {"Data": "Fertig – 🧾", "Charset": "UTF-8"},
                "Body": {
                    "Text": {"Data": "It is.", "Charset": "UTF-8"},
                    "Html": {"Data": "<p>Żółw</p>", "Charset": "UTF-8"},
                },
            }
        },
    }
    assert run.effects == {"send": "m-1"}


@pytest.mark.parametrize("answer", [says(500), says(503), says(429), hangs_up], ids=["500", "503", "429", "silence"])
def test_the_sdk_repeats_nothing_behind_the_back_of_once(wire: Receiver, answer: Answer) -> None:
    wire.answers[:] = [answer]
    with pytest.raises((ClientError, BotoCoreError)) as raised:
        send_once(a_mail(), HandledRun())
    assert len(wire.requests) == 1
    assert classify(raised.value, NOW).failure_class is FailureClass.TRANSIENT


def test_a_lost_answer_sends_again_unless_the_mail_says_at_most_once(wire: Receiver) -> None:
    for at_most_once, requests in ((False, 2), (True, 1)):
        wire.requests.clear()
        wire.answers[:] = [hangs_up, says(200, b'{"MessageId":"m-1"}')]
        mail, run = a_mail(atMostOnce=at_most_once), HandledRun()
        with pytest.raises(BotoCoreError):
            send_once(mail, run)
        if at_most_once:
            with pytest.raises(UnknownOutcome):
                send_once(mail, run)
        else:
            send_once(mail, run)
        assert len(wire.requests) == requests


REFUSED = {
    "an unverified sender": (400, "MessageRejected", "deterministic"),
    "a rate exceeded": (429, "TooManyRequestsException", "transient"),
    "sending paused": (400, "SendingPausedException", "environmental"),
    "no right to": (403, "AccessDeniedException", "environmental"),
    "the day's quota gone": (429, "LimitExceededException", "environmental"),
}


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.parametrize("name", LANES)
def test_an_at_most_once_mail_that_ses_clearly_refused_is_sent_when_it_is_tried_again(
    wire: Receiver, why: str, name: str
) -> None:
    status, code, failure_class = REFUSED[why]
    refusal = json.dumps({"message": "Daily message quota exceeded" if "quota" in why else why}).encode()
    refused = says(status, refusal, Content_Type="application/json", x_amzn_ErrorType=code)
    wire.answers[:] = [refused, says(200, b'{"MessageId":"m-1"}', Content_Type="application/json")]
    world, message = a_mail_at_most_once(name)
    world.deliver(message)
    job = world.found(message)
    assert (job.error_class, job.effects) == (failure_class, {})
    assert world.deliver(again(world, message)) is Outcome.COMPLETED
    assert len(wire.requests) == 2


def test_an_at_most_once_mail_that_never_reached_ses_is_sent_when_it_is_tried_again(
    wire: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{nobody.getsockname()[1]}")
        world, message = a_mail_at_most_once("send-email")
        assert world.deliver(message) is Outcome.RETRYING
    assert world.found(message).error_code == "EndpointConnectionError"
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{wire.port}")
    _clients.client.cache_clear()
    assert world.deliver(again(world, message)) is Outcome.COMPLETED
    assert len(wire.requests) == 1


@pytest.mark.parametrize("answer", [hangs_up, says(500), says(503)], ids=["silence", "500", "503"])
def test_an_at_most_once_mail_whose_end_nobody_knows_waits_for_a_human_who_is_told_why_for_ever(
    wire: Receiver, answer: Answer
) -> None:
    wire.answers[:] = [answer, says(200, b'{"MessageId":"m-1"}', Content_Type="application/json")]
    world, message = a_mail_at_most_once("send-email")
    assert world.deliver(message) is Outcome.RETRYING
    reason = world.found(message).error_message
    for _ in range(2):
        message = again(world, message)
        assert world.deliver(message) is Outcome.DEAD
        job = world.found(message)
        assert job.error_class == "unknown-outcome"
        assert "; before: " in str(job.error_message)
        assert str(reason)[:60] in str(job.error_message)
    assert len(wire.requests) == 1


def a_mail_at_most_once(name: str) -> tuple[World, Message]:
    """A worker with one such mail."""
    job_type = Catalogue().get(name)
    assert job_type is not None
    world = World(
        queue=job_type.queue.name, handler=lambda payload, run: job_type.handler(a_mail(atMostOnce=True), run)
    )
    return world, world.submitted(a_job())


def again(world: World, message: Message) -> Message:
    """Its next doorbell: after its wait, or sent round again by an operator."""
    if world.found(message).state is not State.DEAD:
        return world.when_due(message)
    assert world.deliver(a_message(world.found(message), dead_letter=True)) is Outcome.REPLAYED
    return a_message(world.found(message))


# Refusals of SES


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("TooManyRequestsException", 429, FailureClass.TRANSIENT),
        ("ThrottlingException", 400, FailureClass.TRANSIENT),
        ("InternalFailure", 500, FailureClass.TRANSIENT),
        ("SendingPausedException", 400, FailureClass.ENVIRONMENTAL),
        ("AccountSuspendedException", 400, FailureClass.ENVIRONMENTAL),
        ("MailFromDomainNotVerifiedException", 400, FailureClass.ENVIRONMENTAL),
        ("AccessDeniedException", 403, FailureClass.ENVIRONMENTAL),
        ("MessageRejected", 400, FailureClass.DETERMINISTIC),
        ("BadRequestException", 400, FailureClass.DETERMINISTIC),
        ("NotFoundException", 404, FailureClass.DETERMINISTIC),
    ],
)
def test_every_refusal_of_ses_has_its_class(code: str, status: int, expected: FailureClass) -> None:
    failure = refused_with(code, "something", status)
    assert (failure.failure_class, failure.code) == (expected, code)


@pytest.mark.parametrize("code", ["TooManyRequestsException", "ThrottlingException", "LimitExceededException"])
def test_a_quota_gone_for_the_day_is_waited_out_and_spends_no_attempt(code: str) -> None:
    failure = refused_with(code, "Daily message quota exceeded.", 429)
    assert (failure.failure_class, failure.code) == (FailureClass.ENVIRONMENTAL, "ses-daily-quota")


def test_a_rate_exceeded_for_the_second_is_tried_again(ses: Any) -> None:
    failure = refused_with("TooManyRequestsException", "Maximum sending rate exceeded.", 429)
    assert failure.failure_class is FailureClass.TRANSIENT


def test_a_sender_nobody_verified_is_refused_for_good(ses: Any) -> None:
    with pytest.raises(ClientError) as raised:
        send_once(a_mail(fromAddress="jobs@elsewhere.example"), HandledRun())
    assert classify(raised.value, NOW).failure_class is FailureClass.DETERMINISTIC
    assert sent() == []


def refused_with(code: str, message: str, status: int) -> Any:
    """The failure that follows when SES answers so."""
    client = _clients.client("sesv2", answer_within=timedelta(seconds=10), tries=1)  # the handler's own
    with Stubber(client) as stub:
        stub.add_client_error("send_email", code, message, status)
        with pytest.raises((ClientError, EnvironmentalFailure)) as raised:
            send_once(a_mail(), HandledRun())
        stub.assert_no_pending_responses()
    return classify(raised.value, NOW)


# At the door


@pytest.mark.parametrize(
    "address",
    [
        "", "ada", "@example.com", "ada@", "ada@localhost", "ada@example.com\r\nBcc: all@example.com",
        "ada@example.com\n", "ada@example.com, b@example.com", "<ada@example.com>", "ada@@example.com",
        "ada@exa mple.com", " ada@example.com", "ada@[127.0.0.1]", "ada@-x.com", "ada@x-.com", "ada@example..com",
        "ada@example.com.", "ada(x)@example.com", "ädä@example.com", "ada@ex☕mple.com", "ada@\u0301x.com", "...@x.com",
        "ada\0@example.com", "a" * 65 + "@example.com", "a@" + "b" * 64 + ".com", "a@" + ".".join(["b" * 60] * 5),
        "a@" + "ä" * 60 + "ö" * 60 + ".de", '"a b"@example.com', '"a\\"b"@example.com', '"a@b"@example.com',
        "Ada <ada@example.com", "Ada ada@example.com", "Ada <ada@example.com>\r\nBcc: <all@example.com>",
        "Ada\r\nBcc: all@example.com <ada@example.com>", '"Ada\nBcc: x" <ada@example.com>', "A\u2028B <a@example.com>",
        "Doe, Jane <jane@example.com>", "chief@bank.example <x@example.com>", "A <a@example.com> <b@example.com>",
        "A <a@example.com>, B <b@example.com>", '"A" "B" <a@example.com>', '"Ada <ada@example.com>', "Ada <>",
        "=?utf-8?b?QWRhDQpCY2M6IHg=?= <ada@example.com>", "x" * 101 + " <ada@example.com>",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_at_the_door(address: str) -> None:
    assert faults(to=["ok@example.com", address]) == ["/payload/to/1"]
    assert faults(fromAddress=address) == ["/payload/fromAddress"]
    assert faults(replyTo=address) == ["/payload/replyTo"]


WRITTEN = {
    # as people write it: as SES takes it
    "a@b.co": "a@b.co",
    "first.last+tag@mail.example.co.uk": "first.last+tag@mail.example.co.uk",
    "o'hara@example.com": "o'hara@example.com",
    "x_y-z@xn--exmple-cua.com": "x_y-z@xn--exmple-cua.com",
    "Jobs Team <jobs@example.com>": "Jobs Team <jobs@example.com>",
    "Jobs Team<jobs@example.com>": "Jobs Team <jobs@example.com>",
    '"Jobs Team" <jobs@example.com>': "Jobs Team <jobs@example.com>",
    '"Doe, Jane" <jane@example.com>': '"Doe, Jane" <jane@example.com>',
    '"Jane \\"JD\\" Doe" <jane@example.com>': '"Jane \\"JD\\" Doe" <jane@example.com>',
    "St. John's (EU) <eu@example.com>": '"St. John\'s (EU)" <eu@example.com>',
    "Łódź 🧾 <jobs@example.com>": "=?utf-8?b?xYHDs2TFuiDwn6e+?= <jobs@example.com>",
    "jobs@exämple.de": "jobs@xn--exmple-cua.de",
    "jobs@EXÄMPLE.de": "jobs@xn--exmple-cua.de",
    "jobs@exa\u0308mple.de": "jobs@xn--exmple-cua.de",
    "Info@Straße.EXAMPLE": "Info@xn--strae-oqa.example",  # and not strasse.example, which is somebody else's
    "Büro <buero@exämple.de>": "=?utf-8?b?QsO8cm8=?= <buero@xn--exmple-cua.de>",
    "postmaster@例え.テスト": "postmaster@xn--r8jz45g.xn--zckzah",
    "a@مثال.إختبار": "a@xn--mgbh0fb.xn--kgbechtv",
    "a..b@docomo.ne.jp": '"a..b"@docomo.ne.jp',
    ".a@docomo.ne.jp": '".a"@docomo.ne.jp',
    "a.@docomo.ne.jp": '"a."@docomo.ne.jp',
    '"a..b"@docomo.ne.jp': '"a..b"@docomo.ne.jp',
    "田中 <a..b@docomo.ne.jp>": '=?utf-8?b?55Sw5Lit?= <"a..b"@docomo.ne.jp>',
    '"ada"@example.com': "ada@example.com",
}


@pytest.mark.parametrize("written", WRITTEN)
def test_an_address_as_people_write_it_reaches_ses_as_ses_takes_it(wire: Receiver, written: str) -> None:
    assert faults(to=[written], fromAddress=written, replyTo=written) == []
    send_once(a_mail(to=[written, "b@example.org"], fromAddress=written, replyTo=written), HandledRun())
    sent = json.loads(wire.requests[0].body)
    assert sent["FromEmailAddress"] == WRITTEN[written]
    assert sent["Destination"]["ToAddresses"] == [WRITTEN[written], "b@example.org"]
    assert sent["ReplyToAddresses"] == [WRITTEN[written]]


ADDRESS_SCHEMA = Email.model_json_schema()["properties"]["fromAddress"]


@pytest.mark.parametrize("written", WRITTEN)
def test_the_contract_allows_an_address_as_people_write_it(written: str) -> None:
    jsonschema.validate(written, ADDRESS_SCHEMA)
    if "<" in written and "テ" not in written:
        assert re.search(ADDRESS_SCHEMA["anyOf"][1]["pattern"], written)


@given(address=st.from_regex(ADDRESS_SCHEMA["anyOf"][1]["pattern"].removesuffix("$") + r"\Z"))
def test_what_the_contract_allows_is_taken(address: str) -> None:
    """Unless it is too long for DNS, which its description says and no pattern can."""
    assume(fits(address))
    assert Mailbox.parse(address).as_ses_takes_it().isascii()


@pytest.mark.parametrize("endless", [" " * 300_000, "a " * 150_000 + "<", '"' + '\\"' * 150_000, "a." * 150_000 + "@"])
def test_an_address_without_end_is_refused_at_once(endless: str) -> None:
    started = time.thread_time()
    assert faults(fromAddress=endless) == ["/payload/fromAddress"]
    assert time.thread_time() - started < 1


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), max_size=100).filter(
    lambda name: name.strip() and "=?" not in name
)


@given(name=NAMES)
def test_whatever_a_name_holds_it_is_read_back_as_it_was_and_no_second_header_or_address_with_it(name: str) -> None:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    taken = Mailbox.parse(f'"{quoted}" <jobs@example.com>').as_ses_takes_it()
    assert taken.isascii()
    assert taken.isprintable()
    assert all(len(word) <= 75 for word in taken.split(" ") if word.startswith("=?"))
    (read,) = getaddresses([taken])
    assert read[1] == "jobs@example.com"
    assert str(make_header(decode_header(read[0]))) == name.strip()


@given(address=st.emails().filter(lambda address: len(address) <= 254))
def test_every_ordinary_address_is_taken_and_stays_as_it_is_but_for_capitals_of_its_domain(address: str) -> None:
    local, _, domain = address.rpartition("@")
    assert Mailbox.parse(address).as_ses_takes_it() == f"{local}@{domain.lower()}"


@given(label=st.text(st.characters(codec="utf-8", exclude_characters="."), min_size=1, max_size=20))
def test_a_domain_is_encoded_as_another_implementation_of_idna_2008_encodes_it_or_not_at_all(label: str) -> None:
    try:
        ours = ascii_domain(f"{label}.example")
    except ValueError:
        return
    with suppress(idna.IDNAError):  # it knows rules for what stands beside what; SES and the name servers do too
        assert ours == f"{idna.encode(unicodedata.normalize('NFC', label.lower())).decode()}.example"


def test_every_letter_of_unicode_is_encoded_as_another_implementation_of_idna_2008_encodes_it() -> None:
    known = 0
    for number in range(0x80, 0x3400):
        letter = unicodedata.normalize("NFC", chr(number).lower())
        with suppress(ValueError, idna.IDNAError):
            theirs = idna.encode(letter).decode()
            assert theirs in ("", ascii_domain(f"{chr(number)}.example").removesuffix(".example"))
            known += 1
    assert known > 5_000


@given(text=st.text(alphabet=st.characters(codec="utf-8"), max_size=40))
def test_no_text_whatever_gets_a_second_header_into_an_address_or_a_subject(text: str) -> None:
    for field, pointer in (("fromAddress", "/payload/fromAddress"), ("subject", "/payload/subject")):
        for broken in ("\r", "\n", "\r\n", "\0", "\u2028", "\x0b"):
            assert faults(**{field: f"a@example.com{broken}{text}"}) == [pointer]


@pytest.mark.parametrize("subject", ["", "   ", "x" * 201, "a\tb", "a\x7f"])
def test_a_subject_is_one_line_that_says_something(subject: str) -> None:
    assert faults(subject=subject) == ["/payload/subject"]


@pytest.mark.parametrize("subject", ["x" * 200, "Żółw 🐢", "👩‍💻 ist da", "No\u00a0break"])
def test_a_subject_may_be_of_any_letters(subject: str) -> None:
    assert faults(subject=subject) == []


def test_a_mail_has_one_to_fifty_recipients() -> None:
    many = [f"n{n}@example.com" for n in range(51)]
    assert faults(to=[]) == ["/payload/to"]
    assert faults(to=many) == ["/payload/to"]
    assert faults(to=many[:50]) == []


def test_a_mail_has_a_text_or_html_or_both() -> None:
    assert faults(text=None) == ["/payload"]
    assert faults(text="") == ["/payload/text"]
    assert faults(text=None, html="<p>x</p>") == []
    assert faults(html="<p>x</p>") == []


def test_nobody_chooses_the_lane_by_a_field() -> None:
    assert faults(queue="emails.high") == ["/payload/queue"]


@pytest.mark.parametrize(("name", "lane"), LANES.items())
def test_each_lane_has_its_type_with_a_version_a_deadline_and_a_policy(name: str, lane: str) -> None:
    job_type = Catalogue().get(name)
    assert job_type is not None
    assert (job_type.queue, job_type.version) == (QUEUES[lane], 1)
    assert job_type.deadline > timedelta(seconds=12)  # the client's own patience: 2 s to connect, 10 s to answer
    assert sum(job_type.policy.delays, timedelta()) < job_type.max_age
