"""What a web page can make its reader's browser send to a port of this machine, and what of it is answered."""

from __future__ import annotations

import pytest

from local.guard import Refusal, refusal_of_api, refusal_of_emulator

HERE = "http://127.0.0.1:8600"
SIGNED = (
    "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=test%2F20260601%2Fus-east-1%2Fs3%2Faws4_request"
    "&X-Amz-Date=20260601T000000Z&X-Amz-Expires=300&X-Amz-SignedHeaders=host&X-Amz-Signature=abc"
)
LINK = f"/bucket/results/may.pdf?response-content-disposition=attachment&{SIGNED}"
OPENED = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
CHROME = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}


def api(host: str = "127.0.0.1:8600", **headers: str) -> Refusal | None:
    return refusal_of_api([("Host", host), *dashed(headers)], {HERE})


def emulator(target: str = "/", method: str = "GET", host: str = "127.0.0.1:8601", **headers: str) -> Refusal | None:
    return refusal_of_emulator(method, target, [("Host", host), *dashed(headers)])


def dashed(headers: dict[str, str]) -> list[tuple[str, str]]:
    return [(name.replace("_", "-"), value) for name, value in headers.items()]


@pytest.mark.parametrize("host", ["127.0.0.1:8600", "localhost:8600", "LOCALHOST", "127.0.0.1"])
def test_a_program_that_names_this_machine_is_answered_at_both_ports(host: str) -> None:
    assert api(host) is None
    assert emulator(host=host, method="POST", User_Agent="Boto3/1.43") is None


@pytest.mark.parametrize(
    "host", ["a-bucket.s3.localhost", "b.s3.us-east-1.localhost:1", "ab12.execute-api.localhost:1"]
)
def test_the_emulator_answers_to_the_names_that_aws_clients_make_of_it(host: str) -> None:
    assert emulator(host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8601", "127.0.0.1.evil.example", "localhost.evil.example", "evil-localhost"),
        *("", "127.0.0.1:8600:1", "127.0.0.1, evil.example", "0.0.0.0:8600", "[::1]:8600", "2130706433", "127.1"),
        *("evil.localhost.", "x.s3.amazonaws.com", "x.lambda-url.us-east-1.localhost", "127.0.0.1:8600@evil.example"),
    ],
)
def test_a_page_that_points_its_own_name_at_this_machine_is_refused_at_both_ports(host: str) -> None:
    for refused in (api(host), emulator(host=host)):
        assert refused is not None
        assert refused.status == 421


def test_no_host_and_two_hosts_are_foreign() -> None:
    twice = [("Host", "127.0.0.1"), ("host", "evil.example")]
    for headers in ([], twice):
        assert refusal_of_api(headers, {HERE}) is not None
        assert refusal_of_emulator("GET", "/", headers) is not None


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1:3000", "http://localhost", HERE.replace("p:", "ps:"), ""],
)
def test_another_origin_is_refused_at_both_ports(origin: str) -> None:
    assert api(Origin=origin) is not None
    assert emulator(Origin=origin, method="POST") is not None


def test_the_api_answers_its_own_pages_and_what_a_reader_types() -> None:
    assert api(Origin=HERE, Sec_Fetch_Site="same-origin", **CHROME) is None
    assert api(Sec_Fetch_Site="none", Sec_Fetch_Mode="navigate", **CHROME) is None


@pytest.mark.parametrize("site", ["cross-site", "same-site", "CROSS-SITE", "", "none, cross-site"])
def test_the_api_answers_no_page_from_elsewhere_whatever_it_loads_it_as(site: str) -> None:
    assert api(Sec_Fetch_Site=site) is not None
    assert api(Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document") is not None


def test_a_presigned_link_opens_in_a_tab_wherever_it_was_clicked() -> None:
    for site in ("none", "same-site", "cross-site"):
        assert emulator(LINK, **OPENED | {"Sec-Fetch-Site": site} | CHROME) is None
    assert emulator(LINK, **CHROME) is None  # a browser from before Sec-Fetch-…


@pytest.mark.parametrize(
    ("target", "changed"),
    [
        (LINK, {"Sec-Fetch-Dest": "image", "Sec-Fetch-Mode": "no-cors"}),
        (LINK, {"Sec-Fetch-Dest": "iframe"}),
        (LINK, {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}),
        (LINK, {"Origin": "null"}),
        (f"/?{SIGNED}&Action=CreateStack", {}),
        (f"/bucket/key?{SIGNED.replace('s3', 'sqs')}", {}),
        (f"/_ministack/lambda-code/x?{SIGNED}", {}),
        ("/?Action=CreateStack&StackName=x&TemplateBody=x", {"Sec-Fetch-Site": "none"}),
        ("/bucket/results/may.pdf", {}),
    ],
)
def test_a_browser_gets_nothing_else_of_the_emulator(target: str, changed: dict[str, str]) -> None:
    assert emulator(target, **OPENED | changed) is not None


def test_a_link_is_only_ever_read() -> None:
    for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
        assert emulator(LINK, method, **OPENED) is not None


def test_a_browser_from_before_sec_fetch_is_known_by_its_name() -> None:
    assert emulator("/?Action=CreateQueue&QueueName=x", **CHROME) is not None


def test_a_script_in_node_is_a_program_though_its_fetch_sends_a_mode() -> None:
    assert emulator(method="POST", Sec_Fetch_Mode="cors", User_Agent="node") is None
