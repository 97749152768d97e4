"""Holdfast: the real stacks in a local cloud of the benchmark's own, with one job type more."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import tomllib
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path

from benchmarks.crash.contender import PROJECT, About, NotStarted
from benchmarks.crash.job_type import crash_bench
from local.place import LocalCloudError, Place
from local.ports import free_above
from local.up import bring_up, take_down
from shared.domain.lease import REDELIVERY_MARGIN
from shared.jobs import JobType
from tests.e2e.cloud import Cloud
from tests.e2e.functions import processes_of

JOB_TYPE: JobType = crash_bench.crash_bench.job_type  # type: ignore[attr-defined]
LANE = JOB_TYPE.queue
BUILT = (".build", "node_modules")
NOT_COPIED = shutil.ignore_patterns(".*", "node_modules", "cdk.out", "__pycache__", "tests", "benchmarks")


class Holdfast:
    """Jobs go in over HTTP; the emulator starts a function process anew where one has died, as Lambda does."""

    key = "holdfast"

    def __init__(self, home: Path, work_seconds: float) -> None:
        self.about = About(
            name="Holdfast",
            version=tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"],
            at_once=f"{LANE.parallelism * LANE.max_concurrency} (lane {LANE.name}: {LANE.parallelism} threads in each "
            f"of {LANE.max_concurrency} functions)",
            settings="none (on the local cloud's emulated AWS; the effect through run.once)",
            afterwards=(
                f"A job comes back when its lease ({JOB_TYPE.lease.seconds} s) has lapsed and its message is visible "
                f"again ({REDELIVERY_MARGIN.seconds} s more). It then runs alone in its process, since it may be what "
                "ended the last one."
            ),
        )
        self.journal, self._home, self._seconds = home / "journal", home, work_seconds
        self._place = Place(
            project=home / "project", home=home / "local", port=free_above(random.randrange(20_000, 30_000, 100))
        )
        self._cloud: Cloud | None = None
        self._ids: dict[str, str] = {}

    def start(self, jobs: Sequence[str]) -> None:
        self._home.mkdir()
        self._copy_project()
        self._place.home.mkdir()
        try:
            self._cloud = Cloud(self._place, bring_up(self._place, lambda _: None))
        except LocalCloudError as error:
            raise NotStarted(self.about.name, str(error)) from error
        self._ids = {job: self._submit(self._cloud, job) for job in jobs}

    def kill(self) -> set[int]:
        killed = set()
        for pid in self._workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        return killed

    def check(self) -> None:
        if self._cloud is None or not self._cloud.up.whole:
            raise NotStarted(self.about.name, "a process of its local cloud has ended")

    def keeps(self, jobs: Sequence[str]) -> set[str]:
        cloud = self._cloud
        if cloud is None:
            return set()
        return {job for job in jobs if cloud.ask("GET", f"/jobs/{self._ids[job]}").status == HTTPStatus.OK}

    def end(self) -> None:
        take_down(self._place)

    def _copy_project(self) -> None:
        shutil.copytree(PROJECT, self._place.project, ignore=NOT_COPIED)
        for name in BUILT:
            (self._place.project / name).symlink_to(PROJECT / name)
        shutil.copy(str(crash_bench.__file__), self._place.project / "shared" / "jobs")

    def _submit(self, cloud: Cloud, job: str) -> str:
        payload = {"name": job, "journal": str(self.journal), "seconds": self._seconds}
        try:
            answer = cloud.ask("POST", "/jobs", {"type": JOB_TYPE.name, "payload": payload})
        except (OSError, HTTPException) as error:
            raise NotStarted(self.about.name, f"POST /jobs: {error}") from error
        if answer.status != HTTPStatus.ACCEPTED:
            raise NotStarted(self.about.name, f"POST /jobs answered {answer.status} {answer.body!r}")
        return str(answer.json["jobId"])

    def _workers(self) -> list[int]:
        if self._cloud is None:
            return []
        worker = f"{self._cloud.up.outputs['Prefix']}-worker-{LANE.slug}"
        return processes_of(worker, self._cloud.up.processes[0].pid)
