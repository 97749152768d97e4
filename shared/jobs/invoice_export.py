"""A tenant's invoices of one month as one PDF, a page each. The job type to copy: payload, declaration, handler."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from shared.domain.job import TENANT
from shared.domain.run import Continue, Run, StoredFile
from shared.errors import DeterministicFailure
from shared.jobs import Payload, job_type
from shared.jobs._invoice_csv import read_invoices
from shared.jobs._invoice_parts import PAGES_PER_RUN, Parts
from shared.jobs._invoice_pdf import InvoicePdf


class InvoiceExport(Payload):
    """Reads invoices/<tenant>/<month>.csv; month is YYYY-MM."""

    tenant_id: str = Field(pattern=f"^{TENANT.pattern}$", examples=["acme-eu"])
    month: str = Field(pattern="^20[0-9]{2}-(0[1-9]|1[0-2])$", examples=["2026-05"])


@job_type(
    "invoice-export",
    queue="exports.month-end",
    version=1,
    deadline=timedelta(minutes=10),
    lease=timedelta(seconds=30),  # short: every page renews it
    requires_result=True,
)
def export_invoices(payload: InvoiceExport, run: Run) -> StoredFile | Continue:
    """Writes exports/<tenant>/<month>/invoice-export.pdf: the same input gives the same bytes under the same key."""
    tenant, month = payload.tenant_id, payload.month
    if run.tenant not in (None, tenant):
        # POST /jobs takes any payload, so a tenant could name another's invoices here; the job's own tenant is the
        # one that was authenticated.
        raise DeterministicFailure(
            f"a job of tenant {run.tenant} asks for invoices of {tenant}", code="tenant-mismatch"
        )
    source = f"invoices/{tenant}/{month}.csv"
    csv = run.files.read(source)
    invoices, parts = read_invoices(csv, source), Parts(run, csv)
    pdf, done = InvoicePdf(tenant, month), parts.pages
    for invoice in invoices[done : done + PAGES_PER_RUN]:
        pdf.add_page(invoice)
        done += 1
        run.progress(done, len(invoices), "pages")
    if done < len(invoices):
        return parts.keep(pdf.finish(), done)
    document = parts.joined(pdf.finish(), done, f"Invoices of {tenant}, {month}")
    return run.files.write(f"exports/{tenant}/{month}/invoice-export.pdf", document, "application/pdf")
