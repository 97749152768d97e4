"""The API against its own contract: whatever /openapi.json allows is accepted, all else is refused as it says."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable

import pytest

from local.place import PROJECT
from tests.e2e.cloud import Cloud

PROGRAM = PROJECT / ".build" / "schemathesis" / "bin" / "schemathesis"
SEED, EXAMPLES = 20_261_203, 20
OPTIONS = (
    *("--checks", "all", "--seed", str(SEED), "--max-examples", str(EXAMPLES), "--workers", "1"),
    *("--request-timeout", "35", "--max-response-time", "35"),  # above what API Gateway gives a function
    *("--continue-on-failure", "--no-color", "--warnings", "off", "--generation-database", "none"),
)


@pytest.mark.timeout(600)
def test_every_request_the_contract_allows_is_accepted_and_every_answer_is_one_it_describes(
    cloud: Cloud, figure: Callable[[str], None]
) -> None:
    """All of schemathesis' checks: no server error, no undocumented status, header, type or body, no valid request
    refused, no invalid one accepted. What the contract says in prose is in tests/contract/hooks.py.
    """
    done = subprocess.run(
        [str(PROGRAM), "run", f"{cloud.place.url}/openapi.json", *OPTIONS],
        env=os.environ | {"SCHEMATHESIS_HOOKS": "tests.contract.hooks", "PYTHONPATH": str(PROJECT)},
        cwd=cloud.place.home,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    cases = re.search(r"(\d+) generated", done.stdout.replace(",", ""))
    assert cases is not None, done.stdout[-2000:]
    assert int(cases[1]) > 300, "hardly anything was tried"
    figure(f"schemathesis: {int(cases[1]):,} calls by the contract and against it, all answered as it says")
