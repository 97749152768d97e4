"""A job record as its owner may see it, and the headers that spare needless polling."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from lambdas.api.answers import Answer, ErrorView, JobView, ProgressView
from lambdas.api.gateway import Request, Response, encode_json
from lambdas.api.problems import whole_seconds
from shared.domain.job import Job
from shared.domain.states import FINAL
from shared.domain.told import told_error, told_reason

SLOWEST_POLL = timedelta(seconds=5)


def job_url(job_id: str) -> str:
    """Where a job is asked for, relative to the API's address."""
    return f"/jobs/{job_id}"


def result_file(job: Job) -> Mapping[str, Any] | None:
    """The stored file a job made (key, size in bytes, contentType, version), None while there is none."""
    found: Mapping[str, Any] | None = (job.result or {}).get("file")
    return found


def shown(job: Job) -> JobView:
    """The public fields of a record."""
    return JobView(
        job_id=job.job_id,
        type=job.type,
        queue=job.queue,
        status=job.state,
        payload_version=job.payload_version,
        tenant_id=job.tenant,
        ordering_key=job.ordering_key,
        tags=None if job.tags is None else dict(job.tags),
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        progress=_progress(job),
        created_at=job.created_at,
        run_at=job.run_at,
        started_at=job.started_at,
        next_attempt_at=job.next_attempt_at,
        completed_at=job.completed_at,
        dead_at=job.dead_at,
        ended_at=job.ended_at,
        deadline_at=job.deadline_at,
        reason=told_reason(job),
        error=_last_error(job),
        result_url=f"{job_url(job.job_id)}/result" if result_file(job) else None,
    )


def _progress(job: Job) -> ProgressView | None:
    at = job.progress
    return None if at is None else ProgressView(done=at.done, total=at.total, unit=at.unit)


def _last_error(job: Job) -> ErrorView | None:
    if job.error_class is None:
        return None
    return ErrorView(
        failure_class=job.error_class,
        code=job.error_code,
        message=told_error(job),
        first_at=job.first_error_at,
        last_at=job.last_error_at,
    )


def why_it_ended(job: Job) -> str:
    """In a line: the error of a dead job, the reason of any other."""
    if job.dead_at is None:
        return told_reason(job) or "no reason was recorded"
    return told_error(job) or f"{job.error_class} {job.error_code}"


def retry_after(job: Job, now: datetime) -> dict[str, str]:
    """When to ask again; empty once the job is final. A wait of known length is named, else the answer slows down
    with the job's age: most jobs end within seconds, and one that did not will not be hurried by polling.
    """
    if job.state in FINAL:
        return {}
    known = max(job.run_at, job.next_attempt_at or job.run_at) - now
    since = now - max(job.run_at, job.created_at)
    return {"retry-after": whole_seconds(max(known, min(since / 4, SLOWEST_POLL)))}


def document(model: Answer) -> bytes:
    """The JSON of an answer; absent rather than null."""
    return encode_json(model.model_dump(mode="json", by_alias=True, exclude_none=True))


def conditional(request: Request, body: bytes, headers: Mapping[str, str], facts: Mapping[str, Any]) -> Response:
    """200 with a strong ETag of exactly these bytes, or 304 where the caller has them already (RFC 9110 §13.1.2)."""
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"etag": etag, "cache-control": "no-cache", **headers}
    asked = request.headers.get("if-none-match", "")
    if asked.strip() == "*" or etag in re.findall(r'"[^"]*"', asked):
        return Response(status=304, headers=headers, facts=facts)
    return Response(status=200, headers={"content-type": "application/json", **headers}, body=body, facts=facts)
