"""The stages the tests look at, and what they consist of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import assertions

import app as holdfast

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("Storage", "Pipeline", "Observability")
JWT = {
    "auth": "jwt",
    "jwt_issuer": "https://id.example.com/",
    "jwt_audience": "jobs,exports",
    "tenant_claim": "tenant",
    "cors_origins": "https://app.example.com,http://localhost:5173",
}
KEY_ARN = "arn:aws:kms:eu-west-1:111122223333:key/0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
CONTEXTS: Mapping[str, Mapping[str, str]] = {
    "dev": {"stage": "dev"},
    "prod": {"stage": "prod", "alarm_email": "on-call@example.com"},
    "jwt": {"stage": "jwt", **JWT},
    "keyed": {"stage": "keyed", "kms_key_arn": KEY_ARN},
    "local": {"stage": "local", "auth": "none"},
}


def new_app(outdir: Path, context: Mapping[str, str]) -> cdk.App:
    """An app with cdk.json's own context and this."""
    flags = json.loads((ROOT / "cdk.json").read_text())["context"]
    return cdk.App(outdir=str(outdir), context={**flags, "aws:cdk:bundling-stacks": [], **context})


class Stacks:
    """The resources of one stage's stacks."""

    def __init__(self, outdir: Path, stage: str) -> None:
        app = new_app(outdir, CONTEXTS[stage])
        holdfast.build(app)
        stacks = {part: app.node.find_child(f"Holdfast-{stage}-{part}") for part in PARTS}
        self.stage = stage
        self.templates = {part: assertions.Template.from_stack(stack).to_json() for part, stack in stacks.items()}

    def of(self, kind: str) -> dict[str, dict[str, Any]]:
        """Resources of a type ("AWS::SQS::Queue") by logical id, over all stacks, as they are in the template."""
        found = [resource for template in self.templates.values() for resource in template["Resources"].items()]
        return {id: resource for id, resource in found if resource["Type"] == kind}

    def properties(self, kind: str, named_by: str) -> dict[str, dict[str, Any]]:
        """Properties of all resources of a type, by the one that names them ("QueueName")."""
        return {r["Properties"][named_by]: r["Properties"] for r in self.of(kind).values()}
