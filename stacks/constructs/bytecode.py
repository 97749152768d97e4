"""Ships .pyc files: /var/task is read-only, so a zip without them compiles every module at every cold start (1.9 x)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

_PROGRAM = Path(__file__).with_name("compile.mjs")
_HERE = """
import compileall, py_compile, sys
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
sys.exit(not compileall.compile_dir(sys.argv[1], quiet=1, force=True, stripdir=sys.argv[1], invalidation_mode=mode))
"""


class BundleError(Exception):
    """The code of a function cannot be put together here; the message says what is missing and what to run."""


def compile_tree(folder: Path, python: str) -> None:
    """Write __pycache__ beside every .py of `folder`, for that Python ("3.14").

    This interpreter does it where it is that Python, else the pinned CPython in WebAssembly. Raises BundleError.
    """
    here = f"{sys.version_info.major}.{sys.version_info.minor}" == python
    command = [sys.executable, "-c", _HERE, str(folder)] if here else [_node(), str(_PROGRAM), str(folder), python]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BundleError(f"bytecode for Python {python}: {(done.stderr + done.stdout).strip()}")


def _node() -> str:
    # The Node that came as a wheel is pinned; whatever else is on the PATH is not.
    beside = Path(sys.executable).with_name("node")
    node = str(beside) if beside.exists() else shutil.which("node")
    pyodide = _PROGRAM.parents[2] / "node_modules" / "pyodide"
    if node is None or not pyodide.is_dir():
        missing = "node" if node is None else "node_modules/pyodide"
        raise BundleError(f"{missing} is not here, and it compiles the functions' bytecode; run `make setup`")
    return node
