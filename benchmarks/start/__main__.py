"""`make startbench`: the CPU a process spends until its function is ready, ours beside the usual stack, in one run.

Ready means what Lambda does before the first event: the handler is imported, and the clients that every invocation
uses are made. Ours runs from the very folder that is zipped for the local stage (small service models included), the
usual one from the same locked packages beside its one file; both byte-compiled alike, on this machine's Python with
its botocore for the runtime's own, alternating. Counted is the CPU time of a fresh process, the interpreter's own start
included. What ours leaves to the first job that needs it is in a line below the table.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from shared.queues import QUEUES
from shared.settings import ApiSettings, PromoterSettings, RelaySettings, Settings, TallySettings, WorkerSettings
from stacks.constructs.bundle import Bundle
from stacks.constructs.bytecode import BundleError, compile_tree

STOCK = Path(__file__).with_name("stock")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
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

    @property
    def folder(self) -> str:
        """Of lambdas/, which one zip is made from."""
        return self.module.split(".")[1]


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


def ours(folder: str, into: Path) -> None:
    """What the stack zips for lambdas/<folder>. Raises BundleError."""
    into.mkdir(parents=True)
    Bundle(folder, "local", PYTHON).write(into)


def usual(folder: str, into: Path) -> None:
    """The same packages, and the usual handlers instead of ours. Raises BundleError."""
    ours(folder, into)
    for part in ("lambdas", "shared", "models"):
        shutil.rmtree(into / part)
    code = into / "benchmarks" / "start" / "stock"
    shutil.copytree(STOCK, code, ignore=shutil.ignore_patterns("__pycache__"))
    compile_tree(into / "benchmarks", PYTHON)


def cpu_seconds(module: str, environment: dict[str, str], code: Path) -> float:
    """Of a fresh process in the folder `code` that imports `module` and ends. Raises RuntimeError with its words if it
    cannot.
    """
    done = subprocess.run(
        [sys.executable, "-c", _CPU.format(module=module)],
        env=environment,
        cwd=code,
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
    base |= {"AWS_SECRET_ACCESS_KEY": "bench", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    print(_LINE.format("CPU until ready", "ours, ms", "usual, ms", "ratio", "spread"))
    chosen = [one for one in functions() if one.name.startswith(given.only)]
    worker = next(one for one in functions() if one.folder == "worker")
    with tempfile.TemporaryDirectory(prefix="startbench-") as there:
        place = Path(there)
        try:
            for folder in {one.folder: None for one in (worker, *chosen)}:
                ours(folder, place / folder / "ours")
                usual(folder, place / folder / "usual")
            for one in tqdm(chosen, disable=not sys.stderr.isatty()):
                tqdm.write(_LINE.format(*_row(one, given.rounds, base, place / one.folder)))
            print(f"medians of {given.rounds} rounds; goal: {GOAL}")
            for what, module in LATER.items():
                added = _later(worker, module, given.rounds, base, place / "worker" / "ours")
                print(f"{what} adds {added:.0f} ms to its job")
        except (RuntimeError, BundleError) as error:
            print(f"startbench: {error}", file=sys.stderr)
            return 2
    return 0


def _later(worker: Function, module: str, rounds: int, base: dict[str, str], code: Path) -> float:
    """CPU in milliseconds that `module` costs once the worker is ready."""
    environment = base | worker.settings.to_environment()
    cpu_seconds(module, environment, code)  # reads the files once, as the rounds before it have read the worker's
    taken = [
        cpu_seconds(module, environment, code) - cpu_seconds(worker.module, environment, code) for _ in range(rounds)
    ]
    return statistics.median(taken) * 1000


def _row(function: Function, rounds: int, base: dict[str, str], place: Path) -> list[str]:
    sides = (
        (function.module, base | function.settings.to_environment(), place / "ours"),
        (f"benchmarks.start.stock.{function.usual}", base, place / "usual"),
    )
    for side in sides:
        cpu_seconds(*side)  # reads the files once
    taken = [[cpu_seconds(*side) for side in sides] for _ in range(rounds)]
    ratios = sorted(first / second for first, second in taken)
    medians = [statistics.median(side) * 1000 for side in zip(*taken, strict=True)]
    return [
        function.name, f"{medians[0]:.0f}", f"{medians[1]:.0f}", f"{statistics.median(ratios):.2f}",
        f"{ratios[0]:.2f}–{ratios[-1]:.2f}",
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
