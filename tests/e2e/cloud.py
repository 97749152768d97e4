"""A running local cloud as a test sees it: HTTP on the outside, the emulator's tables and queues behind it."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from local.environment import client
from local.place import Place
from local.state import State
from shared.adapters.wire import from_item, job_key
from shared.domain.job import Job
from shared.domain.states import FINAL

JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Answer:
    """One HTTP answer, its body read."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Cloud:
    place: Place
    up: State

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request to the local cloud's address; anything but bytes is sent as JSON."""
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        return fetch(self.place.url + path, method, raw, {**(JSON if raw is not None else {}), **(headers or {})})

    def submit(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> str:
        """POST what must be accepted; answers the job id."""
        answer = self.ask("POST", path, body, headers)
        assert answer.status == 202, answer.body
        return str(answer.json["jobId"])

    def export(self, month: str, headers: Mapping[str, str] | None = None) -> str:
        """Ask for tenant acme-eu's export of a month; answers the job id."""
        return self.submit("/exports", {"tenantId": "acme-eu", "month": month}, headers)

    def put_month(self, month: str, csv: bytes) -> None:
        """Place a month of acme-eu's invoices."""
        self.s3.put_object(Bucket=self.up.outputs["Bucket"], Key=f"invoices/acme-eu/{month}.csv", Body=csv)

    def wait(self, job_id: str, seconds: float = 60.0) -> Any:
        """What GET /jobs/{id} says once the job has ended."""
        deadline = time.monotonic() + seconds
        while (shown := self.ask("GET", f"/jobs/{job_id}").json)["status"] not in FINAL:
            assert time.monotonic() < deadline, f"not ended after {seconds} s: {shown}"
            time.sleep(0.1)
        return shown

    def record(self, job_id: str) -> Job:
        """The job's record, read strongly."""
        table = self.up.outputs["JobsTable"]
        return from_item(self.dynamodb.get_item(TableName=table, Key=job_key(job_id), ConsistentRead=True)["Item"])

    def stored_items(self) -> set[tuple[str, str]]:
        """The keys of what a request stored: job records, payloads, exports. Not the history of runs, which other
        tests' jobs go on writing; and what one of those ends with may be gone at the next look.
        """
        tables = (self.up.outputs["JobsTable"], f"{self.up.outputs['Prefix']}-exports")
        found = (self.dynamodb.get_paginator("scan").paginate(TableName=table) for table in tables)
        keys = {(item["pk"]["S"], item["sk"]["S"]) for pages in found for page in pages for item in page["Items"]}
        return {(pk, sk) for pk, sk in keys if not sk.startswith("RUN#")}

    @cached_property
    def dynamodb(self) -> Any:
        return client("dynamodb", self.up.endpoint)

    @cached_property
    def s3(self) -> Any:
        return client("s3", self.up.endpoint, s3={"addressing_style": "path"})

    @cached_property
    def sqs(self) -> Any:
        return client("sqs", self.up.endpoint)

    @cached_property
    def lambda_(self) -> Any:
        return client("lambda", self.up.endpoint)


def fetch(url: str, method: str = "GET", body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Answer:
    """One request to 127.0.0.1, redirects not followed."""
    where = urlsplit(url)
    assert where.hostname == "127.0.0.1", f"a test must not leave this machine: {url}"
    connection = http.client.HTTPConnection("127.0.0.1", where.port, timeout=60)
    try:
        connection.request(method, f"{where.path}?{where.query}".rstrip("?"), body, dict(headers or {}))
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()
