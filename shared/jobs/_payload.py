"""What a job type's payload is made of, and whose it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from shared.domain.job import TENANT
from shared.errors import Fault


class _NamesTheTenant:
    """Marks the field of a payload that says whose job it is."""


TenantId = Annotated[str, Field(pattern=f"^{TENANT.pattern}$", examples=["acme-eu"]), _NamesTheTenant()]
"""A payload's tenant field: `tenant_id: TenantId`. The door fills it in where it is left out and refuses another tenant
than the job's; the worker asserts it. So no handler compares tenants.
"""


class Payload(BaseModel):
    """Base of every payload: camelCase outside, snake_case in code, unknown fields refused, no silent conversion."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        strict=True,
        frozen=True,
        hide_input_in_errors=True,  # its text stands in logs for months
    )

    @classmethod
    def tenant_fields(cls) -> list[str]:
        """Names of the fields declared as TenantId; a job type has one or none."""
        return [
            name
            for name, field in cls.model_fields.items()
            if any(isinstance(said, _NamesTheTenant) for said in field.metadata)
        ]

    def refused_to(self, tenant: str | None) -> Iterable[Fault]:  # noqa: ARG002
        """What a job of this tenant (None: the house's own) may not name, with pointers from the payload ("/sender").
        For types whose payload names things that belong to tenants; asked at the door and again in the worker.
        """
        return ()
