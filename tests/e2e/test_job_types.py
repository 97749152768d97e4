"""The job types that come with the project, each against its real counterpart: a partner's server, SES, the bucket."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from PIL import Image
from pypdf import PdfReader

from local import samples
from shared.domain.job import EFFECT_COMPLETED
from shared.domain.retry import FailureClass
from shared.domain.states import State
from tests.e2e.cloud import Answer, Cloud
from tests.e2e.partner import SECRET_NAME, TENANT, agree_on_a_secret, mails_to, verifies, verify_sender
from tests.e2e.pictures import BLUE, RED, a_bomb, a_jpeg
from tests.e2e.test_journey import result_of
from tests.receiver import Receiver, never_answers, receiver, says

INSIDE = {
    "metadata": "https://169.254.169.254/latest/meta-data/",
    "metadata as a number": "https://2852039166/latest/meta-data/",
    "private": "https://10.0.0.1/hooks",
}
SENDER, READER, KEPT_OUT = "jobs@job-types.example.com", "ada@reader.example.com", "bob@reader.example.com"
MAIL = {"to": [READER], "subject": "Export", "text": "24 pages\nfor Łódź", "fromAddress": SENDER}
MAIL_KEY = {"Idempotency-Key": "tell-ada"}
PICTURE, BOMB = f"uploads/{TENANT}/2026/harbour.jpg", f"uploads/{TENANT}/2026/bomb.png"
MONTH, PAGES = "2024-11", 11_000


@pytest.fixture(scope="module")
def busy() -> Iterator[Receiver]:
    with receiver([says(503), says(503), says(503), says(200)]) as partner:
        yield partner


@pytest.fixture(scope="module")
def silent() -> Iterator[Receiver]:
    with receiver([never_answers, never_answers, says(200)]) as partner:
        yield partner


@pytest.fixture(scope="module")
def ordered() -> Iterator[Receiver]:
    with receiver([says(503), says(200)]) as partner:
        yield partner


@pytest.fixture(scope="module")
def jobs(cloud: Cloud, busy: Receiver, silent: Receiver, ordered: Receiver) -> dict[str, str]:
    """All submitted before the first test looks, so that their waits pass side by side; job ids by what they are for.

    The silent partner comes last: the emulator has one batch of a FIFO lane in flight, so its silence is everyone's.
    """
    agree_on_a_secret(cloud)
    verify_sender(cloud, SENDER.partition("@")[2])
    cloud.put_month(MONTH, samples.write_month(rows=PAGES, month=MONTH))
    for key, data in ((PICTURE, a_jpeg(1200, 400)), (BOMB, a_bomb(50_000, 50_000))):
        cloud.s3.put_object(Bucket=cloud.up.outputs["Bucket"], Key=key, Body=data)
    return {
        "export": cloud.export(MONTH),
        "busy": webhook(cloud, busy.url()),
        **{f"ordered {n}": webhook(cloud, ordered.url(), n, orderingKey="customer-7") for n in range(1, 6)},
        **{why: webhook(cloud, url, secret="there-is-none") for why, url in INSIDE.items()},
        "silent": webhook(cloud, silent.url()),
        "mail": post(cloud, "send-email", MAIL, MAIL_KEY).json["jobId"],
        "mail again": post(cloud, "send-email", MAIL, MAIL_KEY).json["jobId"],
        "unverified": post(
            cloud, "send-email", MAIL | {"fromAddress": "jobs@not-verified.example.com", "to": [KEPT_OUT]}
        ).json["jobId"],
        "thumbnail": thumbnail(cloud, PICTURE),
        "bomb": thumbnail(cloud, BOMB),
    }


def post(cloud: Cloud, type: str, payload: Any, headers: dict[str, str] | None = None, **fields: Any) -> Answer:
    answer = cloud.ask("POST", "/jobs", {"type": type, "payload": payload, "tenantId": TENANT, **fields}, headers)
    assert answer.status == 202, answer.body
    return answer


def webhook(cloud: Cloud, url: str, number: int = 1, secret: str = SECRET_NAME, **fields: Any) -> str:
    payload = {"url": url, "body": {"type": "invoice.paid", "number": number}, "secretName": secret}
    return str(post(cloud, "deliver-webhook", payload, **fields).json["jobId"])


def thumbnail(cloud: Cloud, source: str) -> str:
    payload = {"tenantId": TENANT, "sourceKey": source, "width": 320, "height": 240}
    return str(post(cloud, "thumbnail", payload).json["jobId"])


def outcome(cloud: Cloud, job_id: str, effect: str) -> Any:
    """What the record keeps of a job's effect, which must be the only one and done."""
    ((name, kept),) = cloud.record(job_id).effects.items()
    assert (name, kept.status) == (effect, EFFECT_COMPLETED)
    return json.loads(kept.outcome or "")["outcome"]


def dead_at_once(cloud: Cloud, job_id: str, code: str) -> Any:
    """The view of a job whose first attempt found that no other will help."""
    ended = cloud.wait(job_id, seconds=90)
    assert (ended["status"], ended["attempts"]) == (State.DEAD, 1), ended
    assert (ended["error"]["class"], ended["error"]["code"]) == (FailureClass.DETERMINISTIC, code)
    return ended


# Mail


def test_a_mail_asked_for_twice_under_one_key_arrives_once_and_its_job_keeps_the_message_id(
    cloud: Cloud, jobs: dict[str, str]
) -> None:
    ended = cloud.wait(jobs["mail"], seconds=90)
    late = post(cloud, "send-email", MAIL, MAIL_KEY)

    assert (ended["status"], ended["attempts"]) == (State.COMPLETED, 1)
    assert jobs["mail"] == jobs["mail again"] == late.json["jobId"]
    assert (late.headers["Idempotent-Replayed"], late.json["status"]) == ("true", State.COMPLETED)
    (mail,) = mails_to(cloud, READER)
    assert (mail["Source"], mail["Subject"], mail["BodyText"]) == (SENDER, MAIL["subject"], MAIL["text"])
    assert outcome(cloud, jobs["mail"], "send") == mail["MessageId"]


def test_a_sender_that_ses_does_not_know_is_dead_at_once_in_the_words_of_ses(
    cloud: Cloud, jobs: dict[str, str]
) -> None:
    ended = dead_at_once(cloud, jobs["unverified"], "MessageRejected")

    assert "message" not in ended["error"], "a foreign exception's words are the operator's"
    assert "not verified" in str(cloud.record(jobs["unverified"]).error_message)
    assert mails_to(cloud, KEPT_OUT) == []


# Thumbnails


def test_a_jpeg_comes_back_as_a_webp_that_fits_its_box_and_keeps_its_shape(cloud: Cloud, jobs: dict[str, str]) -> None:
    assert cloud.wait(jobs["thumbnail"], seconds=90)["status"] == State.COMPLETED

    result = result_of(cloud, jobs["thumbnail"])

    assert result.headers["Content-Type"] == "image/webp"
    small = Image.open(io.BytesIO(result.body))
    assert (small.format, small.size) == ("WEBP", (320, 107))  # 1200 × 400 within 320 × 240
    for x, expected in ((80, RED), (240, BLUE)):
        found = small.convert("RGB").getpixel((x, 53))
        assert all(abs(a - b) < 30 for a, b in zip(found, expected, strict=True)), (x, found)


def test_a_picture_that_claims_ten_gigabytes_of_pixels_is_dead_within_seconds(
    cloud: Cloud, jobs: dict[str, str]
) -> None:
    ended = dead_at_once(cloud, jobs["bomb"], "image-too-large")

    assert "50000 × 50000" in ended["error"]["message"] or "2500000000" in ended["error"]["message"]
    record = cloud.record(jobs["bomb"])
    assert record.dead_at - record.started_at < timedelta(seconds=5)
    assert cloud.ask("GET", f"/jobs/{jobs['bomb']}/result").status == 409


# Exports


def test_an_export_larger_than_one_run_goes_on_in_a_second_and_is_one_attempt(
    cloud: Cloud, jobs: dict[str, str]
) -> None:
    ended = cloud.wait(jobs["export"], seconds=170)

    assert (ended["status"], ended["attempts"]) == (State.COMPLETED, 1), ended
    assert ended["progress"] == {"done": PAGES, "total": PAGES, "unit": "pages"}
    assert cloud.record(jobs["export"]).run == 2
    pages = PdfReader(io.BytesIO(result_of(cloud, jobs["export"]).body)).pages
    assert len(pages) == PAGES
    for number in (1, 1_000, 1_001, 10_001, PAGES):  # on both sides of a seam, and the ends
        assert f"{MONTH}-{number:05}" in pages[number - 1].extract_text()


# Webhooks


@pytest.mark.parametrize("why", INSIDE)
def test_a_webhook_into_a_network_of_ours_is_dead_at_once_and_no_request_leaves(
    cloud: Cloud, jobs: dict[str, str], why: str
) -> None:
    """Its secret does not exist: what had got past the address would wait for one, long before a request."""
    dead_at_once(cloud, jobs[why], "webhook-address-refused")

    assert cloud.record(jobs[why]).effects == {}


def test_webhooks_of_one_ordering_key_arrive_in_order_although_the_first_was_refused_once(
    cloud: Cloud, jobs: dict[str, str], ordered: Receiver
) -> None:
    ended = [cloud.wait(jobs[f"ordered {n}"], seconds=90) for n in range(1, 6)]

    assert [(view["status"], view["attempts"]) for view in ended] == [(State.COMPLETED, n) for n in (2, 1, 1, 1, 1)]
    assert [json.loads(request.body)["number"] for request in ordered.requests] == [1, 1, 2, 3, 4, 5]


def test_a_partner_that_takes_requests_and_never_answers_sees_repeats_under_one_key_only(
    cloud: Cloud, jobs: dict[str, str], silent: Receiver
) -> None:
    ended = cloud.wait(jobs["silent"], seconds=90)

    assert (ended["status"], ended["attempts"], ended["error"]["code"]) == (State.COMPLETED, 3, "webhook-timeout")
    assert len(silent.requests) == 3
    first = silent.requests[0]
    for repeat in silent.requests:
        assert repeat.headers["idempotency-key"] == first.headers["idempotency-key"]
        assert (repeat.headers["webhook-id"], repeat.body) == (jobs["silent"], first.body)


def test_a_partner_that_was_down_three_times_takes_one_delivery_under_one_key_with_a_signature_that_holds(
    cloud: Cloud, jobs: dict[str, str], busy: Receiver
) -> None:
    ended = cloud.wait(jobs["busy"], seconds=120)

    assert (ended["status"], ended["attempts"], ended["error"]["code"]) == (State.COMPLETED, 4, "http-503")
    assert len(busy.requests) == 4
    (key,) = {request.headers["idempotency-key"] for request in busy.requests}
    assert busy.accepted == {key: busy.requests[0].body}
    assert all(verifies(request) for request in busy.requests)
    assert outcome(cloud, jobs["busy"], "deliver") == {"status": 200}
