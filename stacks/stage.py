"""What one deployment is told on the command line (`-c stage=dev -c auth=iam …`), checked before anything is built."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

_RULES: Mapping[str, tuple[str, str]] = {
    "stage": (r"[a-z][a-z0-9]{0,11}", "a lower-case letter, then up to 11 lower-case letters and digits"),
    "auth": (r"iam|jwt|none", "iam, jwt or none"),
    "jwt_issuer": (r"https://[^\s/]+\S*", "the https:// address of the issuer"),
    "jwt_audience": (r"[^\s,]+(,[^\s,]+)*", "one or more audiences, joined by commas without blanks"),
    "tenant_claim": (r"[A-Za-z0-9_:./-]{1,128}", "the name of the claim that holds the tenant"),
    "code_version": (r"[A-Za-z0-9._+/-]{1,40}", "up to 40 letters, digits and ._+/-"),
    "alarm_email": (r"[^@\s]+@[^@\s]+\.[^@\s]+", "one e-mail address"),
    "kms_key_arn": (
        r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+",
        "the ARN of a symmetric KMS key of this account and region (arn:aws:kms:…:key/…), not of an alias",
    ),
    "cors_origins": (
        r"https?://[a-z0-9.-]+(:\d{1,5})?(,https?://[a-z0-9.-]+(:\d{1,5})?)*",
        "one or more origins in lower case, such as https://app.example.com, joined by commas without blanks",
    ),
    "synthesizer": (r"default|cli", "default or cli"),
}
_OF_JWT = ("jwt_issuer", "jwt_audience", "tenant_claim")

LOCAL = "local"
DISPOSABLE = ("dev", LOCAL)


class StageRefused(Exception):
    """The stage cannot be built as asked; one line says which value, what it must be and what was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage, as given by CDK context; the defaults are those of `cdk deploy` without any.

    stage         begins every physical name; "local" is the emulator's
    auth          who may call the API: "iam", "jwt" (then the three fields below) or, on the local stage only, "none"
    code_version  the revision, kept in every record a worker touches
    alarm_email   subscribed to the alarms' topic, if given
    kms_key_arn   the customer managed key that tables, queues, bucket, topic and logs are put under, if given
    cors_origins  web origins, joined by commas, whose pages may call the API from a browser; without any, none may
    synthesizer   "cli": deploy with the caller's own credentials instead of the bootstrap roles
    """

    stage: str = "dev"
    auth: str = "iam"
    jwt_issuer: str = ""
    jwt_audience: str = ""
    tenant_claim: str = ""
    code_version: str = "unversioned"
    alarm_email: str = ""
    kms_key_arn: str = ""
    cors_origins: str = ""
    synthesizer: str = "default"

    @classmethod
    def from_context(cls, context: Mapping[str, object]) -> Self:
        """Raises StageRefused for a value, a combination or a name nobody knows: `-c satge=prod` must not deploy dev.
        Names with ":" or "/" are the CDK's own.
        """
        own = {name: value for name, value in context.items() if not set(":/") & set(name)}
        known = [field.name for field in fields(cls)]
        for name, value in own.items():
            if name not in known:
                raise StageRefused(f"context {name!r} is not known; there are {', '.join(known)}")
            pattern, rule = _RULES[name]
            if not isinstance(value, str) or not re.fullmatch(pattern, value):
                raise StageRefused(f"context {name}={value!r}: must be {rule}")
        stage = cls(**own)  # type: ignore[arg-type]
        stage._refuse_combinations()
        return stage

    def _refuse_combinations(self) -> None:
        if self.auth == "none" and not self.is_local:
            raise StageRefused(
                f"context auth='none' with stage={self.stage!r}: an API without authentication exists only on the "
                "local stage; use iam or jwt"
            )
        if self.cors_origins and self.is_local:
            raise StageRefused(
                "context cors_origins has no meaning on the local stage, which answers no page from elsewhere; "
                "let the development server of your pages pass the API's paths on"
            )
        given = [name for name in _OF_JWT if getattr(self, name)]
        missing = [name for name in _OF_JWT if not getattr(self, name)]
        if self.auth == "jwt" and missing:
            raise StageRefused(f"context auth='jwt' also needs {', '.join(missing)}")
        if self.auth != "jwt" and given:
            raise StageRefused(f"context {', '.join(given)} has a meaning only with auth='jwt', found {self.auth!r}")

    @property
    def prefix(self) -> str:
        """Begins every physical name, "holdfast-dev"."""
        return f"holdfast-{self.stage}"

    @property
    def is_local(self) -> bool:
        """The emulator's stage: plain HTTP, this machine's wheels."""
        return self.stage == LOCAL

    @property
    def is_disposable(self) -> bool:
        """A stage whose data may go with its stacks."""
        return self.stage in DISPOSABLE

    def function_name(self, *parts: str) -> str:
        """A function's physical name. Raises StageRefused beyond the 64 characters Lambda takes."""
        name = "-".join((self.prefix, *parts))
        if len(name) > 64:
            raise StageRefused(f"{name!r}: Lambda takes 64 characters, not {len(name)}; shorten the queue or stage")
        return name
