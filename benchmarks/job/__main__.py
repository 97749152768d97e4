"""`make jobbench`: the CPU that a worker spends on one job without an effect, ours beside the usual stack, in one run.

Both sides are real Lambda handlers on real botocore clients over loopback HTTP; DynamoDB and SQS are a stub that grants
every call in a process of its own (stub.py). The usual worker: stock.py. Same Python and packages, alternating, a fresh
process a round.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

from tqdm import tqdm

from local.place import PROJECT
from shared.settings import WorkerSettings

GOALS = {1: 0.75, 5: 0.75, 10: 0.5}
LANE = "emails.high"
_LINE = "{:<18}{:>10}{:>11}{:>8}  {:<14}{}"


def cpu_of_a_job(side: str, size: int, batches: int, environment: dict[str, str]) -> float:
    """In seconds. Raises RuntimeError with its words if the side fails."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.job.side", side, str(size), str(batches)],
        env=environment, cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{side} failed: {done.stderr.strip()[-2000:]}")
    return float(done.stdout.rpartition("\n\n")[2])


def main() -> int:
    """Returns the exit status: 0 however the figures fall, 2 where a side fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.job", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="fresh processes per batch size and side (7)")
    parser.add_argument("--jobs", type=int, default=400, help="jobs per process (400)")
    given = parser.parse_args()
    stub = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.job.stub"],
        cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert stub.stdout is not None
        environment = _environment(int(stub.stdout.readline()))
        print(_LINE.format("CPU per job", "ours, ms", "usual, ms", "ratio", "spread", "goal"))
        for size, goal in tqdm(GOALS.items(), disable=not sys.stderr.isatty()):
            rounds = [
                [cpu_of_a_job(side, size, given.jobs // size, environment) for side in ("ours", "stock")]
                for _ in range(given.rounds)
            ]
            tqdm.write(_LINE.format(*_row(size, goal, rounds)))
    except RuntimeError as error:
        print(f"jobbench: {error}", file=sys.stderr)
        return 2
    finally:
        stub.terminate()
        stub.wait(10)
    print(f"medians of {given.rounds} rounds of {given.jobs} jobs")
    return 0


def _environment(port: int) -> dict[str, str]:
    base = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "POWERTOOLS_", "PYTHON"))}
    base |= {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "bench"}
    base |= {"AWS_SECRET_ACCESS_KEY": "bench", "PYTHONPATH": str(PROJECT)}
    said = {"stage": "bench", "prefix": "bench", "jobs_table": "jobs", "code_version": "1", "bucket": "bucket"}
    settings = WorkerSettings(**said, queue=LANE, controls_table="controls")
    return base | settings.to_environment() | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}


def _row(size: int, goal: float, rounds: list[list[float]]) -> list[str]:
    ratios = sorted(ours / usual for ours, usual in rounds)
    ours, usual = (statistics.median(side) * 1000 for side in zip(*rounds, strict=True))
    spread = f"{ratios[0]:.2f}–{ratios[-1]:.2f}"
    return [
        f"a batch of {size}", f"{ours:.2f}", f"{usual:.2f}", f"{statistics.median(ratios):.2f}", spread, f"≤ {goal}",
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
