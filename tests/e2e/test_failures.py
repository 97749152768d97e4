"""Jobs that cannot succeed: dead at once, with the reason in the record and a marked copy in the DLQ."""

from __future__ import annotations

import time
from typing import Any

from local import samples
from shared.domain.doorbell import parse
from shared.domain.retry import FailureClass
from shared.domain.states import State
from shared.queues import QUEUES
from tests.e2e.cloud import Cloud

LANE = QUEUES["exports.month-end"]


def dead(cloud: Cloud, month: str) -> Any:
    """The job's public view once it has died, after one attempt."""
    ended = cloud.wait(cloud.export(month))
    assert (ended["status"], ended["attempts"]) == (State.DEAD, 1)
    assert ended["error"]["class"] == FailureClass.DETERMINISTIC
    return ended


def dead_letter(cloud: Cloud, job_id: str) -> Any:
    """The copy of this job in its lane's DLQ."""
    url = cloud.sqs.get_queue_url(QueueName=LANE.dead_letter_name(cloud.up.outputs["Prefix"]))["QueueUrl"]
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        answer = cloud.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], VisibilityTimeout=0
        )
        for message in answer.get("Messages", []):
            if job_id in message["Body"]:
                return message
        time.sleep(0.2)
    raise AssertionError(f"no copy of {job_id} in {url}")


def test_a_missing_file_is_dead_at_once_and_named(cloud: Cloud) -> None:
    ended = dead(cloud, "2032-01")

    assert ended["error"]["code"] == "file-missing"
    assert "invoices/acme-eu/2032-01.csv" in ended["error"]["message"]


def test_a_broken_row_is_dead_at_once_and_named(cloud: Cloud) -> None:
    rows = samples.write_month(rows=12).decode().splitlines()
    cloud.put_month("2031-02", "\n".join([*rows[:7], "not,an,invoice", *rows[8:]]).encode())

    ended = dead(cloud, "2031-02")

    assert ended["error"]["code"] == "csv-row-invalid"
    assert "row 8" in ended["error"]["message"]
    assert "resultUrl" not in ended
    assert cloud.ask("GET", f"/jobs/{ended['jobId']}/result").status == 409


def test_a_dead_job_has_a_marked_copy_in_the_dlq_with_its_context(cloud: Cloud) -> None:
    ended = dead(cloud, "2031-03")

    copy = dead_letter(cloud, ended["jobId"])

    bell = parse(copy["Body"])
    assert bell is not None
    assert (bell.job_id, bell.dead_letter) == (ended["jobId"], True)
    context = {name: value["StringValue"] for name, value in copy["MessageAttributes"].items()}
    assert context["error_class"] == FailureClass.DETERMINISTIC
    assert (context["error_code"], context["tenant"], context["attempts"]) == ("file-missing", "acme-eu", "1")


def test_a_dead_job_runs_no_second_time(cloud: Cloud) -> None:
    ended = dead(cloud, "2031-04")
    dead_letter(cloud, ended["jobId"])
    time.sleep(2)

    record = cloud.record(ended["jobId"])

    assert (record.run, record.state, record.outbox) == (1, State.DEAD, None)
