"""Does somebody wake up, for the right thing, and know what to do?"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from shared.adapters.system import PowertoolsMeter
from shared.domain.outcome import Alert
from shared.queues import QUEUES
from tests.infrastructure.stages import ROOT

ALARM = "AWS::CloudWatch::Alarm"


def test_every_alarm_tells_the_topic_when_it_begins_and_when_it_ends(every_stage) -> None:
    (topic,) = every_stage.of("AWS::SNS::Topic")
    for name, alarm in _alarms(every_stage).items():
        assert alarm["AlarmActions"] == alarm["OKActions"] == [{"Ref": topic}], name
        # Idle queues and functions report nothing; a promoter that reports nothing does not tick.
        assert alarm["TreatMissingData"] == ("breaching" if name.endswith("-silent") else "notBreaching"), name


def test_every_alarm_names_a_runbook_that_exists(every_stage) -> None:
    for name, alarm in _alarms(every_stage).items():
        page = re.search(r"Runbook: (docs/runbooks/[a-z0-9-]+\.md)$", alarm["AlarmDescription"])
        assert page, name
        assert (ROOT / page[1]).is_file(), name


def test_no_runbook_is_left_that_no_alarm_names(prod) -> None:
    named = {alarm["AlarmDescription"].rpartition("/")[2] for alarm in _alarms(prod).values()}
    assert {page.name for page in (ROOT / "docs" / "runbooks").glob("*.md")} - {"README.md"} == named


def test_an_alarm_is_raised_when_somebody_waits_longer_than_the_lane_intends(every_stage) -> None:
    for lane in QUEUES.values():
        alarm = _alarms(every_stage)[f"{lane.slug}-oldest-age"]
        assert (alarm["MetricName"], alarm["Statistic"]) == ("ApproximateAgeOfOldestMessage", "Maximum")
        assert _dimensions(alarm) == {"QueueName": lane.physical_name(f"holdfast-{every_stage.stage}")}
        assert (alarm["Threshold"], alarm["Period"]) == (lane.oldest_age_alarm.total_seconds(), 60)


@pytest.mark.parametrize("waiting", [*(f"{lane.slug}-dead-letters" for lane in QUEUES.values()), "relay-parked"])
def test_looking_at_a_dead_letter_does_not_end_its_alarm(aws_stage, waiting) -> None:
    alarm = _alarms(aws_stage)[waiting]
    metrics = {m["Id"]: m for m in alarm["Metrics"]}
    (sum_,) = [m for m in metrics.values() if "Expression" in m]
    assert sum_["Expression"] == "visible + hidden"
    assert {_metric(metrics[id])["MetricName"] for id in ("visible", "hidden")} == {
        "ApproximateNumberOfMessagesVisible",
        "ApproximateNumberOfMessagesNotVisible",
    }
    watched = {_dimensions(_metric(metrics[id]))["QueueName"] for id in ("visible", "hidden")}
    assert watched == {_queue_of(waiting, aws_stage.stage)}
    assert {metrics[id]["MetricStat"]["Period"] for id in ("visible", "hidden")} == {60}
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (1, "GreaterThanOrEqualToThreshold")


@pytest.mark.parametrize("waiting", [*(f"{lane.slug}-dead-letters" for lane in QUEUES.values()), "relay-parked"])
def test_on_the_local_stage_visible_messages_are_watched_alone_for_want_of_metric_math(stacks, waiting) -> None:
    alarm = _alarms(stacks("local"))[waiting]
    assert alarm["MetricName"] == "ApproximateNumberOfMessagesVisible"
    assert _dimensions(alarm) == {"QueueName": _queue_of(waiting, "local")}


def test_every_function_is_watched_for_crashes_and_throttling(every_stage) -> None:
    for name in every_stage.properties("AWS::Lambda::Function", "FunctionName"):
        short = name.removeprefix(f"holdfast-{every_stage.stage}-")
        for metric in ("Errors", "Throttles"):
            alarm = _alarms(every_stage)[f"{short}-{metric.lower()}"]
            assert (alarm["Namespace"], alarm["MetricName"], alarm["Statistic"]) == ("AWS/Lambda", metric, "Sum")
            assert _dimensions(alarm) == {"FunctionName": name}
            assert (alarm["Threshold"], alarm["Period"]) == (1, 60)


def test_a_relay_that_falls_a_minute_behind_is_noticed(every_stage) -> None:
    alarm = _alarms(every_stage)["relay-behind"]
    assert (alarm["MetricName"], alarm["Threshold"]) == ("IteratorAge", 60_000)
    assert _dimensions(alarm) == {"FunctionName": f"holdfast-{every_stage.stage}-relay"}


@pytest.mark.parametrize(
    ("alarm", "alert", "of"),
    [
        ("expired", Alert.EXPIRED, (1, 1)),
        ("type-not-loaded", Alert.TYPE_NOT_LOADED, (1, 1)),
        ("type-not-known", Alert.TYPE_NOT_KNOWN, (5, 15)),
    ],
)
def test_what_no_dead_letter_queue_tells_has_an_alarm_on_what_the_code_emits(
    every_stage, capsys, alarm, alert, of
) -> None:
    for lane in QUEUES.values():
        watches = _alarms(every_stage)[f"{lane.slug}-{alarm}"]
        PowertoolsMeter().alert(alert, queue=lane.name, type="note", job="job_1")
        emitted = json.loads(capsys.readouterr().out)
        (declared,) = emitted["_aws"]["CloudWatchMetrics"]
        assert [watches["MetricName"]] == [metric["Name"] for metric in declared["Metrics"]]
        assert watches["Namespace"] == declared["Namespace"]
        dimensions = {name: emitted[name] for name in declared["Dimensions"][0]}
        assert _dimensions(watches) == dimensions == {"queue": lane.name}
        assert emitted[watches["MetricName"]] == [watches["Threshold"]]
        assert (watches.get("DatapointsToAlarm"), watches["EvaluationPeriods"]) == of
        assert watches["Statistic"] == "Sum"


def test_an_api_that_serves_nobody_is_noticed(every_stage) -> None:
    alarm = _alarms(every_stage)["api-5xx"]
    assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/ApiGateway", "5xx")
    assert "Fn::ImportValue" in _dimensions(alarm)["ApiId"]


def test_cloudwatch_may_publish_although_the_policy_replaces_the_default_one(every_stage) -> None:
    (allow,) = [s for s in _topic_policy(every_stage) if s["Effect"] == "Allow"]
    assert (allow["Principal"], allow["Action"]) == ({"Service": "cloudwatch.amazonaws.com"}, "sns:Publish")
    assert allow["Resource"] == {"Ref": next(iter(every_stage.of("AWS::SNS::Topic")))}
    assert allow["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


def test_alarms_travel_only_encrypted(aws_stage) -> None:
    (deny,) = [s for s in _topic_policy(aws_stage) if s["Effect"] == "Deny"]
    assert (deny["Action"], deny["Condition"]) == ("sns:Publish", {"Bool": {"aws:SecureTransport": "false"}})


def test_the_stages_address_is_subscribed(stacks) -> None:
    (subscription,) = stacks("prod").of("AWS::SNS::Subscription").values()
    assert (subscription["Properties"]["Protocol"], subscription["Properties"]["Endpoint"]) == (
        "email",
        "on-call@example.com",
    )
    assert not stacks("dev").of("AWS::SNS::Subscription")


def test_nothing_an_alarm_watches_is_held_by_an_export(every_stage) -> None:
    """An import of a queue would keep it from ever being renamed or removed."""
    text = str(every_stage.templates["Observability"])
    imported = set(re.findall(r"'Fn::ImportValue': '([^']+)'", text))
    assert {name.partition(":")[0] for name in imported} == {f"Holdfast-{every_stage.stage}-Pipeline"}
    assert len(imported) == 1  # the API's id, which AWS chooses


def _alarms(stacks: Any) -> dict[str, dict[str, Any]]:
    prefix = f"holdfast-{stacks.stage}-"
    return {name.removeprefix(prefix): alarm for name, alarm in stacks.properties(ALARM, "AlarmName").items()}


def _queue_of(alarm: str, stage: str) -> str:
    lanes = {f"{lane.slug}-dead-letters": lane.dead_letter_name(f"holdfast-{stage}") for lane in QUEUES.values()}
    return lanes.get(alarm, f"holdfast-{stage}-relay-parked")


def _metric(of: dict[str, Any]) -> dict[str, Any]:
    return dict(of["MetricStat"]["Metric"])


def _dimensions(of: dict[str, Any]) -> dict[str, Any]:
    return {d["Name"]: d["Value"] for d in of["Dimensions"]}


def _topic_policy(stacks: Any) -> list[dict[str, Any]]:
    (policy,) = stacks.of("AWS::SNS::TopicPolicy").values()
    return list(policy["Properties"]["PolicyDocument"]["Statement"])
