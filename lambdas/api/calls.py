"""What the API does, one function per call: parse, call one operation, shape the answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from lambdas.api import body, openapi, view
from lambdas.api.answers import AcceptedView
from lambdas.api.app import App
from lambdas.api.gateway import Request, Response
from lambdas.api.identity import Caller
from lambdas.api.limits import RESULT_LINK_LIFETIME
from lambdas.api.problems import NO_JOB, NO_RESULT, Refused
from lambdas.api.submissions import JobSubmission
from shared.domain.job import INLINE_PAYLOAD_BYTES, JOB_ID, Job
from shared.domain.states import FINAL
from shared.errors import Fault, InvalidRequest
from shared.jobs import Catalogue
from shared.jobs.invoice_export import InvoiceExport
from shared.operations.request_export import request_export
from shared.operations.submit import Accepted, JobRequest, submit


def post_job(app: App, request: Request) -> Response:
    """POST /jobs"""
    caller, key, raw = app.identity.caller(request), body.idempotency_key(request), body.read(request)
    asked, faults = body.fields(raw, JobSubmission)
    if asked is None:
        raise _invalid(faults + _payload_faults(app.catalogue, raw, caller))
    tenant = caller.acts_for(asked.tenant_id)
    _admit(app, request, tenant)
    job_request = JobRequest(
        type=asked.type,
        payload=asked.payload,
        tenant=tenant,
        idempotency_key=key,
        run_at=asked.run_at,
        delay=_seconds(asked.delay_seconds),
        ordering_key=asked.ordering_key,
        max_age=_seconds(asked.max_age_seconds),
        tags=asked.tags,
        trace_id=request.trace_id,
        by_tenant=caller.is_tenant,
    )
    return _accepted(
        submit(job_request, catalogue=app.catalogue, store=app.store, now=app.clock.now(), entropy=app.entropy(10))
    )


def post_export(app: App, request: Request) -> Response:
    """POST /exports"""
    caller, key, raw = app.identity.caller(request), body.idempotency_key(request), body.read(request)
    if caller.tenant is not None:
        raw = {"tenantId": caller.tenant} | raw
    asked, faults = body.fields(raw, InvoiceExport)
    if asked is None:
        raise _invalid(faults)
    _admit(app, request, caller.acts_for(asked.tenant_id))
    return _accepted(
        request_export(
            tenant=asked.tenant_id,
            month=asked.month,
            idempotency_key=key,
            trace_id=request.trace_id,
            by_tenant=caller.is_tenant,
            table=app.exports_table,
            catalogue=app.catalogue,
            store=app.store,
            now=app.clock.now(),
            entropy=app.entropy(10),
        )
    )


def get_job(app: App, request: Request) -> Response:
    """GET /jobs/{id}"""
    job = _job(app, request)
    headers = view.retry_after(job, app.clock.now())
    return view.conditional(request, view.document(view.shown(job)), headers, _facts(job))


def get_result(app: App, request: Request) -> Response:
    """GET /jobs/{id}/result"""
    job = _job(app, request)
    stored = view.result_file(job)
    if stored is None:
        raise Refused(NO_RESULT, _why_no_result(job), headers=view.retry_after(job, app.clock.now()))
    link = app.links.link(stored["key"], RESULT_LINK_LIFETIME, stored.get("version"))
    return Response(status=303, headers={"location": link, "cache-control": "no-store"}, facts=_facts(job))


def get_openapi(app: App, request: Request) -> Response:
    """GET /openapi.json"""
    return view.conditional(request, openapi.contract(app.catalogue, app.identity), {}, {})


def _admit(app: App, request: Request, tenant: str | None) -> None:
    """Count this submit against the quotas, where callers are known. Raises QuotaExceeded."""
    if request.principal is None:
        return
    size = len(request.body)  # about what the payload will take, without writing it out once more
    caller = request.principal or None
    app.admission.admit(caller=caller, tenant=tenant, large_bytes=size if size >= INLINE_PAYLOAD_BYTES else 0)


def _job(app: App, request: Request) -> Job:
    """The caller's job. One answer for all that is not there: it must not tell a stranger that a job exists."""
    caller, job_id = app.identity.caller(request), request.path_parameters["id"]
    job = app.store.get(job_id) if JOB_ID.fullmatch(job_id) else None
    # TTL deletes hours to days after the time it was given.
    gone = job is None or (job.expires_at is not None and job.expires_at <= app.clock.now())
    if job is None or gone or not caller.may_see(job):
        raise Refused(NO_JOB, "No job has this id: it never had one, or the job ended long ago and was removed.")
    return job


def _why_no_result(job: Job) -> str:
    if job.result is not None or job.completed_at is not None:
        return f"The job is {job.state}; jobs of type {job.type!r} that end like this one leave no file."
    if job.state not in FINAL:
        return f"The job is {job.state}; ask again once {view.job_url(job.job_id)} says that it ended."
    return f"The job is {job.state} and will make no result: {view.why_it_ended(job)}"


def _accepted(accepted: Accepted) -> Response:
    job = accepted.job
    url = view.job_url(job.job_id)
    headers = {"content-type": "application/json", "location": url, "cache-control": "no-store"}
    if accepted.replayed:
        headers["idempotent-replayed"] = "true"
    document = view.document(AcceptedView(job_id=job.job_id, status=job.state, status_url=url))
    return Response(status=202, headers=headers, body=document, facts=_facts(job) | {"replayed": accepted.replayed})


def _facts(job: Job) -> dict[str, Any]:
    return {"job": job.job_id, "type": job.type, "attempt": job.attempts, "state": job.state}


def _invalid(faults: list[Fault]) -> InvalidRequest:
    return InvalidRequest(f"{len(faults)} field(s) are wrong", faults)


def _payload_faults(catalogue: Catalogue, raw: Mapping[str, Any], caller: Caller) -> list[Fault]:
    """What is wrong in the payload, when the fields around it already are: one answer names everything."""
    name, payload = raw.get("type"), raw.get("payload")
    job_type = catalogue.get(name) if isinstance(name, str) else None
    if job_type is None or not isinstance(payload, dict):
        return []
    return job_type.accept(job_type.filled(payload, caller.tenant))[1]


def _seconds(seconds: int | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
