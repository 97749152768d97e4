"""Who may import whom (DESIGN §3). The table is the rule; everything else here reads imports with `ast`."""

from __future__ import annotations

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLAIN = ("shared.errors",)  # itself standard library only
FOLDERS = {
    "shared/domain": ("shared.domain", *PLAIN),
    "shared/queues.py": ("shared.senders", *PLAIN),
    "shared/senders.py": PLAIN,
    "shared/quotas.py": PLAIN,
    "shared/settings.py": PLAIN,
    "shared/routes.py": (),
    "shared/errors.py": ("shared.domain",),  # for a type only, never at run time
    "shared/ports.py": ("shared.domain", "shared.queues", *PLAIN),
    "shared/operations": (
        "shared.domain", "shared.ports", "shared.jobs", "shared.queues", "shared.quotas", "shared.operations", *PLAIN,
    ),
    "shared/adapters": (
        "boto3", "botocore", "aws_lambda_powertools",
        "shared.domain", "shared.ports", "shared.queues", "shared.quotas", "shared.telemetry", "shared.adapters",
        *PLAIN,
    ),
    "shared/telemetry.py": (),
    "shared/jobs": ("pydantic", "shared.queues", "shared.senders", "shared.domain", "shared.jobs", *PLAIN),
    "lambdas": ("aws_lambda_powertools", "boto3", "botocore", "pydantic", "pydantic_core", "shared", "lambdas"),
    "stacks": (
        "aws_cdk", "constructs", "jsii", "stacks",
        "botocore.__version__", "botocore.loaders",  # the bundle cuts its models down; no client is made
        "shared.queues", "shared.quotas", "shared.routes", "shared.schedules", "shared.settings", "shared.telemetry",
        "shared.domain.states", "shared.domain.job", *PLAIN,
    ),
    "local": ("boto3", "botocore", "ministack", "local", "shared"),
}  # fmt: skip
"""Beyond DESIGN §3: stacks read shared/domain/states.py and job.py, so that the words of the stream filter and of
the policies are the table's own."""


def files(folder: str) -> list[Path]:
    path = ROOT / folder
    return [path] if path.suffix else sorted(path.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Modules imported when the file is; heavy clients inside a job's handler are its own business."""
    tree = ast.parse(path.read_text())
    inside_functions = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in inside_functions and "jobs" in path.parts:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: say the whole module name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_imports_only_what_the_design_allows(folder: str) -> None:
    sources = files(folder)
    assert sources, f"{folder} is empty"
    for path in sources:
        for module in imports(path):
            top = module.partition(".")[0]
            if top in sys.stdlib_module_names:
                continue
            allowed = FOLDERS[folder]
            assert any(module == name or module.startswith(name + ".") for name in allowed), f"{path}: {module}"


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """For a type only (TYPE_CHECKING) is a circle too: neither of the two can be read without the other."""
    paths = [path for folder in ("shared", "lambdas", "stacks", "local") for path in files(folder)]
    known = {module_of(path) for path in paths}
    graph = {
        module_of(path): {
            next((m for m in (name, name.rpartition(".")[0]) if m in known), "") for name in imports(path)
        } - {"", module_of(path)}
        for path in paths
    }  # fmt: skip
    assert "shared.operations.run.held" in graph["shared.operations.run.effects"], "the search sees nothing"
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as e:
        raise AssertionError(f"a circle of imports: {' -> '.join(reversed(e.args[1]))}") from e


def test_one_lambda_never_imports_another() -> None:
    for path in files("lambdas"):
        own = ".".join(path.relative_to(ROOT).parts[:2])
        for module in imports(path):
            assert not module.startswith("lambdas.") or module.startswith(own), f"{path}: {module}"


def test_lambdas_build_clients_and_operations_never_see_boto3() -> None:
    for path in [*files("shared/operations"), *files("shared/domain"), *files("shared/jobs")]:
        assert not {m for m in imports(path) if m.startswith(("boto3", "botocore"))}, path


def test_no_quoted_state_name_stands_outside_the_transition_table() -> None:
    """A typo in a quoted status is a bug that no test catches."""
    states = {"scheduled", "queued", "running", "retrying", "completed", "dead", "cancelled", "expired"}
    for folder in ("shared", "lambdas", "stacks", "local"):
        for path in files(folder):
            if path.name in ("states.py", "outcome.py"):
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                quoted = node.value if isinstance(node, ast.Constant) else None
                assert quoted not in states, f"{path}:{node.lineno}: {quoted!r}"


def test_whatever_a_job_imports_inside_its_handler_is_in_the_workers_zip_or_its_runtime() -> None:
    """A missing package shows only when the first job of its type runs, as a dead job."""
    locked = (ROOT / "lambdas" / "worker" / "requirements.txt").read_text().lower()
    packages = {"PIL": "pillow", "bidi": "python-bidi"}
    for path in files("shared/jobs"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for top in {module.partition(".")[0] for module in modules} - {"shared", "boto3", "botocore"}:
                name = packages.get(top, top).replace("_", "-").lower()
                assert top in sys.stdlib_module_names or f"\n{name}==" in f"\n{locked}", f"{path}: {top}"
