"""Who is asking. Under JWT the tenant is what the verified token says, and nothing else; where callers are trusted
(IAM, the local stage) it is what the body says.
"""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.api.gateway import Request
from lambdas.api.pointer import shown
from lambdas.api.problems import FORBIDDEN, Refused
from shared.domain.job import TENANT, Job
from shared.errors import Fault, SettingsError

_TRUSTED = frozenset({"iam", "none"})


@dataclass(frozen=True, slots=True)
class Caller:
    """`tenant` is the one a token vouches for; None for a trusted caller, who may act for any."""

    tenant: str | None

    @property
    def is_tenant(self) -> bool:
        """The caller has nothing but a tenant's token."""
        return self.tenant is not None

    def acts_for(self, asked: str | None) -> str | None:
        """The tenant of a job this caller submits. Raises Refused (403) when the body names another than the token."""
        if self.tenant is not None and asked not in (None, self.tenant):
            raise Refused(FORBIDDEN, "tenantId is not the tenant of your token; leave it out", [_OTHER_TENANT])
        return self.tenant if self.tenant is not None else asked

    def may_see(self, job: Job) -> bool:
        """Whether the job exists, as far as this caller is told."""
        return self.tenant is None or self.tenant == job.tenant


_OTHER_TENANT = Fault("/tenantId", "not the tenant of the token")


@dataclass(frozen=True, slots=True)
class Identity:
    """How callers are known on this stage.

    auth          "jwt": the tenant is in a claim; "iam", "none": callers are trusted
    tenant_claim  the claim's name
    Raises SettingsError for another auth.
    """

    auth: str
    tenant_claim: str

    def __post_init__(self) -> None:
        if self.auth != "jwt" and self.auth not in _TRUSTED:
            raise SettingsError(f"auth {self.auth!r} is none of jwt, iam, none")

    @property
    def callers_are_tenants(self) -> bool:
        """Whether callers here have a tenant's token each, and are trusted with nothing beyond it."""
        return self.auth not in _TRUSTED

    def named(self, request: Request) -> dict[str, str]:
        """Subject and tenant for the log, as the token says them; nothing where callers are trusted, whom IAM names."""
        if self.auth in _TRUSTED:
            return {}
        said = {"subject": request.claims.get("sub"), "tenant": request.claims.get(self.tenant_claim)}
        return {name: shown(str(claim)) for name, claim in said.items() if claim is not None}

    def caller(self, request: Request) -> Caller:
        """Raises Refused (403) for a token without a usable tenant."""
        if self.auth in _TRUSTED:
            return Caller(None)
        claim = request.claims.get(self.tenant_claim)
        # API Gateway hands a claim of several values on as the text "[a b]", which the pattern refuses too.
        if not isinstance(claim, str) or not TENANT.fullmatch(claim):
            raise Refused(
                FORBIDDEN, f"the token names no tenant: its claim {self.tenant_claim!r} is absent or unusable"
            )
        return Caller(claim)
