"""`make startbench`: the CPU a process spends until its function is ready, ours beside the usual stack, in one run.

Ready means what Lambda does before the first event: the handler is imported, and the clients that every invocation
uses are made. Both sides run on the same Python and packages, with bytecode, alternating; counted is the CPU time of a
fresh process, the interpreter's own start included. What ours leaves to the first job that needs it is in a line below
the table.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass

from tqdm import tqdm

from local.place import PROJECT
from shared.queues import QUEUES
from shared.settings import ApiSettings, PromoterSettings, RelaySettings, Settings, TallySettings, WorkerSettings

GOAL = 0.65
WITH_FILES = ("exports.month-end", "thumbnails")
"""Lanes whose jobs read and write files: the usual worker there makes an S3 client as well."""

LATER = {
    "the first effect": "lambdas.worker.handler, shared.adapters.effects",
    "the first file": "lambdas.worker.handler as worker; worker.SESSION.create_client('s3', config=worker.CLIENT)",
}
_COMMON = {"stage": "bench", "prefix": "bench", "jobs_table": "jobs", "code_version": "1"}
_LINE = "{:<28}{:>10}{:>11}{:>8}  {}"
_CPU = "import time, {module}; print(time.process_time())"


@dataclass(frozen=True)
class Function:
    """One row: our handler's settings, and the module of the usual one (benchmarks/start/stock)."""

    name: str
    module: str
    settings: Settings
    usual: str


def functions() -> list[Function]:
    """Every function that the stacks deploy; the worker once per lane."""
    worker = [
        Function(
            f"worker {lane}",
            "lambdas.worker.handler",
            WorkerSettings(**_COMMON, queue=lane, controls_table="controls", bucket="bucket"),
            "worker_with_files" if lane in WITH_FILES else "worker",
        )
        for lane in QUEUES
    ]
    api = ApiSettings(**_COMMON, exports_table="e", controls_table="c", bucket="b", auth="none", tenant_claim="-")
    return [
        *worker,
        Function("api", "lambdas.api.handler", api, "api"),
        Function("relay", "lambdas.relay.handler", RelaySettings(**_COMMON, parked_queue="parked"), "relay"),
        Function("promoter", "lambdas.promoter.handler", PromoterSettings(**_COMMON), "promoter"),
        Function("tally", "lambdas.tally.handler", TallySettings(**_COMMON, controls_table="c"), "relay"),
    ]


def cpu_seconds(module: str, environment: dict[str, str]) -> float:
    """Of a fresh process that imports `module` and ends. Raises RuntimeError with its words if it cannot."""
    done = subprocess.run(
        [sys.executable, "-c", _CPU.format(module=module)],
        env=environment,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{module} does not import: {done.stderr.strip()[-2000:]}")
    return float(done.stdout)


def main() -> int:
    """Returns the exit status: 0 however the figures fall, 2 where a handler does not import."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="fresh processes per function and side (10)")
    parser.add_argument("--only", default="", help="functions whose name begins so")
    given = parser.parse_args()
    base = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "POWERTOOLS_", "PYTHON"))}
    base |= {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "bench"}
    base |= {"AWS_SECRET_ACCESS_KEY": "bench", "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "PYTHONPATH": str(PROJECT)}
    print(_LINE.format("CPU until ready", "ours, ms", "usual, ms", "ratio", "spread"))
    chosen = [one for one in functions() if one.name.startswith(given.only)]
    try:
        for one in tqdm(chosen, disable=not sys.stderr.isatty()):
            tqdm.write(_LINE.format(*_row(one, given.rounds, base)))
    except RuntimeError as error:
        print(f"startbench: {error}", file=sys.stderr)
        return 2
    print(f"medians of {given.rounds} rounds; goal: {GOAL}")
    worker = next(one for one in functions() if one.module == "lambdas.worker.handler")
    for what, module in LATER.items():
        print(f"{what} adds {_later(worker, module, given.rounds, base):.0f} ms to its job")
    return 0


def _later(worker: Function, module: str, rounds: int, base: dict[str, str]) -> float:
    """CPU in milliseconds that `module` costs once the worker is ready."""
    environment = base | worker.settings.to_environment()
    cpu_seconds(module, environment)
    taken = [cpu_seconds(module, environment) - cpu_seconds(worker.module, environment) for _ in range(rounds)]
    return statistics.median(taken) * 1000


def _row(function: Function, rounds: int, base: dict[str, str]) -> list[str]:
    sides = (
        (function.module, base | function.settings.to_environment()),
        (f"benchmarks.start.stock.{function.usual}", base),
    )
    for side in sides:
        cpu_seconds(*side)  # writes the bytecode
    taken = [[cpu_seconds(*side) for side in sides] for _ in range(rounds)]
    ratios = sorted(ours / usual for ours, usual in taken)
    ours, usual = (statistics.median(side) * 1000 for side in zip(*taken, strict=True))
    return [
        function.name, f"{ours:.0f}", f"{usual:.0f}", f"{statistics.median(ratios):.2f}",
        f"{ratios[0]:.2f}–{ratios[-1]:.2f}",
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
