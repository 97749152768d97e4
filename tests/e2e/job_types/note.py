"""A job type as a user adds one: this file, dropped into shared/jobs, is all there is to it."""

from __future__ import annotations

from shared.domain.run import Run
from shared.jobs import Payload, job_type


class Note(Payload):
    """A line to take note of."""

    text: str


@job_type("note", queue="emails.high")
def note(payload: Note, run: Run) -> None:
    """Takes note, and has nothing to show for it."""
    run.progress(len(payload.text), len(payload.text), "characters")
