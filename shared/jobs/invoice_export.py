"""A tenant's invoices of one month as one PDF, a page each. The job type to copy: payload, declaration, handler."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from shared.domain.run import Continue, Run, StoredFile
from shared.jobs import Payload, TenantId, job_type
from shared.jobs._invoice_parts import PARTS_PER_RUN, PDF, Parts
from shared.jobs._invoice_pdf import InvoicePdf, title_of


class InvoiceExport(Payload):
    """Reads invoices/<tenant>/<month>.csv; month is YYYY-MM."""

    tenant_id: TenantId
    month: str = Field(pattern="^20[0-9]{2}-(0[1-9]|1[0-2])$", examples=["2026-05"])


@job_type(
    "invoice-export",
    queue="exports.month-end",
    version=1,
    deadline=timedelta(minutes=10),
    lease=timedelta(seconds=30),  # short: every page renews it
    requires_result=True,
    open_to_tenants=True,  # reads and writes nothing but the tenant's own
)
def export_invoices(payload: InvoiceExport, run: Run) -> StoredFile | Continue:
    """Writes exports/<tenant>/<month>/invoice-export.pdf: the same input gives the same bytes under the same key. A
    month larger than a run is drawn in parts, over several runs, the last of which joins them.
    """
    tenant, month = payload.tenant_id, payload.month
    parts, given = Parts(run, f"invoices/{tenant}/{month}.csv"), run.time_left
    target, drawn = f"exports/{tenant}/{month}/invoice-export.pdf", 0
    while invoices := parts.next():
        pdf = InvoicePdf(tenant, month)
        for page, invoice in enumerate(invoices, start=parts.pages + 1):
            pdf.add_page(invoice)
            run.progress(page, parts.total, "pages")
        if parts.are_one:
            return run.files.write(target, pdf.finish(), PDF)
        parts.keep(pdf.finish(), len(invoices))
        drawn += 1
        if drawn == PARTS_PER_RUN or run.time_left < given / 2:
            return parts.checkpoint()
    return parts.joined(target, title_of(tenant, month))
