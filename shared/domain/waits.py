"""Where a wait is spent (on its message, hidden, or in the `due` index with the message gone), and how long a message
is hidden: all the arithmetic that keeps SQS from moving away what policy still allows to run (DESIGN §8).

SQS counts every receive, whoever spends it, and moves a message away past its lane's limit. What spends them, and what
bounds that:

    own waits     on a standard lane a wait past the 20th receive makes a fresh message; on a FIFO lane, where a message
                  keeps its place, each time a job says "not now" costs it a second more (`shortest_defer`)
    a long wait   comes back every quarter of an hour, to meet a cancel, a replay or a reschedule (`hidden`)
    table away    half a minute more each time, up to a quarter of an hour: three days cost 303 receives (`unready`)
    no room       a second more each time past the 20th receive, up to a minute (`elsewhere`)
    behind a head a FIFO message is received with the head of its key, and released with it: as often as that one
    whatever else past `plenty` receives each hide lasts an hour, and SQS forgets the message before it would move it
"""

from __future__ import annotations

import math
from datetime import timedelta

LONGEST_ON_MESSAGE = timedelta(seconds=60)
"""Longer, and the queue's age metric would no longer mean that someone is waiting, nor its in-flight slots work."""

RECEIVE_LIMIT = 20
"""Past this a wait makes a fresh message, which begins to count anew."""

LONGEST_HIDE = timedelta(minutes=15)
"""What happens to a job while its message is hidden is met within this; on a FIFO lane its key waits as long."""

LAST_HIDE = timedelta(hours=1)
"""For a message with few receives left."""

OUTAGE = timedelta(days=3)
"""Every message outlives an absence of the table this long."""

A_SECOND, UNREADY_STEP = timedelta(seconds=1), timedelta(seconds=30)
LONGEST_ELSEWHERE = timedelta(minutes=1)


def leaves_its_message(wait: timedelta, receives: int, fifo: bool, suspect: bool = False) -> bool:
    """Whether the job waits in `due`, its message acknowledged: a wait of no time too, or a handler that asks for one
    again and again would use its message up. A suspect's message says so as long as it lives, and a job whose run ended
    with a word is none any more.
    """
    return not fifo and (wait > LONGEST_ON_MESSAGE or receives > RECEIVE_LIMIT or suspect)


def shortest_defer(receives: int, runs: int) -> timedelta:
    """The least that "not now" waits: nothing the first time, then a second more each time. Only retries are bounded by
    attempts; this one would go on at full speed until the job's deadline.

    runs  how often the job was leased, ever. Receives that leased nothing are not its own: they were another's wait, or
          the table's absence.
    """
    return (min(receives, runs) - 1) * A_SECOND


def unready(receives: int) -> timedelta:
    """How long to hide a message whose record nobody can read now. By the receives, since no other memory outlives an
    absence of the table; by steps, since one that began on a message with some receives may end in the next second.
    """
    return min(receives * UNREADY_STEP, LONGEST_HIDE)


def elsewhere(receives: int) -> timedelta:
    """How long to hide a message that found no room or no time here: not at all, unless that goes on."""
    return min(max(receives - RECEIVE_LIMIT, 0) * A_SECOND, LONGEST_ELSEWHERE)


def hidden(wait: timedelta, receives: int, most: int, kept: timedelta) -> timedelta:
    """How long to hide a message for a wait: all of it, or a part after which the rest is looked at again.

    most, kept  the receives after which SQS moves a message of this lane away, and how long it keeps one
    """
    return LAST_HIDE if receives >= plenty(most, kept) else min(max(wait, timedelta()), LONGEST_HIDE)


def plenty(most: int, kept: timedelta) -> int:
    """Receives at which those that are left, an hour apart, outlast the message's retention."""
    return most - math.ceil(kept / LAST_HIDE)
