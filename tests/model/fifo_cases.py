"""What is promised about the order per key, and where it ends.

Promised (README): never two of a key at once; and A before B, in the order of the relay, as long as nothing sends A
round again (a continued run, a replay, a repair, a message that SQS moved away). Each of those limits has a case here
that must find its counterexample, or it is none.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.model.fifo import FifoModel
from tests.model.fifo_world import Budget

CASES: Mapping[str, FifoModel] = {
    "relay in order": FifoModel(),
    "A fails twice": FifoModel(Budget(fail=2)),
    "a worker dies twice": FifoModel(Budget(crash=2)),
    "a worker freezes, a message comes twice": FifoModel(Budget(frozen=1, twice=1, crash=1)),
    "the relay repeats itself": FifoModel(Budget(again=2, fail=1)),
    "not in order, but one at a time: everything at once": FifoModel(
        Budget(crash=1, loss=1, fail=1, resume=1, frozen=1, twice=1, again=1), in_order=False, promised=False
    ),
    "not in order, but every ring that is needed arrives": FifoModel(
        Budget(loss=1, purge=1, again=1, fail=1), in_order=False, promised=False
    ),
}
"""What is promised: no counterexample."""

LIMITS: Mapping[str, FifoModel] = {
    "the relay sees B first": FifoModel(in_order=False),
    "a stream record is lost": FifoModel(Budget(loss=1)),
    "A continues in another run": FifoModel(Budget(resume=1)),
    "SQS moves A away": FifoModel(Budget(moved=1)),
    "SQS moves A away under a worker that has not begun": FifoModel(Budget(moved=1, twice=1), promised=False),
}
"""Where the order, and in the last case even the one-at-a-time, is not kept: each has its counterexample."""

WITHOUT: Mapping[str, FifoModel] = {
    "wait_in_place": FifoModel(Budget(fail=1), off=("wait_in_place",)),
    "release_the_rest": FifoModel(Budget(fail=1), off=("release_the_rest",)),
    "live_leave": FifoModel(Budget(frozen=1, twice=1, crash=1), off=("live_leave",)),
    "ring_apart": FifoModel(Budget(purge=1, fail=1), off=("ring_apart",), promised=False),
}
"""Each rule switched off, where it is missed."""
