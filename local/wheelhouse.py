"""The wheels of every function, fetched once at set-up: `python -m local.wheelhouse`. The only step that needs a
package index; synthesis and deployment work from `.build/wheelhouse` alone.

One house for AWS (arm64, the Lambda runtime's Python), one for the local cloud (this machine, this Python). Each holds
a stamp that says for which requirements, Python and platform it was filled; stacks/constructs/bundle.py refuses a
house whose stamp is not the one it needs, so nobody deploys yesterday's dependencies.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAMBDA_PYTHON = "3.14"


class WheelhouseError(Exception):
    """pip could not fetch the locked wheels; the message carries pip's own words."""


@dataclass(frozen=True, slots=True)
class House:
    """Wheels for one place. `pip` selects its platform, for pip's download and for its later installs alike; without
    it they are for `machine`.
    """

    name: str
    python: str
    pip: Sequence[str] = ()
    machine: str = ""

    def stamp(self, requirements: Mapping[str, str]) -> str:
        """What the house was filled for, as stable JSON; requirements: SHA-256 of the lock by function."""
        return json.dumps({**asdict(self), "requirements": requirements}, indent=1, sort_keys=True)


# Both manylinux tags together: pip takes a tag literally, so the newer one alone finds no wheel tagged the older way
# and settles for an old release, without a word.
AWS = House(
    "aws",
    LAMBDA_PYTHON,
    (
        *("--platform", "manylinux_2_28_aarch64", "--platform", "manylinux2014_aarch64"),
        *("--python-version", LAMBDA_PYTHON, "--implementation", "cp"),
    ),
)
LOCAL = House("local", f"{sys.version_info.major}.{sys.version_info.minor}", machine=sysconfig.get_platform())


def fill(house: House, root: Path = ROOT) -> bool:
    """Make `.build/wheelhouse/<name>` hold the wheels that every lambdas/*/requirements.txt locks, by hash.

    Returns False when it already did, which takes milliseconds. Raises WheelhouseError; what was there before stays.
    """
    locks = sorted(root.glob("lambdas/*/requirements.txt"))
    stamp = house.stamp({lock.parent.name: hashlib.sha256(lock.read_bytes()).hexdigest() for lock in locks})
    place = root / ".build" / "wheelhouse" / house.name
    if (place / "stamp.json").is_file() and (place / "stamp.json").read_text() == stamp:
        return False
    fresh = place.with_name(f"{house.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    _download(house, locks, fresh)
    (fresh / "stamp.json").write_text(stamp)
    shutil.rmtree(place, ignore_errors=True)
    fresh.rename(place)
    return True


def _download(house: House, locks: Sequence[Path], into: Path) -> None:
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input")
    # The locks are complete, so nothing is resolved; and a source distribution would run its setup.py on this machine.
    exact = ("--require-hashes", "--no-deps", "--only-binary=:all:", "--dest", str(into))
    wanted = [argument for lock in locks for argument in ("--requirement", str(lock))]
    done = subprocess.run([*pip, *exact, *house.pip, *wanted], capture_output=True, text=True, check=False)
    if done.returncode:
        raise WheelhouseError(
            f"wheelhouse {house.name}: pip could not fetch what lambdas/*/requirements.txt lock; "
            f"check the connection to the package index and run `make setup` again\n{done.stderr.strip()}"
        )


def main() -> int:
    """Fill both houses, one line for each."""
    for house in (AWS, LOCAL):
        try:
            changed = fill(house)
        except WheelhouseError as error:
            print(error, file=sys.stderr)
            return 1
        print(f"wheelhouse {house.name} (Python {house.python}): {'filled' if changed else 'up to date'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
