"""A web page of another site, in a real browser, against both ports of the local cloud."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from local.environment import client
from tests.e2e.browser import ABSENT, ELSEWHERE, Site, program, report_of, serving, shown_at_last
from tests.e2e.cloud import Cloud

pytestmark = pytest.mark.skipif(program() is None, reason=ABSENT)

# Every way a page has to send a request: each must reach a port that answers all, and do nothing at the others.
ATTACK = """
<!doctype html><title>attack</title><body><script>
const PORTS = %(ports)s, ELSEWHERE = %(elsewhere)s, read = [];
const create = JSON.stringify({FunctionName: "evil", Runtime: "python3.12", Handler: "evil.handler",
  Role: "arn:aws:iam::000000000000:role/x", Code: {ZipFile: "UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA=="}});
const job = JSON.stringify({type: "note", payload: {text: "evil"}});
const settled = [];
function tried(promise) { settled.push(promise.catch(() => {})); }
function loaded(element) {
  tried(new Promise(done => { element.onload = element.onerror = done; document.body.append(element); }));
}
function send(base, path, body, type) {
  const simple = {method: "POST", mode: "no-cors", body, headers: {"Content-Type": "text/plain"}};
  tried(fetch(base + path, simple));
  tried(fetch(base + path, {method: "POST", body, headers: {"Content-Type": type}}).then(() => read.push(base + path)));
}
for (const port of PORTS) for (const host of ["127.0.0.1", "localhost", ELSEWHERE]) {
  const base = `http://${host}:${port}`;
  send(base, "/2015-03-31/functions", create, "application/json");
  send(base, "/_ministack/reset", "", "application/json");
  send(base, "/jobs", job, "application/json");
  tried(fetch(base + "/openapi.json").then(() => read.push(base + "/openapi.json")));
  loaded(Object.assign(new Image(), {src: base + "/?Action=CreateQueue&QueueName=evil&Version=2012-11-05"}));
  loaded(Object.assign(document.createElement("iframe"), {src: base + "/?Action=CreateTopic&Name=evil"}));
  const form = Object.assign(document.createElement("form"), {method: "POST", action: base + "/_ministack/reset",
    enctype: "text/plain", target: `frame-${host}-${port}`});
  const frame = Object.assign(document.createElement("iframe"), {name: form.target});
  document.body.append(frame, form); form.submit();
  tried(new Promise(done => frame.onload = done));
}
Promise.race([Promise.all(settled), new Promise(done => setTimeout(done, 20000))])
  .then(() => fetch("/report", {method: "POST", body: JSON.stringify(read)}));
</script>
"""
SENT = {
    ("POST", "/2015-03-31/functions"),
    ("POST", "/_ministack/reset"),
    ("POST", "/jobs"),
    ("GET", "/openapi.json"),
    ("GET", "/?Action=CreateQueue&QueueName=evil&Version=2012-11-05"),
    ("GET", "/?Action=CreateTopic&Name=evil"),
}


def test_a_page_from_elsewhere_runs_reads_stores_and_wipes_nothing(cloud: Cloud, tmp_path: Path) -> None:
    cloud.put_month("2031-01", b"not to be wiped")
    before = cloud.stored_items()
    with serving(Site()) as answers_all, serving(Site()) as page:
        ports = [cloud.place.port, cloud.up.emulator_port, answers_all.port]
        page.page = ATTACK % {"ports": json.dumps(ports), "elsewhere": json.dumps(ELSEWHERE)}
        read = report_of(page, tmp_path)

    assert set(answers_all.heard) >= SENT, "the browser did not send what the page asked for"
    assert {urlsplit(url).port for url in read} <= {answers_all.port}
    assert "evil" not in {function["FunctionName"] for function in cloud.lambda_.list_functions()["Functions"]}
    assert not [url for url in cloud.sqs.list_queues()["QueueUrls"] if url.endswith("/evil")]
    assert cloud.stored_items() <= before
    assert cloud.s3.get_object(Bucket=cloud.up.outputs["Bucket"], Key="invoices/acme-eu/2031-01.csv")


def test_a_result_opens_in_a_tab_from_a_page_of_another_site(cloud: Cloud, tmp_path: Path) -> None:
    bucket = cloud.up.outputs["Bucket"]
    cloud.s3.put_object(Bucket=bucket, Key="results/may.txt", Body=b"the result", ContentType="text/plain")
    signing = client("s3", cloud.up.endpoint, signature_version="s3v4", s3={"addressing_style": "path"})
    link = signing.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "results/may.txt"})
    with serving(Site(f"<!doctype html><script>location = {json.dumps(link)}</script>")) as page:
        assert "the result" in shown_at_last(page.url, tmp_path)


def test_a_reader_may_open_the_address_and_the_contract_is_shown(cloud: Cloud, tmp_path: Path) -> None:
    assert '"openapi":"3.1.0"' in shown_at_last(f"{cloud.place.url}/openapi.json", tmp_path)
