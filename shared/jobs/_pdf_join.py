"""PDF files one behind the other as one file, in the memory of the largest.

Each part is copied object by object with its numbers raised, and one number per object is kept for the table at the
end. The libraries that join PDFs build the whole document's objects in memory: pikepdf (qpdf) held 727 MB at 60,000 of
100,000 pages, in parts of 1,000, and had needed 264 s.
"""

from __future__ import annotations

import hashlib
import re
from array import array

from shared.domain.run import Writing
from shared.errors import DeterministicFailure

_CATALOG, _PAGES, _INFO = 1, 2, 3
_REFERENCE = re.compile(rb"\b([0-9]+) 0 (R|obj)\b")
_ENTRIES_AT_ONCE = 10_000
_ENTRY = 20
"""Bytes of a line of the cross-reference table (ISO 32000-1, 7.5.4)."""


class JoinedPdf:
    """Writes to `sink` what is added, in order. For parts as reportlab makes them: a plain cross-reference table, no
    object streams, one flat page tree, and no text in objects but the title's.
    """

    def __init__(self, sink: Writing, title: str) -> None:
        self._sink, self._title, self._written = sink, title.encode("ascii"), 0
        self._offsets = array("Q", [0] * (_INFO + 1))  # by object number; 0: not in use
        self._digest = hashlib.sha256()
        self._parts: list[int] = []
        self.pages = 0
        self._write(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")

    def add(self, part: bytes) -> None:
        """Append all pages of a part. Raises DeterministicFailure (pdf-unreadable) for a file that is none."""
        try:
            self._add(part)
        except (ValueError, IndexError, TypeError) as error:
            raise DeterministicFailure("a part is not a PDF as this job writes them", code="pdf-unreadable") from error

    def finish(self) -> None:
        """Write what makes the parts one document."""
        kids = b" ".join(b"%d 0 R" % part for part in self._parts)
        self._object(_CATALOG, b"<< /Type /Catalog /Pages %d 0 R >>" % _PAGES)
        self._object(_PAGES, b"<< /Type /Pages /Count %d /Kids [ %s ] >>" % (self.pages, kids))
        self._object(_INFO, b"<< /Title (%s) >>" % self._title)
        table, id = self._written, self._digest.hexdigest()[:32].encode()
        self._write(b"xref\n0 %d\n0000000000 65535 f \n" % len(self._offsets))
        for first in range(1, len(self._offsets), _ENTRIES_AT_ONCE):
            some = self._offsets[first : first + _ENTRIES_AT_ONCE]
            self._write(b"".join(b"%010d %s \n" % (at, b"00000 n" if at else b"65535 f") for at in some))
        self._write(b"trailer\n<< /Size %d /Root %d 0 R /Info %d 0 R" % (len(self._offsets), _CATALOG, _INFO))
        self._write(b" /ID [<%s><%s>] >>\nstartxref\n%d\n%%%%EOF\n" % (id, id, table))

    def _add(self, part: bytes) -> None:
        table = int(part[part.rindex(b"startxref") :].split()[1])
        trailer = part[part.rindex(b"trailer") :]
        root, info = (int(_found(rb"/%s ([0-9]+) 0 R" % name, trailer)) for name in (b"Root", b"Info"))
        starts = _starts(part, table)
        ends = dict(zip(sorted(starts.values()), [*sorted(starts.values())[1:], table], strict=True))
        by = len(self._offsets) - 1
        self._offsets.extend([0] * len(starts))
        catalog = part[starts[root] : ends[starts[root]]]
        tree = int(_found(rb"/Pages ([0-9]+) 0 R", catalog))
        for number, start in starts.items():
            if number in (root, info):
                continue  # the whole document has its own
            body = part[start : ends[start]]
            if number == tree:
                self.pages += int(_found(rb"/Count ([0-9]+)", body))
                self._parts.append(number + by)
            raised = _raised(body, by)
            if number == tree:
                raised = raised.replace(b"<<", b"<< /Parent %d 0 R" % _PAGES, 1)
            self._offsets[number + by] = self._written
            self._write(raised)

    def _object(self, number: int, body: bytes) -> None:
        self._offsets[number] = self._written
        self._write(b"%d 0 obj\n%s\nendobj\n" % (number, body))

    def _write(self, data: bytes) -> None:
        self._sink.write(data)
        self._digest.update(data)
        self._written += len(data)


def _starts(part: bytes, table: int) -> dict[int, int]:
    """Where each object begins, by its number."""
    header = part.index(b"\n", table + len(b"xref\n")) + 1
    first, count = map(int, part[table + len(b"xref\n") : header].split())
    lines = (part[header + _ENTRY * n :][:_ENTRY] for n in range(count))
    return {first + n: int(line[:10]) for n, line in enumerate(lines) if line[17:18] == b"n"}


def _raised(body: bytes, by: int) -> bytes:
    """An object with `by` added to its number and to those it names; a stream's bytes are left alone."""
    named, stream, rest = body.partition(b"stream\n")
    raised = _REFERENCE.sub(lambda found: b"%d 0 %s" % (int(found[1]) + by, found[2]), named)
    return raised + stream + rest


def _found(pattern: bytes, text: bytes) -> bytes:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(pattern)
    return found[1]
