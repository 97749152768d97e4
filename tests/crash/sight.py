"""What the test sees behind the pipeline's back: every record, and every message still in a queue."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from shared.adapters.dynamodb import DynamoJobStore
from shared.adapters.wire import from_item
from shared.domain.doorbell import Bell, parse
from shared.domain.job import Job
from shared.domain.retry import FailureClass
from shared.queues import QUEUES
from tests.e2e.cloud import Cloud, fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class Lying:
    """A message that lies in a lane (or its DLQ). `visible_at`: epoch seconds, when a worker may take it."""

    queue: str
    dead_letter: bool
    bell: Bell | None
    visible_at: float


def records(cloud: Cloud) -> dict[str, Job]:
    """Every job of the table."""
    pages = cloud.dynamodb.get_paginator("scan").paginate(TableName=cloud.up.outputs["JobsTable"], ConsistentRead=True)
    found = (from_item(item) for page in pages for item in page["Items"] if item["sk"]["S"] == "JOB")
    return {job.job_id: job for job in found}


def messages(cloud: Cloud) -> list[Lying]:
    """Every message of every lane, taken from none: the emulator shows them without a receive."""
    said = fetch(f"{cloud.up.endpoint}/_ministack/sqs/messages").json["messages"]
    by_url = [queues for regions in said.values() for queues in regions.values()]
    found = {url.rpartition("/")[2]: lying for queues in by_url for url, lying in queues.items()}
    prefix = cloud.up.outputs["Prefix"]
    lanes = [(lane, lane.physical_name(prefix), False) for lane in QUEUES.values()]
    lanes += [(lane, lane.dead_letter_name(prefix), True) for lane in QUEUES.values()]
    return [
        Lying(queue=lane.name, dead_letter=dead, bell=parse(message["Body"]), visible_at=float(message["VisibleAt"]))
        for lane, name, dead in lanes
        for message in found.get(name, ())
    ]


def lapsed(cloud: Cloud, jobs: Iterable[Job]) -> set[tuple[str, int]]:
    """The runs of these jobs that were taken back from a worker that said nothing, by job and number."""
    store = DynamoJobStore(cloud.dynamodb, cloud.up.outputs["JobsTable"])
    runs = (run for job in jobs for run in store.runs(job))
    return {(run.job_id, run.run) for run in runs if run.error_class == FailureClass.STALLED}


def described(cloud: Cloud, job: Job) -> str:
    """One job's record and its runs that did not complete, for a report."""
    runs = DynamoJobStore(cloud.dynamodb, cloud.up.outputs["JobsTable"]).runs(job)
    effects = {name: (effect.status, effect.run) for name, effect in job.effects.items()}
    head = {
        "type": job.type, "state": job.state, "run": job.run, "attempts": job.attempts, "stalls": job.stalls,
        "dispatch": job.dispatch, "outbox": job.outbox, "effects": effects, "created_at": job.created_at.isoformat(),
        "error": f"{job.error_class}/{job.error_code}: {job.error_message}",
    }  # fmt: skip
    lines = [json.dumps(head, default=str)]
    lines += [f"  run {r.run} {r.ended_at.isoformat()} {r.outcome} {r.error_class}/{r.error_code}" for r in runs]
    return "\n".join(lines)
