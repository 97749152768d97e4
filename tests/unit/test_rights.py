"""What a lane may be allowed in AWS, and that nothing wider can be declared."""

from __future__ import annotations

from typing import Any

import pytest

from shared.errors import DeclarationError
from shared.queues import QUEUES, Right

WHY = "A test may."


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"actions": ()}, "allows nothing"),
        ({"actions": ("*",)}, "'\\*' is not one whole name"),
        ({"actions": ("ses:*",)}, "'ses:\\*' is not one whole name"),
        ({"actions": ("ses:Send*",)}, "not one whole name"),
        ({"actions": ("ses:SendEmail", "*:*")}, "'\\*:\\*' is not one whole name"),
        ({"actions": ("SendEmail",)}, "not one whole name"),
        ({"actions": ("s3:GetObject",)}, "'s3:GetObject' is not one of 'ses'"),
        ({"resource": "*"}, "a resource is like"),
        ({"resource": "ses:*"}, "a resource is like"),
        ({"resource": "ses:::*"}, "a resource is like"),
        ({"resource": "ses:i*"}, "a resource is like"),
        ({"resource": "ses:*/x"}, "a resource is like"),
        ({"resource": "ses:identity/?"}, "a resource is like"),
        ({"resource": "ses:identity/* x"}, "a resource is like"),
        ({"resource": "ses:identity/{account}"}, "no name but {stage}"),
        ({"resource": "ses:identity/*", "because": ""}, "say why"),
    ],
)
def test_a_right_to_everything_or_of_no_meaning_is_refused_by_name(fields: dict[str, Any], why: str) -> None:
    values: dict[str, Any] = {"actions": ("ses:SendEmail",), "resource": "ses:identity/*", "because": WHY}
    with pytest.raises(DeclarationError, match="right to .* on .*: .*" + why):
        Right(**(values | fields))


def test_a_right_names_its_resource_on_each_stage() -> None:
    right = Right(actions=("secretsmanager:GetSecretValue",), resource="secretsmanager:secret:a/{stage}/b-x")
    assert (right.service, right.name("prod"), right.is_wide) == ("secretsmanager", "secret:a/prod/b-x", False)


def test_only_lanes_whose_jobs_need_them_have_rights_besides_files() -> None:
    assert {lane.name: {a for right in lane.rights for a in right.actions} for lane in QUEUES.values()} == {
        "emails.high": {"ses:SendEmail"},
        "emails.bulk": {"ses:SendEmail"},
        "webhooks.partner-a": {"secretsmanager:GetSecretValue"},
        "exports.month-end": set(),
        "thumbnails": set(),
    }
