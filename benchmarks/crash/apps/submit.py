"""Hands jobs to one system: `python -m benchmarks.crash.apps.submit <app> <job>…`, in that system's environment."""

from __future__ import annotations

import importlib
import sys


def main(app: str, jobs: list[str]) -> None:
    """Every app has `submit(jobs)`, which queues them in this order."""
    importlib.import_module(f"benchmarks.crash.apps.{app}").submit(jobs)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
