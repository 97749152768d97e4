"""An export too long for one run: parts of the document, kept between runs and joined by the last."""

from __future__ import annotations

import hashlib
import io

from shared.domain.run import Continue, Run
from shared.errors import DeterministicFailure

PAGES_PER_RUN = 1_000
"""Half a second of work: a run that dies repeats no more than that, and no worker is held for minutes."""


class Parts:
    """What earlier runs of this job have drawn, as its checkpoint says.

    Raises DeterministicFailure (csv-changed) when the invoices are not those the first run read: the document would
    mix two months' states.
    """

    def __init__(self, run: Run, source: bytes) -> None:
        self._run, self._digest = run, hashlib.sha256(source).hexdigest()[:16]
        before = run.checkpoint or {"pages": 0, "source": self._digest}
        if before["source"] != self._digest:
            raise DeterministicFailure(
                "the invoices changed while they were exported; export again", code="csv-changed"
            )
        self.pages = int(before["pages"])

    def keep(self, document: bytes, pages: int) -> Continue:
        """Store this run's part, the document's pages up to `pages`, and go on in another run."""
        self._run.files.write(self._key(pages), document, "application/pdf")
        return Continue({"pages": pages, "source": self._digest})

    def joined(self, last: bytes, title: str) -> bytes:
        """The whole document: the parts in order, then `last`."""
        if not self.pages:
            return last
        from pypdf import PdfWriter

        writer = PdfWriter()
        for end in range(PAGES_PER_RUN, self.pages + 1, PAGES_PER_RUN):
            writer.append(io.BytesIO(self._run.files.read(self._key(end))))
        writer.append(io.BytesIO(last))
        writer.add_metadata({"/Title": title})
        whole = io.BytesIO()
        writer.write(whole)
        return whole.getvalue()

    def _key(self, end: int) -> str:
        return f"work/{self._run.job_id}/pages-{end:06d}.pdf"
