"""The stacks with IAM enforced: what a function's role does not allow, the emulator refuses, as AWS would."""

from __future__ import annotations

import boto3
import pytest
from botocore.exceptions import ClientError

from local.environment import REGION, client
from shared.domain.states import State
from tests.e2e.cloud import Cloud
from tests.e2e.test_failures import dead_letter
from tests.e2e.test_journey import result_of


def refusals(cloud: Cloud) -> list[str]:
    """What the functions logged of denied calls; some of them (a visibility not set) would only cost time."""
    return [line for line in cloud.place.log("emulator").read_text().splitlines() if "AccessDenied" in line]


def test_the_grants_are_enough_for_the_whole_journey(strict_cloud: Cloud) -> None:
    ended = strict_cloud.wait(strict_cloud.export("2026-05"), seconds=60)

    assert ended["status"] == State.COMPLETED, ended
    assert result_of(strict_cloud, ended["jobId"]).body.startswith(b"%PDF-")
    assert refusals(strict_cloud) == []


def test_the_grants_are_enough_for_a_job_to_die_and_reach_the_dlq(strict_cloud: Cloud) -> None:
    ended = strict_cloud.wait(strict_cloud.export("2031-01"), seconds=60)

    assert (ended["status"], ended["error"]["code"]) == (State.DEAD, "file-missing")
    assert dead_letter(strict_cloud, ended["jobId"])
    assert refusals(strict_cloud) == []


def test_this_emulator_does_refuse_whom_no_policy_allows(strict_cloud: Cloud) -> None:
    iam = client("iam", strict_cloud.up.endpoint)
    iam.create_user(UserName="nobody")
    key = iam.create_access_key(UserName="nobody")["AccessKey"]
    stranger = boto3.client(
        "dynamodb",
        endpoint_url=strict_cloud.up.endpoint,
        region_name=REGION,
        aws_access_key_id=key["AccessKeyId"],
        aws_secret_access_key=key["SecretAccessKey"],
    )

    with pytest.raises(ClientError, match="AccessDenied"):
        stranger.scan(TableName=strict_cloud.up.outputs["JobsTable"])
