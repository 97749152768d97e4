"""Request an export: the example of a domain change and its job in one transaction."""

from __future__ import annotations

from datetime import datetime

from shared.domain.job import Job
from shared.jobs import Catalogue
from shared.operations.submit import Accepted, JobRequest, submit
from shared.ports import JobStore, Row


def request_export(
    *,
    tenant: str,
    month: str,
    idempotency_key: str | None,
    trace_id: str | None,
    by_tenant: bool,
    table: str,
    catalogue: Catalogue,
    store: JobStore,
    now: datetime,
    entropy: bytes,
) -> Accepted:
    """Accept the export of a tenant's month ("2026-05"): its row in `table` and its job, both or neither.

    The row holds no status: the job has it, and a copy would be a second truth. Raises as `submit`.
    """

    def row(job: Job) -> list[Row]:
        export_id = job.job_id.replace("job_", "exp_")
        values = {"pk": f"EXPORT#{export_id}", "sk": "EXPORT", "export_id": export_id, "job_id": job.job_id}
        return [Row(table, values | {"tenant": tenant, "month": month, "requested_at": now})]

    request = JobRequest(
        type="invoice-export",
        payload={"tenantId": tenant, "month": month},
        tenant=tenant,
        idempotency_key=idempotency_key,
        trace_id=trace_id,
        by_tenant=by_tenant,
        beside="exports row",
    )
    return submit(request, catalogue=catalogue, store=store, now=now, entropy=entropy, rows=row)
