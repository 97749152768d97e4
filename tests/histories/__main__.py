"""python -m tests.histories 20000: explore; --seed 7: tell one history step by step; on failure, the shortest found."""

from __future__ import annotations

import argparse
import sys

from tests.histories.history import Told, random_history
from tests.histories.plan import draw
from tests.histories.shrink import shrink
from tests.histories.soak import soak


def main() -> int:
    """Exit status 1 where a promise broke, or a row of the table was never exercised by 20,000 histories or more."""
    asked = _arguments()
    if asked.seed is not None:
        told = random_history(draw(asked.seed), story=True)
        print(_text(told))
        return int(told.broken is not None and _shorter(told))
    tally = soak(asked.first, asked.histories, keep_going=asked.keep_going)
    print(tally.table())
    for promise, seeds in tally.broken.items():
        print(f"\nbroken promise {promise!r}: {len(seeds)} histories, seeds {sorted(seeds)[:20]}")
        _shorter(random_history(draw(min(seeds))))
    return int(bool(tally.broken) or (tally.histories >= ENOUGH and bool(tally.never)))


ENOUGH = 20_000


def _shorter(told: Told) -> bool:
    print(f"\nseed {told.plan.seed}, shortened:", flush=True)
    print(_text(shrink(told)))
    return True


def _text(told: Told) -> str:
    plan = told.plan
    lines = [f"seed {plan.seed}: clocks ± {plan.skew_ms} ms, SQS moves a message after {plan.most_receives} receives"]
    lines += [f"  {job}" for job in plan.jobs]
    lines += [f"  {worker}" for worker in plan.workers]
    lines += [*(told.story or ()), f"{len(told.script)} steps"]
    lines += ["every promise held" if told.broken is None else f"BROKEN {told.broken.promise}: {told.broken.detail}"]
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("histories", nargs="?", type=int, default=20_000)
    parser.add_argument("--seed", type=int, help="replay this one history and print it")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first broken promise")
    given = parser.parse_args()
    if given.histories < 1:
        parser.error("HISTORIES: at least 1")
    return given


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nbroken off; a broken promise would be printed above", file=sys.stderr)
        sys.exit(130)
