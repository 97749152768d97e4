"""Log lines and metrics as CloudWatch reads them."""

from __future__ import annotations

import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aws_lambda_powertools import Logger

from shared import telemetry
from shared.adapters.system import PowertoolsLog, PowertoolsMeter, SystemClock
from shared.domain.outcome import Alert, Outcome
from shared.jobs import Catalogue
from shared.ports import Measured


def measured(**fields: Any) -> Measured:
    values = {"type": "invoice-export", "outcome": Outcome.COMPLETED, "attempt": 1, "ran": timedelta(seconds=2)}
    return Measured(**(values | {"since_submit": timedelta(seconds=5)} | fields))


MIXED = [
    measured(),
    measured(outcome=Outcome.RETRYING_IN_DUE, attempt=2, reclaimed=True),
    Measured(type="note", outcome=Outcome.STALE),
]
LANE, LANE_AND_TYPE = ["queue"], ["queue", "type"]


def test_a_batch_is_one_metric_line_of_its_lane_with_what_an_operator_asks_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "worker")
    PowertoolsMeter().emit("exports.month-end", MIXED)
    (line,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert line["queue"] == "exports.month-end"
    assert (line["Completed"], line["RetryingInDue"], line["Stale"]) == ([1.0], [1.0], [1.0])
    assert line["LeaseExpiries"] == [1.0]
    assert (line["RunTime"], line["TotalTime"], line["Attempt"]) == ([2000.0, 2000.0], [5000.0], [1.0, 2.0])
    assert line["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Holdfast"
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [LANE]


COUNTED_APART = '''
from shared.domain.run import Run
from shared.jobs import Payload, job_type

@job_type("invoice-export", queue="exports.month-end", own_metrics=True)
def invoice_export(payload: Payload, run: Run) -> None:
    """Does nothing."""
'''


def test_a_type_that_asks_for_its_own_metrics_counts_for_itself_and_for_its_lane(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "jobs_counted_apart"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "invoice_export.py").write_text(COUNTED_APART)
    monkeypatch.syspath_prepend(tmp_path)
    catalogue = Catalogue(package.name)
    meter = PowertoolsMeter(catalogue.own_metrics)
    meter.emit("exports.month-end", MIXED)
    (line,) = capsys.readouterr().out.splitlines()
    assert '"type"' not in line, "counting loads no job type: one that does not load has no metrics of its own"
    assert catalogue.get("invoice-export")
    meter.emit("exports.month-end", MIXED)
    export, others = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert export["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [LANE, LANE_AND_TYPE]
    assert (export["queue"], export["type"], export["Completed"]) == ("exports.month-end", "invoice-export", [1.0])
    assert others["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [LANE]
    assert others["Stale"] == [1.0]
    assert not {"type", "Completed", "RunTime"} & set(others)


def test_an_alert_is_one_whole_line_under_its_queue_alone_that_names_the_job(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all workers and the sweeper, whatever service they say they are."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "worker")
    with ThreadPoolExecutor(8) as pool:
        for n in range(200):
            pool.submit(PowertoolsMeter().alert, Alert.EXPIRED, queue="thumbnails", type="thumbnail", job=f"job_{n}")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["job"] for line in lines} == {f"job_{n}" for n in range(200)}
    assert {tuple(line["_aws"]["CloudWatchMetrics"][0]["Dimensions"][0]) for line in lines} == {("queue",)}
    assert {(line["queue"], line["type"], *line["AlertExpired"]) for line in lines} == {
        ("thumbnails", "thumbnail", 1.0)
    }


def test_every_alert_has_the_name_that_the_stacks_watch() -> None:
    watched = {telemetry.JOBS_EXPIRED, telemetry.TYPE_NOT_LOADED, telemetry.TYPE_NOT_KNOWN}
    assert {telemetry.alert_metric(alert) for alert in Alert} == watched


def test_a_batch_of_nothing_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    PowertoolsMeter().emit("thumbnails", [])
    assert capsys.readouterr().out == ""


def test_lines_of_jobs_side_by_side_never_mix_their_keys_up() -> None:
    """Powertools' append_keys did, for 1,920 of 2,000 lines; here the keys travel with their line."""
    stream, barrier = io.StringIO(), threading.Barrier(8)
    log = PowertoolsLog(Logger(service="test-threads", stream=stream))

    def work(n: int) -> None:
        barrier.wait()
        for _ in range(50):
            log.event("running", job=f"job-{n}", type=f"type-{n}", attempt=n, state="running")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == 400
    assert all(line["type"] == f"type-{line['attempt']}" and line["job"] == f"job-{line['attempt']}" for line in lines)


def test_a_foreseen_failure_is_one_line_and_a_surprise_has_its_traceback() -> None:
    stream = io.StringIO()
    log = PowertoolsLog(Logger(service="test-levels", stream=stream))
    try:
        raise KeyError("vat_rate")
    except KeyError as e:
        log.event("retrying", level="warning", error=e, job="j")
        log.event("dead", level="error", error=e, job="j")
    warning, error = (json.loads(line) for line in stream.getvalue().splitlines())
    assert warning["error"] == error["error"] == "KeyError: 'vat_rate'"
    assert "exception" not in warning
    assert "Traceback" in error["exception"]


def test_the_clock_is_cut_to_what_the_table_keeps() -> None:
    """Otherwise what a worker saw would not equal what it reads back, and conditions on times would fail."""
    assert {SystemClock().now().microsecond % 1000 for _ in range(100)} == {0}
