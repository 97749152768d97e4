"""Puts together the code of one function: its locked dependencies from the wheelhouse, lambdas/<function>, shared/,
the bytecode of all of it, and small service models for botocore. No network, no Docker.

What is slow (installing, compiling) is kept under .build/, under a digest of all it was made from.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stacks.constructs.bytecode import BundleError, compile_tree
from stacks.constructs.models import MADE_FROM, write_models

ROOT = Path(__file__).resolve().parents[2]
_RECIPE = tuple(Path(__file__).with_name(name) for name in ("bundle.py", "bytecode.py", "compile.mjs", "models.py"))
_LEFT_OUT = ("__pycache__", "requirements.in", "requirements.txt", "tests")
_KEPT_SECONDS = 2 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Bundle:
    """The code of lambdas/<function>, with the wheels of one house ("aws" or "local"), for one Python ("3.14")."""

    function: str
    house: str
    python: str
    root: Path = ROOT

    def digest(self) -> str:
        """Changes when something that goes into the zip does and only then, so an unchanged function stays as it is."""
        return self._digest(self._lock, *self._sources())

    def prepare(self) -> None:
        """Install and compile all that `write` copies, where that is not done yet. Raises BundleError."""
        self._dependencies()
        self._compiled()
        self._models()

    def write(self, into: Path) -> None:
        """Put the code into an existing, empty folder. Raises BundleError."""
        compiled = self._compiled()
        shutil.copytree(self._dependencies(), into, dirs_exist_ok=True)
        shutil.copytree(compiled / "shared", into / "shared")
        for part in (self.function, "__pycache__"):
            shutil.copytree(compiled / "lambdas" / part, into / "lambdas" / part)
        shutil.copy(compiled / "lambdas" / "__init__.py", into / "lambdas")
        shutil.copytree(self._models(), into / "models")

    def _dependencies(self) -> Path:
        return self._kept(f"dependencies-{self.house}-{self.function}", (self._lock,), self._install)

    def _compiled(self) -> Path:
        # In one go for all functions: starting Python in WebAssembly takes longer than compiling these few files.
        everything = [*_files(self.root / "lambdas"), *_files(self.root / "shared")]
        return self._kept(f"sources-{self.house}", everything, self._copy_and_compile)

    def _models(self) -> Path:
        return self._kept("models", (), write_models)

    @property
    def _lock(self) -> Path:
        return self.root / "lambdas" / self.function / "requirements.txt"

    def _sources(self) -> list[Path]:
        package = self.root / "lambdas" / "__init__.py"
        return [package, *_files(self.root / "lambdas" / self.function), *_files(self.root / "shared")]

    def _digest(self, *files: Path) -> str:
        digest = hashlib.sha256(f"{self.house} {self.python} {MADE_FROM}".encode())
        for file in (*_RECIPE, *files):
            name = file.relative_to(self.root) if file.is_relative_to(self.root) else file.name
            digest.update(f"\0{name}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
        return digest.hexdigest()

    def _kept(self, name: str, made_from: Iterable[Path], make: Callable[[Path], None]) -> Path:
        """The folder .build/bundle/<name>-<digest>, made if it is not there; what is days old goes."""
        shelf = self.root / ".build" / "bundle"
        place = shelf / f"{name}-{self._digest(*made_from)[:16]}"
        if place.is_dir():
            return place
        shelf.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=shelf, prefix=".making-") as making:
            made = Path(making) / "made"
            made.mkdir()
            make(made)
            # Renamed whole, so a synthesis that is stopped here leaves nothing that looks finished.
            try:
                made.rename(place)
            except OSError:
                if not place.is_dir():  # else another synthesis was faster, with the same content
                    raise
        for old in shelf.glob(f"{name}-*"):
            # Not at once: a synthesis that began before the last edit may be copying from it.
            if time.time() - old.stat().st_mtime > _KEPT_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
        return place

    def _copy_and_compile(self, into: Path) -> None:
        for part in ("lambdas", "shared"):
            shutil.copytree(self.root / part, into / part, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        compile_tree(into, self.python)

    def _install(self, into: Path) -> None:
        house = self._wheelhouse()
        pip = (sys.executable, "-m", "pip", "--isolated", "install", "--quiet", "--disable-pip-version-check")
        offline = (
            "--no-index",
            "--find-links",
            str(house["place"]),
            "--no-deps",
            "--only-binary=:all:",
            "--no-compile",
        )
        what = ("--require-hashes", "--requirement", str(self._lock), "--target", str(into))
        done = subprocess.run([*pip, *offline, *house["pip"], *what], capture_output=True, text=True, check=False)
        if done.returncode:
            raise BundleError(f"lambdas/{self.function}: pip could not install its wheels: {done.stderr.strip()}")
        shutil.rmtree(into / "bin", ignore_errors=True)
        compile_tree(into, self.python)

    def _wheelhouse(self) -> dict[str, Any]:
        """The stamp of the house, and its place. Raises BundleError unless it was filled for exactly this."""
        place = self.root / ".build" / "wheelhouse" / self.house
        stamp = place / "stamp.json"
        if not stamp.is_file():
            raise BundleError(f"lambdas/{self.function}: no wheels in .build/wheelhouse/{self.house}; run `make setup`")
        house: dict[str, Any] = json.loads(stamp.read_text())
        lock = hashlib.sha256(self._lock.read_bytes()).hexdigest()
        here = house["machine"] in ("", sysconfig.get_platform())
        if house["requirements"].get(self.function) != lock or house["python"] != self.python or not here:
            raise BundleError(
                f"lambdas/{self.function}: .build/wheelhouse/{self.house} was filled for other requirements, another "
                f"Python ({house['python']}, needed {self.python}) or another machine; run `make setup`"
            )
        return {**house, "place": place}


def _files(folder: Path) -> list[Path]:
    """What _copy_and_compile takes from a folder, in a stable order."""
    found = (file for file in folder.rglob("*") if file.is_file())
    return sorted(file for file in found if not set(_LEFT_OUT) & set(file.relative_to(folder).parts))
