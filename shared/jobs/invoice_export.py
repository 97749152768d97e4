"""A tenant's invoices of one month as one PDF, a page each. The job type to copy: payload, declaration, handler."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from shared.domain.job import TENANT
from shared.domain.run import Run, StoredFile
from shared.errors import DeterministicFailure
from shared.jobs import Payload, job_type
from shared.jobs._invoice_csv import read_invoices
from shared.jobs._invoice_pdf import InvoicePdf


class InvoiceExport(Payload):
    """Reads invoices/<tenant>/<month>.csv; month is YYYY-MM."""

    tenant_id: str = Field(pattern=f"^{TENANT.pattern}$", examples=["acme-eu"])
    month: str = Field(pattern="^20[0-9]{2}-(0[1-9]|1[0-2])$", examples=["2026-05"])


@job_type(
    "invoice-export",
    queue="exports.month-end",
    version=1,
    lease=timedelta(seconds=30),  # short: every page renews it
    requires_result=True,
)
def export_invoices(payload: InvoiceExport, run: Run) -> StoredFile:
    """Writes exports/<tenant>/<month>/invoice-export.pdf: the same input gives the same bytes under the same key."""
    if run.tenant not in (None, payload.tenant_id):
        # POST /jobs takes any payload, so a tenant could name another's invoices here; the job's own tenant is the
        # one that was authenticated.
        raise DeterministicFailure(
            f"a job of tenant {run.tenant} asks for invoices of {payload.tenant_id}", code="tenant-mismatch"
        )
    source = f"invoices/{payload.tenant_id}/{payload.month}.csv"
    invoices = read_invoices(run.files.read(source), source)
    pdf = InvoicePdf(payload.tenant_id, payload.month)
    for done, invoice in enumerate(invoices, start=1):
        pdf.add_page(invoice)
        run.progress(done, len(invoices), "pages")
    return run.files.write(
        f"exports/{payload.tenant_id}/{payload.month}/invoice-export.pdf", pdf.finish(), "application/pdf"
    )
