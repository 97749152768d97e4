"""An export larger than one run: parts of the document, stored one by one and joined at the end.

What is stored is told by a file beside the parts, not by the checkpoint: a run that is killed leaves none, and the next
one goes on behind the last part that was kept. A part's key says of which file, from which page and to which it is, so
two runs at once, one of them stale, write the same bytes under the same key or keep out of each other's way.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from typing import Any

from shared.domain.run import Continue, Run, StoredFile
from shared.errors import DeterministicFailure
from shared.jobs._invoice_csv import START, Invoice, Place, check_invoices, read_invoices
from shared.jobs._pdf_join import JoinedPdf

PAGES_PER_PART = 1_000
"""What a killed run repeats at most, and all that is held of a document: a second of work, 15 MB."""

PARTS_PER_RUN = 10
"""No worker is held for minutes, and two kills in a row, after which a job is dead, must fall into one such run."""

PDF = "application/pdf"


class Parts:
    """The parts of one export: `total` pages, of which `pages` are drawn and kept."""

    def __init__(self, run: Run, source: str) -> None:
        """Reads on where an earlier run stopped. In a file that is new, or was changed since, every row is checked
        first: a month that cannot be exported whole is not begun. Raises as `check_invoices`.
        """
        self._run, self._source = run, source
        with run.files.reading(source) as reading:
            self._tag = reading.tag
            self._work = f"work/{run.job_id}/{hashlib.sha256(self._tag.encode()).hexdigest()[:16]}"
            kept = self._kept()
            self._ends: list[int] = list(kept.get("ends", ()))
            self._place = Place(*kept["place"]) if kept else START
            self.total: int = kept["total"] if kept else self._checked(reading)

    @property
    def pages(self) -> int:
        """Drawn and kept."""
        return self._ends[-1] if self._ends else 0

    @property
    def are_one(self) -> bool:
        """A month of one part is the whole document."""
        return self.total <= PAGES_PER_PART

    def next(self) -> list[Invoice]:
        """The invoices of the part to be drawn now; none once all are. Raises TransientFailure (file-changed)."""
        if self.pages == self.total:
            return []
        with self._run.files.reading(self._source, self._place.offset, self._tag) as reading:
            rows = itertools.islice(read_invoices(reading, self._source, self._place), PAGES_PER_PART)
            places, invoices = zip(*rows, strict=True)
        self._behind = places[-1]
        return list(invoices)

    def keep(self, pdf: bytes, pages: int) -> None:
        """Store the part that was drawn, of so many pages, and then that it is there."""
        end = self.pages + pages
        self._run.files.write(self._key(self.pages, end), pdf, PDF)
        self._ends.append(end)
        self._place = self._behind
        known = {"total": self.total, "ends": self._ends, "place": [self._place.offset, self._place.row]}
        self._run.files.write(f"{self._work}/parts.json", json.dumps(known).encode(), "application/json")

    def checkpoint(self) -> Continue:
        """The rest is another run's."""
        return Continue({"source": self._work[-16:], "pages": self.pages})

    def joined(self, target: str, title: str) -> StoredFile:
        """The whole document under `target`. Raises DeterministicFailure (pages-missing) rather than store one with
        another number of pages.
        """
        with self._run.files.writing(target, PDF) as sink:
            whole = JoinedPdf(sink, title)
            for number, (start, end) in enumerate(itertools.pairwise([0, *self._ends]), start=1):
                whole.add(self._run.files.read(self._key(start, end)))
                self._run.progress(number, len(self._ends), "parts joined")
            whole.finish()
            if whole.pages != self.total:
                found = f"the parts have {whole.pages} pages, the month has {self.total}"
                raise DeterministicFailure(found, code="pages-missing")
        self._run.progress(self.total, self.total, "pages")
        return sink.stored

    def _kept(self) -> Mapping[str, Any]:
        try:
            kept: Mapping[str, Any] = json.loads(self._run.files.read(f"{self._work}/parts.json"))
        except DeterministicFailure as missing:
            if missing.code != "file-missing":
                raise
            return {}
        return kept

    def _checked(self, reading: Any) -> int:
        return check_invoices(reading, self._source, lambda read: self._run.progress(read, reading.size, "bytes read"))

    def _key(self, start: int, end: int) -> str:
        return f"{self._work}/pages-{start:06d}-{end:06d}.pdf"
