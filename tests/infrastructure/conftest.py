"""The templates of a stage, synthesised once each; without bundling, which test_bundle.py and test_synthesis.py try."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.infrastructure.stages import CONTEXTS, Stacks


@pytest.fixture(scope="session")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Stacks]:
    """stacks("prod"): what that stage consists of."""

    @cache
    def synthesise(stage: str) -> Stacks:
        return Stacks(tmp_path_factory.mktemp(f"cdk-{stage}"), stage)

    return synthesise


@pytest.fixture(params=CONTEXTS)
def every_stage(request: pytest.FixtureRequest, stacks: Callable[[str], Stacks]) -> Stacks:
    """Each stage in turn."""
    return stacks(request.param)


@pytest.fixture(params=[stage for stage in CONTEXTS if stage != "local"])
def aws_stage(request: pytest.FixtureRequest, stacks: Callable[[str], Stacks]) -> Stacks:
    """Each stage that is deployed to AWS, in turn."""
    return stacks(request.param)


@pytest.fixture
def prod(stacks: Callable[[str], Stacks]) -> Stacks:
    """A stage whose data must survive."""
    return stacks("prod")
