"""What is in a function's zip, and when it counts as changed."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.adapters.session import MODELS
from stacks.constructs.bundle import Bundle
from stacks.constructs.bytecode import BundleError, compile_tree
from tests.infrastructure.stages import ROOT

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
FUNCTIONS = ("api", "promoter", "relay", "tally", "worker")
UNCHECKED = (1).to_bytes(4, "little")
AARCH64 = 0xB7


@pytest.fixture(scope="module", params=FUNCTIONS)
def for_aws(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    into = tmp_path_factory.mktemp(f"aws-{request.param}")
    Bundle(request.param, "aws", "3.14").write(into)
    yield request.param, into
    shutil.rmtree(into)


@pytest.fixture(scope="module")
def worker_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    into = tmp_path_factory.mktemp("local-worker")
    Bundle("worker", "local", HERE).write(into)
    yield into
    shutil.rmtree(into)


def test_a_zip_holds_the_function_and_what_it_shares_and_no_other_function(for_aws) -> None:
    function, code = for_aws
    assert {p.name for p in (code / "lambdas").iterdir()} - {"__pycache__"} == {"__init__.py", function}
    assert (code / "shared" / "domain" / "states.py").is_file()
    assert (code / "aws_lambda_powertools").is_dir()


def test_a_zip_holds_nothing_the_runtime_has_nor_what_no_function_runs(for_aws) -> None:
    _, code = for_aws
    assert {"boto3", "botocore", "s3transfer", "aws_cdk", "tests", "bin", "stacks", "local"} & _names(code) == set()
    left = [p for p in (code / "lambdas").rglob("*") if p.name in ("tests", "requirements.txt", "requirements.in")]
    assert left == []


def test_a_zip_brings_small_models_where_its_session_looks_for_them(for_aws) -> None:
    _, code = for_aws
    models = code / MODELS.relative_to(ROOT)
    assert (models / "dynamodb" / "2012-08-10" / "service-2.json").is_file()
    assert sum(file.stat().st_size for file in models.rglob("*") if file.is_file()) < 300_000


def test_every_module_comes_with_bytecode_of_the_runtimes_python_that_is_used_unchecked(for_aws) -> None:
    _, code = for_aws
    sources = list(code.rglob("*.py"))
    assert len(sources) > 100
    for source in sources:
        compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-314.pyc"
        # Bytes 4 to 8 say how it is checked against its source; a zip does not keep the time the default looks at.
        assert compiled.read_bytes()[4:8] == UNCHECKED, source
    assert [p for p in code.rglob("*.pyc") if ".cpython-314." not in p.name] == []


def test_every_native_library_is_for_arm(for_aws) -> None:
    function, code = for_aws
    natives = [p for p in code.rglob("*.so*") if p.is_file()]
    assert natives or function in ("promoter", "relay", "tally")
    for native in natives:
        assert int.from_bytes(native.read_bytes()[18:20], "little") == AARCH64, native


def test_a_traceback_names_files_where_lambda_has_them(for_aws) -> None:
    _, code = for_aws
    compiled = code / "shared" / "__pycache__" / "errors.cpython-314.pyc"
    assert b"/var/task/shared/errors.py" in compiled.read_bytes()


def test_the_local_zip_is_compiled_by_this_python_and_its_libraries_load_here(worker_here) -> None:
    tag = sys.implementation.cache_tag
    compiled = worker_here / "shared" / "__pycache__" / f"errors.{tag}.pyc"
    assert compiled.read_bytes()[:4] == importlib.util.MAGIC_NUMBER
    program = "import pydantic, PIL.Image, reportlab, aws_lambda_powertools, sys; print(pydantic.__file__)"
    ran = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(worker_here)!r}); {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith(str(worker_here))


def test_an_unchanged_function_keeps_its_hash_and_a_changed_one_does_not(tmp_path) -> None:
    project = _project(tmp_path)
    before = {name: Bundle(name, "aws", "3.14", project).digest() for name in FUNCTIONS}
    (project / "shared" / "__pycache__").mkdir(exist_ok=True)
    (project / "shared" / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"this machine's own")
    assert {name: Bundle(name, "aws", "3.14", project).digest() for name in FUNCTIONS} == before

    (project / "lambdas" / "relay" / "handler.py").write_text("# changed\n")
    after = {name: Bundle(name, "aws", "3.14", project).digest() for name in FUNCTIONS}
    assert {name for name in FUNCTIONS if after[name] != before[name]} == {"relay"}

    (project / "shared" / "queues.py").write_text("# changed\n")
    assert all(Bundle(name, "aws", "3.14", project).digest() != after[name] for name in FUNCTIONS)


def test_the_hash_tells_targets_pythons_and_locks_apart(tmp_path) -> None:
    project = _project(tmp_path)
    digests = {
        Bundle("api", house, python, project).digest() for house in ("aws", "local") for python in ("3.14", "3.15")
    }
    (project / "lambdas" / "api" / "requirements.txt").write_text("# another lock\n")
    assert len(digests | {Bundle("api", "aws", "3.14", project).digest()}) == 5


def test_without_a_wheelhouse_the_command_that_makes_one_is_named(tmp_path) -> None:
    with pytest.raises(BundleError, match=r"lambdas/api: no wheels in .build/wheelhouse/aws; run `make setup`"):
        Bundle("api", "aws", "3.14", _project(tmp_path)).prepare()


def test_a_wheelhouse_for_other_requirements_is_refused(tmp_path) -> None:
    project = _project(tmp_path)
    shutil.copytree(ROOT / ".build" / "wheelhouse" / "aws", project / ".build" / "wheelhouse" / "aws")
    (project / "lambdas" / "api" / "requirements.txt").write_text("# another lock\n")
    with pytest.raises(BundleError, match=r"filled for other requirements.*run `make setup`"):
        Bundle("api", "aws", "3.14", project).prepare()


def test_a_wheel_that_was_tampered_with_is_not_installed(tmp_path) -> None:
    project = _project(tmp_path)
    house = project / ".build" / "wheelhouse" / "aws"
    shutil.copytree(ROOT / ".build" / "wheelhouse" / "aws", house)
    (wheel,) = house.glob("typing_extensions-*.whl")
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    with pytest.raises(BundleError, match="lambdas/relay: pip could not install its wheels"):
        Bundle("relay", "aws", "3.14", project).prepare()


@pytest.mark.parametrize("python", [HERE, "3.14"])
def test_code_that_does_not_compile_is_not_deployed(tmp_path, python) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    with pytest.raises(BundleError, match=r"broken\.py"):
        compile_tree(tmp_path, python)


def _project(root: Path) -> Path:
    leave = shutil.ignore_patterns("__pycache__")
    for part in ("lambdas", "shared"):
        shutil.copytree(ROOT / part, root / part, ignore=leave)
    return root


def _names(code: Path) -> set[str]:
    return {p.name for p in code.iterdir()}
