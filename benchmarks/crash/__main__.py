"""`python -m benchmarks.crash`: see README.md. `make crashbench` calls it after its set-up."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

from benchmarks.crash import table
from benchmarks.crash.contender import NotStarted
from benchmarks.crash.field import KEYS, field
from benchmarks.crash.redis_server import ABSENT, RedisServer, is_installed
from benchmarks.crash.run import Plan, Row, run


def main() -> int:
    """Exit status 0: the run was whole; 1: a system did not run, and the end of its log is shown; 130: Ctrl-C."""
    asked = _arguments()
    plan = Plan(jobs=asked.jobs, work_seconds=asked.seconds, window_seconds=asked.window)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends it, what it started is ended too
    try:
        rows, failures = measure(plan, asked.only)
    except KeyboardInterrupt:
        print("\nended, with all that was started", file=sys.stderr)
        return 130
    if rows:
        print(table.text(rows, plan))
    for failure in failures:
        print(f"\n{failure}", file=sys.stderr)
    if asked.save and len(rows) == len(KEYS):
        table.save(rows, plan)
    return 1 if failures else 0


def measure(plan: Plan, only: Collection[str]) -> tuple[list[Row], list[NotStarted]]:
    """The run in a temporary folder with its own Redis; Holdfast alone where no redis-server is installed."""
    with tempfile.TemporaryDirectory(prefix="crashbench-") as folder:
        home = Path(folder)
        redis = RedisServer(home / "redis") if is_installed() else None
        if redis is None:
            print(f"{ABSENT}; going on with Holdfast alone", file=sys.stderr)
        try:
            if redis is not None:
                redis.start()
            everyone = field(home, redis, plan.work_seconds)
            return run([one for one in everyone if not only or one.key in only], plan)
        except NotStarted as failure:
            return [], [failure]
        finally:
            if redis is not None:
                redis.end()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.crash", description="The same kill -9 on seven job systems.")
    parser.add_argument("--jobs", type=int, default=24, help="per system (24)")
    parser.add_argument("--seconds", type=float, default=5.0, help="that each job works (5)")
    parser.add_argument("--window", type=float, default=360.0, help="seconds from kill to count (360)")
    parser.add_argument("--only", nargs="+", default=[], choices=KEYS, metavar="SYSTEM", help=" ".join(KEYS))
    parser.add_argument("--save", action="store_true", help="write results.json, if every system ran")
    given = parser.parse_args()
    if given.jobs < 1 or given.seconds <= 0 or given.window <= 0:
        parser.error("--jobs at least 1, --seconds and --window above 0")
    return given


if __name__ == "__main__":
    sys.exit(main())
