"""SQS authorises its batch calls by the permission of the single call; IAM knows no sqs:SendMessageBatch. The emulator
asks for one all the same, so every statement that allows a single call is made to allow its batch here: same role,
same resources, same conditions, nothing else. The stacks stay as AWS wants them.
"""

from __future__ import annotations

import json
from typing import Any

SINGLE_CALLS = ("sqs:SendMessage", "sqs:ChangeMessageVisibility", "sqs:DeleteMessage")


def allow_batches_where_single_calls_are_allowed(iam: Any) -> None:
    """Rewrite every inline role policy that allows a single call of SQS."""
    for page in iam.get_paginator("list_roles").paginate():
        for role in page["Roles"]:
            _rewrite(iam, role["RoleName"])


def _rewrite(iam: Any, role: str) -> None:
    for policy in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
        for statement in document["Statement"]:
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            statement["Action"] = actions + [f"{action}Batch" for action in actions if action in SINGLE_CALLS]
        iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=json.dumps(document))
