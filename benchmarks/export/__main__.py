"""`make exportbench`: a month of 90,000 invoices exported on the real local cloud, first left alone, then with its
worker killed (kill -9) again and again. Shows time, the worker's peak memory and what a kill costs; ends with 1 when a
page is missing, when the two documents differ, or when the peak is above the limit.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from pypdf import PdfReader
from tqdm import tqdm

from local import samples
from local.place import PROJECT, LocalCloudError, Place
from local.ports import free_above
from local.up import bring_up, take_down
from shared.domain.job import Job
from shared.domain.states import FINAL, State
from shared.jobs._invoice_parts import PAGES_PER_PART, PARTS_PER_RUN
from shared.queues import QUEUES
from tests.e2e.cloud import Cloud, fetch
from tests.e2e.functions import processes_of

MONTH = "2026-05"
LANE = QUEUES["exports.month-end"]
PEAK_MB = 512
"""What the worker's process may have held at most."""

PATIENCE_SECONDS = 3600.0
LOOK_SECONDS = 0.5


@dataclass
class Exported:
    """One export, as seen from outside."""

    name: str
    seconds: float = 0.0
    peak_mb: int = 0
    kills: list[int] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    runs: int = 0
    attempts: int = 0
    document: bytes = b""


def main() -> int:
    """Returns the exit status."""
    given = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended then too
    folder = Path(tempfile.mkdtemp(prefix="holdfast-export-"))
    place = Place(project=PROJECT, home=folder / "local", port=free_above(random.randrange(20_000, 30_000, 100)))
    place.home.mkdir()
    try:
        try:
            cloud = Cloud(place, bring_up(place, print))
            cloud.put_month(MONTH, samples.write_month(rows=given.pages, month=MONTH))
            dice = random.Random(given.seed)
            alone = _export(cloud, Exported("left alone"), given.pages, [])
            killed = _export(cloud, Exported("killed"), given.pages, _kill_pages(given.pages, given.kills, dice))
        finally:
            take_down(place)
    except (LocalCloudError, RuntimeError) as error:
        print(f"exportbench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("exportbench: broken off; what it started has been ended", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _judge(given, alone, killed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.export", description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=90_000, help="invoices of the month (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=3, help="kill -9 of the worker (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="default: a new one")
    given = parser.parse_args()
    if given.pages < 1:
        parser.error("--pages: at least 1")
    if not 0 <= given.kills <= given.pages // (PAGES_PER_PART * PARTS_PER_RUN * 2):
        parser.error(f"--kills {given.kills}: two in a row would end the job; give each 20,000 pages one at most")
    return given


def _kill_pages(pages: int, kills: int, dice: random.Random) -> list[int]:
    """Each somewhere in the first half of its share, so that a run ends by itself between two."""
    share = pages // kills if kills else 0
    return [n * share + dice.randrange(1, share // 2) for n in range(kills)]


def _export(cloud: Cloud, seen: Exported, pages: int, kill_at: Sequence[int]) -> Exported:
    began, due, killed_at = time.monotonic(), list(kill_at), 0.0
    job_id, run_killed, page = cloud.export(MONTH), -1, 0
    with tqdm(total=pages, desc=seen.name, unit=" pages", mininterval=1.0, disable=not sys.stderr.isatty()) as bar:
        while True:
            shown = cloud.ask("GET", f"/jobs/{job_id}").json
            drawn = _pages_drawn(shown, cloud.record(job_id))
            bar.update(drawn - page)
            page = drawn
            seen.peak_mb = max([seen.peak_mb, *map(_peak_mb, _workers(cloud))])
            if killed_at and cloud.record(job_id).run > run_killed:
                seen.waits.append(time.monotonic() - killed_at)
                killed_at = 0.0
            if due and not killed_at and shown["status"] == State.RUNNING and page >= due[0]:
                run_killed = cloud.record(job_id).run
                for pid in _workers(cloud):
                    os.kill(pid, signal.SIGKILL)
                killed_at = time.monotonic()
                seen.kills.append(page)
                due.pop(0)
            if shown["status"] in FINAL:
                break
            if time.monotonic() > began + PATIENCE_SECONDS:
                raise RuntimeError(f"not ended after {PATIENCE_SECONDS:.0f} s: {shown}")
            time.sleep(LOOK_SECONDS)
    seen.seconds = time.monotonic() - began
    if shown["status"] != State.COMPLETED:
        raise RuntimeError(f"the export ended as {shown}")
    seen.runs, seen.attempts = cloud.record(job_id).run, shown["attempts"]
    seen.document = fetch(cloud.ask("GET", f"/jobs/{job_id}/result").headers["Location"]).body
    return seen


def _pages_drawn(shown: dict[str, Any], record: Job) -> int:
    """What the run reports, or, before its first report, where the last one left off: a machine that draws a run's
    pages within a third of the lease reports none of them.
    """
    progress = shown.get("progress") or {}
    reported = progress["done"] if progress.get("unit") == "pages" else 0
    return max(reported, int((record.checkpoint or {}).get("pages", 0)))


def _workers(cloud: Cloud) -> list[int]:
    prefix, emulator = cloud.up.outputs["Prefix"], cloud.up.processes[0].pid
    return processes_of(f"{prefix}-worker-{LANE.slug}", emulator)


def _peak_mb(pid: int) -> int:
    """The most memory that the process has held so far (VmHWM); 0 when it is gone."""
    try:
        found = re.search(r"VmHWM:\s+([0-9]+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) // 1024 if found else 0


def _judge(given: argparse.Namespace, *exports: Exported) -> int:
    print(f"\n{given.pages} pages, lane {LANE.name}, seed {given.seed}")
    print(f"{'':<12}{'seconds':>9}{'peak MB':>9}{'runs':>6}{'attempts':>10}{'MB':>7}  kill -9 at page → running again")
    for one in exports:
        again = ", ".join(f"{page} → {wait:.1f} s" for page, wait in zip(one.kills, one.waits, strict=False))
        size = len(one.document) / 1024 / 1024
        print(
            f"{one.name:<12}{one.seconds:>9.1f}{one.peak_mb:>9}{one.runs:>6}{one.attempts:>10}{size:>7.1f}"
            f"  {again or 'none'}"
        )
    wrong = [f"{one.name}: {_pages(one.document)} pages" for one in exports if _pages(one.document) != given.pages] + [
        f"{one.name}: a peak of {one.peak_mb} MB, over {PEAK_MB}" for one in exports if one.peak_mb > PEAK_MB
    ]
    if len(exports[-1].kills) != given.kills:
        wrong.append(f"{len(exports[-1].kills)} kills of {given.kills} fell into a run")
    digests = {hashlib.sha256(one.document).hexdigest()[:16] for one in exports}
    if len(digests) != 1:
        wrong.append(f"the documents differ: {', '.join(digests)}")
    print("\n".join(wrong) or f"every page is there, and the documents are the same bytes (SHA-256 {digests.pop()}…)")
    return 1 if wrong else 0


def _pages(document: bytes) -> int:
    return len(PdfReader(BytesIO(document)).pages)


if __name__ == "__main__":
    sys.exit(main())
