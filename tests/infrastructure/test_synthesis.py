"""`cdk synth` as a stranger runs it: no credentials, no network; and what stops it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3
from cdk_nag import AwsSolutionsChecks

import app as holdfast
from tests.infrastructure.stages import CONTEXTS, ROOT, new_app

BLOCKED = "the network is blocked in this test"
_PYTHON = f"""
import sys
def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        raise ConnectionRefusedError("{BLOCKED}")
sys.addaudithook(refuse)
"""
_NODE = f"""
const refuse = () => {{ throw new Error("{BLOCKED}"); }};
require("net").Socket.prototype.connect = refuse;
require("dns").lookup = refuse;
require("dgram").createSocket = refuse;
"""


@pytest.fixture
def cut_off(tmp_path: Path) -> Mapping[str, str]:
    """An environment without AWS credentials, configuration or network, for Python and Node and all they start."""
    (tmp_path / "sitecustomize.py").write_text(_PYTHON)
    (tmp_path / "block.cjs").write_text(_NODE)
    beside = Path(sys.executable).parent
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "LANG") if name in os.environ}
    return {
        **kept,
        "PATH": f"{beside}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "PYTHONPATH": str(tmp_path),
        "NODE_OPTIONS": f"--require {tmp_path / 'block.cjs'}",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
    }


def _cdk(*arguments: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    node = shutil.which("node", path=env["PATH"])
    assert node, "no node: run `make setup`"
    command = [node, str(ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk"), *arguments, "--no-notices"]
    return subprocess.run(command, cwd=ROOT, env=dict(env), capture_output=True, text=True, timeout=120, check=False)


def test_the_block_blocks(cut_off) -> None:
    python = "import socket; socket.create_connection(('127.0.0.1', 9))"
    node = "require('net').connect(9, '127.0.0.1')"
    for command in ([sys.executable, "-c", python], [shutil.which("node", path=cut_off["PATH"]), "-e", node]):
        ran = subprocess.run(command, env=dict(cut_off), capture_output=True, text=True, check=False)
        assert BLOCKED in ran.stderr


def test_a_stage_is_synthesised_code_and_all_without_credentials_or_network(cut_off, tmp_path) -> None:
    out = tmp_path / "cdk.out"
    ran = _cdk("synth", "--quiet", "--context", "stage=dev", "--output", str(out), env=cut_off)
    assert ran.returncode == 0, ran.stderr
    assert BLOCKED not in ran.stdout + ran.stderr
    manifest = json.loads((out / "manifest.json").read_text())
    stacks = {a["displayName"]: a for a in manifest["artifacts"].values() if a["type"] == "aws:cloudformation:stack"}
    assert set(stacks) == {f"Holdfast-dev-{part}" for part in ("Storage", "Pipeline", "Observability")}
    assert {stack["environment"] for stack in stacks.values()} == {"aws://unknown-account/unknown-region"}
    assets = json.loads((out / "Holdfast-dev-Pipeline.assets.json").read_text())["files"].values()
    zips = [out / asset["source"]["path"] for asset in assets if asset["source"]["packaging"] == "zip"]
    assert len(zips) == 5  # one for all workers, one each for relay, promoter, tally and API
    assert all((code / "shared" / "__pycache__" / "queues.cpython-314.pyc").is_file() for code in zips)


def test_what_cannot_be_meant_is_refused_in_one_line_without_a_traceback(cut_off, tmp_path) -> None:
    ran = _cdk("synth", "--context", "stage=prod", "--context", "auth=none", "-o", str(tmp_path / "x"), env=cut_off)
    assert ran.returncode != 0
    assert "app.py: context auth='none' with stage='prod': an API without authentication exists only" in ran.stderr
    assert "Traceback" not in ran.stdout + ran.stderr


@pytest.mark.parametrize("stage", [stage for stage in CONTEXTS if stage != "local"])
def test_awss_own_rules_find_nothing_that_is_not_acknowledged_with_a_reason(tmp_path, stage) -> None:
    app = new_app(tmp_path, CONTEXTS[stage])
    holdfast.build(app)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()


def test_awss_rules_would_find_something(tmp_path) -> None:
    app = new_app(tmp_path, CONTEXTS["dev"])
    holdfast.build(app)
    s3.Bucket(app.node.find_child("Holdfast-dev-Storage"), "Careless")
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    with pytest.raises(RuntimeError, match=r"Careless[^\n]*\n[^\n]*AwsSolutions-S1"):
        app.synth()


def test_deploying_with_the_callers_own_credentials_names_no_bootstrap_role(tmp_path) -> None:
    app = new_app(tmp_path, {**CONTEXTS["local"], "synthesizer": "cli"})
    holdfast.build(app)
    app.synth()
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    stacks = [a for a in manifest["artifacts"].values() if a["type"] == "aws:cloudformation:stack"]
    assert len(stacks) == 3
    assert [stack for stack in stacks if "assumeRoleArn" in stack["properties"]] == []


def test_the_pins_for_node_are_exact_and_name_no_registry() -> None:
    package = json.loads((ROOT / "package.json").read_text())
    assert package["dependencies"] == {"aws-cdk": "2.1148.1", "pyodide": "314.0.7"}
    lock = (ROOT / "package-lock.json").read_text()
    assert "http" not in lock
    packages = json.loads(lock)["packages"]
    assert all(entry["integrity"].startswith("sha512-") for path, entry in packages.items() if path)
