"""An export too long for one run: parts of the document, kept between runs and joined by the last."""

from __future__ import annotations

import hashlib
import io

from shared.domain.run import Continue, Run
from shared.errors import DeterministicFailure

PAGES_PER_RUN = 1_000
"""Half a second of work: a run that dies repeats no more than that, and no worker is held for minutes."""


class Parts:
    """What earlier runs of this job have drawn, as its checkpoint says: the page each part ends at, and a digest of the
    invoices. Were they changed between two runs, the document would mix two states of a month, so it begins anew.
    """

    def __init__(self, run: Run, source: bytes) -> None:
        self._run, self._digest = run, hashlib.sha256(source).hexdigest()[:16]
        before = run.checkpoint or {}
        self._ends: list[int] = list(before["ends"]) if before.get("source") == self._digest else []
        self.pages = self._ends[-1] if self._ends else 0

    def keep(self, document: bytes, pages: int) -> Continue:
        """Store this run's part, the document's pages up to `pages`, and go on in another run."""
        self._run.files.write(self._key(pages), document, "application/pdf")
        return Continue({"ends": [*self._ends, pages], "source": self._digest})

    def joined(self, last: bytes, pages: int, title: str) -> bytes:
        """The whole document of so many pages: the parts in order, then `last`. Raises DeterministicFailure
        (pages-missing) rather than return another number.
        """
        if not self.pages:
            return last
        from pypdf import PdfWriter

        writer = PdfWriter()
        for end in self._ends:
            writer.append(io.BytesIO(self._run.files.read(self._key(end))))
        writer.append(io.BytesIO(last))
        if len(writer.pages) != pages:
            found = f"the parts and the last run have {len(writer.pages)} pages, the month has {pages}"
            raise DeterministicFailure(found, code="pages-missing")
        writer.add_metadata({"/Title": title})
        whole = io.BytesIO()
        writer.write(whole)
        return whole.getvalue()

    def _key(self, end: int) -> str:
        return f"work/{self._run.job_id}/pages-{end:06d}.pdf"
