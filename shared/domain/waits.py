"""Where a wait is spent: on the message, hidden, or in the `due` index with the message gone (DESIGN §8)."""

from __future__ import annotations

from datetime import timedelta

LONGEST_ON_MESSAGE = timedelta(seconds=60)
"""Longer, and the queue's age metric would no longer mean that someone is waiting, nor its in-flight slots work."""

RECEIVE_LIMIT = 20
"""Past this a wait makes a fresh message: defers and waits cost receives, and SQS moves a message away at 100."""

FIFO_RECEIVE_LIMIT = 80
"""A FIFO message keeps its place, so it cannot be made afresh; past this the job stops for a human."""


def leaves_its_message(wait: timedelta, receives: int, fifo: bool, suspect: bool = False) -> bool:
    """Whether the job waits in `due`, its message acknowledged. A suspect's message says so as long as it lives, and a
    job whose run ended with a word is none any more.
    """
    anew = receives > RECEIVE_LIMIT or suspect
    return not fifo and (wait > LONGEST_ON_MESSAGE or (anew and wait > timedelta()))
