"""What the command line says is checked before anything is built."""

from __future__ import annotations

import pytest

from shared.queues import QUEUES
from stacks.stage import Stage, StageRefused
from tests.infrastructure.stages import JWT


def test_without_a_word_it_is_dev_for_callers_of_the_account() -> None:
    stage = Stage.from_context({})
    assert (stage.stage, stage.auth, stage.code_version, stage.prefix) == ("dev", "iam", "unversioned", "holdfast-dev")


def test_the_cdks_own_context_is_left_alone() -> None:
    assert Stage.from_context({"@aws-cdk/core:x": True, "aws:cdk:bundling-stacks": [], "stage": "qa"}).stage == "qa"


@pytest.mark.parametrize("stage", ["dev", "prod", "localx", "jwt"])
def test_an_api_without_authentication_exists_only_on_the_local_stage(stage) -> None:
    assert Stage.from_context({"stage": "local", "auth": "none"}).auth == "none"
    with pytest.raises(StageRefused, match=f"auth='none' with stage='{stage}'.*only on the local stage"):
        Stage.from_context({"stage": stage, "auth": "none"})


@pytest.mark.parametrize(
    ("context", "says"),
    [
        ({"satge": "prod"}, "'satge' is not known; there are stage, auth"),
        ({"stage": "Prod"}, "stage='Prod': must be a lower-case letter"),
        ({"stage": ""}, "stage=''"),
        ({"stage": "abcdefghijklm"}, "up to 11"),
        ({"stage": "dev\n"}, "stage="),
        ({"stage": True}, "stage=True"),
        ({"auth": "basic"}, "auth='basic': must be iam, jwt or none"),
        ({"auth": "jwt"}, "also needs jwt_issuer, jwt_audience, tenant_claim"),
        ({**JWT, "jwt_issuer": "http://id.example.com"}, "jwt_issuer='http://id.example.com': must be the https://"),
        ({**JWT, "jwt_audience": "jobs, exports"}, "joined by commas without blanks"),
        ({**JWT, "auth": "iam"}, "has a meaning only with auth='jwt', found 'iam'"),
        ({"code_version": "x" * 41}, "up to 40"),
        ({"alarm_email": "nobody"}, "one e-mail address"),
        ({"kms_key_arn": "alias/jobs"}, "the ARN of a symmetric KMS key"),
        ({"cors_origins": "*"}, "one or more origins"),
        ({"cors_origins": "https://app.example.com/"}, "one or more origins"),
        ({"cors_origins": "https://app.example.com", "stage": "local", "auth": "none"}, "cors_origins has no meaning"),
        ({"synthesizer": "legacy"}, "default or cli"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_in_one_line_that_names_it(context, says) -> None:
    with pytest.raises(StageRefused) as refused:
        Stage.from_context(context)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_name_of_a_stage_fits_even_with_the_longest_stage_and_lane() -> None:
    stage = Stage.from_context({"stage": "abcdefghijkl"})
    for lane in QUEUES.values():
        assert len(stage.function_name("worker", lane.slug)) <= 64
    with pytest.raises(StageRefused, match="Lambda takes 64 characters, not 69"):
        stage.function_name("worker", "x" * 40)
