"""What the emulator accepts and AWS refuses, or what burns healthy messages."""

from __future__ import annotations

from typing import Any

from shared.queues import QUEUES

QUEUE, MAPPING, FUNCTION = "AWS::SQS::Queue", "AWS::Lambda::EventSourceMapping", "AWS::Lambda::Function"
DAY = 24 * 3600


def test_a_queue_hides_a_message_for_six_times_its_workers_timeout(every_stage) -> None:
    for lane, queue, worker, _ in _lanes(every_stage):
        assert queue["VisibilityTimeout"] >= 6 * worker["Timeout"], lane.name
        assert queue["VisibilityTimeout"] <= 12 * 3600, lane.name
        assert worker["Timeout"] <= 15 * 60, lane.name


def test_a_dead_letter_queue_is_of_its_queues_kind_and_outlives_it_by_far(every_stage) -> None:
    queues = every_stage.properties(QUEUE, "QueueName")
    for lane, queue, _, _ in _lanes(every_stage):
        dead_letters = queues[lane.dead_letter_name(_prefix(every_stage))]
        assert dead_letters.get("FifoQueue") == queue.get("FifoQueue") == (True if lane.fifo else None), lane.name
        # A FIFO DLQ sets the clock anew, and a FIFO job spends all its waits on one message.
        kept = 14 * DAY if lane.fifo else 7 * DAY
        assert (queue["MessageRetentionPeriod"], dead_letters["MessageRetentionPeriod"]) == (kept, 14 * DAY)


def test_sqs_gives_up_on_a_message_only_when_no_worker_can_start_or_read_its_record(every_stage) -> None:
    ids = {r["Properties"]["QueueName"]: id for id, r in every_stage.of(QUEUE).items()}
    for lane, queue, _, _ in _lanes(every_stage):
        target = ids[lane.dead_letter_name(_prefix(every_stage))]
        assert queue["RedrivePolicy"] == {
            "deadLetterTargetArn": {"Fn::GetAtt": [target, "Arn"]},
            "maxReceiveCount": 1000 if lane.fifo else 600,
        }


def test_a_dead_letter_queue_takes_messages_of_its_own_queue_only(every_stage) -> None:
    queues = every_stage.properties(QUEUE, "QueueName")
    for lane in QUEUES.values():
        allowed = queues[lane.dead_letter_name(_prefix(every_stage))]["RedriveAllowPolicy"]
        assert allowed["redrivePermission"] == "byQueue"
        (source,) = allowed["sourceQueueArns"]
        assert source["Fn::Join"][1][-1].endswith(f":{lane.physical_name(_prefix(every_stage))}")


def test_a_fifo_lane_is_ordered_and_throttled_by_key_and_never_by_content(every_stage) -> None:
    ordered = [queue for lane, queue, _, _ in _lanes(every_stage) if lane.fifo]
    assert ordered
    for queue in ordered:
        assert queue["QueueName"].endswith(".fifo")
        assert (queue["DeduplicationScope"], queue["FifoThroughputLimit"]) == ("messageGroup", "perMessageGroupId")
        assert "ContentBasedDeduplication" not in queue  # it would swallow a doorbell that a repair rings again


def test_a_lanes_concurrency_is_its_event_sources_and_never_reserved(every_stage) -> None:
    for lane, _, _, mapping in _lanes(every_stage):
        assert mapping["ScalingConfig"] == {"MaximumConcurrency": lane.max_concurrency}
    assert [f for f in every_stage.of(FUNCTION).values() if "ReservedConcurrentExecutions" in f["Properties"]] == []


def test_a_worker_answers_for_each_message_and_gets_no_more_than_it_can_start(every_stage) -> None:
    for lane, _, _, mapping in _lanes(every_stage):
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert mapping["BatchSize"] == lane.batch_size <= lane.parallelism
        assert "MaximumBatchingWindowInSeconds" not in mapping
        assert mapping.get("Enabled", True)


def test_no_job_queue_is_filtered_because_sqs_deletes_what_a_filter_does_not_match(every_stage) -> None:
    assert [lane.name for lane, _, _, mapping in _lanes(every_stage) if "FilterCriteria" in mapping] == []


def test_messages_travel_only_encrypted(aws_stage) -> None:
    protected = set()
    for policy in aws_stage.of("AWS::SQS::QueuePolicy").values():
        deny = [s for s in policy["Properties"]["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"]
        assert [(s["Action"], s["Condition"]) for s in deny] == [("sqs:*", {"Bool": {"aws:SecureTransport": "false"}})]
        protected |= {queue["Ref"] for queue in policy["Properties"]["Queues"]}
    assert protected == set(aws_stage.of(QUEUE))


def _prefix(stacks: Any) -> str:
    return f"holdfast-{stacks.stage}"


def _lanes(stacks: Any) -> list[tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """(declared, queue, worker, mapping) of every lane."""
    queues, functions = stacks.of(QUEUE), stacks.properties(FUNCTION, "FunctionName")
    mappings = [mapping["Properties"] for mapping in stacks.of(MAPPING).values()]
    lanes = []
    for lane in QUEUES.values():
        name = lane.physical_name(_prefix(stacks))
        (id,) = [id for id, queue in queues.items() if queue["Properties"]["QueueName"] == name]
        (mapping,) = [m for m in mappings if m["EventSourceArn"] == {"Fn::GetAtt": [id, "Arn"]}]
        worker = functions[f"{_prefix(stacks)}-worker-{lane.slug}"]
        lanes.append((lane, queues[id]["Properties"], worker, mapping))
    return lanes
