"""One kind of job, and what it takes in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from shared.domain.retry import RetryPolicy
from shared.domain.run import Cancel, Continue, Defer, Run, StoredFile
from shared.errors import DeterministicFailure, Fault, NotAllowed
from shared.jobs._in_words import in_words
from shared.jobs._payload import Payload
from shared.jobs._whole import whole
from shared.queues import Queue

Ending = StoredFile | Defer | Continue | Cancel | None
"""What a handler may return: its result, nothing, or another ending by name. It fails by raising."""

Handler = Callable[[Any, Run], Ending]
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class JobType:
    """One kind of job, as its file declares it.

    queue            the lane it runs in
    version          of the payload model, raised with every incompatible change
    upgrades         by the version they start from: payload of version n → of version n + 1, as JSON objects
    deadline         the longest one attempt may take
    lease            how long a silent worker keeps the job: above the deadline, or short with progress reports
    max_age          how long after its time a job may still start
    requires_result  a run that returns no StoredFile has failed
    open_to_tenants  a tenant may submit it with its own token; without it only trusted callers may
    shared_files     prefixes its jobs reach whosever they are, besides their own tenant's files
    own_metrics      counted apart as well, not only with its lane: about eight custom metrics more
    """

    name: str
    queue: Queue
    payload: type[Payload]
    handler: Handler
    version: int
    upgrades: Mapping[int, Upgrade]
    policy: RetryPolicy
    deadline: timedelta
    lease: timedelta
    max_age: timedelta
    requires_result: bool
    open_to_tenants: bool = False
    shared_files: tuple[str, ...] = ()
    own_metrics: bool = False

    @property
    def tenant_field(self) -> str | None:
        """The payload's field that names the tenant, as requests spell it ("tenantId"); None where it has none."""
        for name in self.payload.tenant_fields():
            return self.payload.model_fields[name].alias or name
        return None

    def filled(self, payload: Mapping[str, Any], tenant: str | None) -> Mapping[str, Any]:
        """At the door: the payload as sent, its tenant field filled in where it was left out. Raises NotAllowed where
        it names another tenant than the job's.
        """
        field = self.tenant_field
        if field is None or tenant is None or payload.get(field, tenant) == tenant:
            return payload if field is None or tenant is None else {**payload, field: tenant}
        raise NotAllowed(
            f"payload.{field} is not the tenant of this job; leave it out",
            [Fault(_pointer((field,)), f"must be the job's tenant, {tenant}, or be left out")],
        )

    def accept(self, payload: Mapping[str, Any]) -> tuple[Payload | None, list[Fault]]:
        """At the door: the payload as its model, or what is wrong with it.

        Validated as JSON, as the worker will: the strict mode for Python objects refuses a date given as text.
        """
        try:
            text = json.dumps(whole(payload), ensure_ascii=False)
            return self.payload.model_validate_json(text, by_alias=True, by_name=False), []
        except ValidationError as e:
            return None, [Fault(_pointer(found["loc"]), in_words(found, self.payload)) for found in e.errors()]

    def owner(self, payload: Payload, tenant: str | None) -> str | None:
        """Whose job it is: the given tenant, or without one the tenant that its payload names. Raises NotAllowed for a
        payload that names another tenant, or what belongs to one.
        """
        named = next((getattr(payload, name) for name in self.payload.tenant_fields()), None)
        owner = named if tenant is None else tenant
        faults = list(payload.refused_to(owner))
        if named not in (None, owner):
            faults.insert(0, Fault(f"/{self.tenant_field}", f"must be the job's tenant, {owner}, or be left out"))
        if faults:
            said = "; ".join(f"/payload{fault.pointer}: {fault.detail}" for fault in faults)
            raise NotAllowed(said, [Fault("/payload" + fault.pointer, fault.detail) for fault in faults])
        return owner

    def parse(self, payload: str, version: int) -> Payload:
        """In the worker: the stored text as the handler's model, upgraded from its version where that is older.

        Raises DeterministicFailure: payload-invalid, or payload-version-unsupported.
        """
        try:
            if version != self.version:
                payload = json.dumps(self._upgraded(json.loads(payload), version))
            return self.payload.model_validate_json(payload, by_alias=True, by_name=False)
        except ValidationError as e:
            faults = "; ".join(f"{_pointer(f['loc'])}: {in_words(f, self.payload)}" for f in e.errors())
            raise DeterministicFailure(faults, code="payload-invalid") from e

    def supports(self, version: int) -> bool:
        """Whether a payload of this version can be run here."""
        return version == self.version or all(step in self.upgrades for step in range(version, self.version))

    def _upgraded(self, payload: dict[str, Any], version: int) -> dict[str, Any]:
        if not self.supports(version) or version > self.version:
            raise DeterministicFailure(
                f"payload version {version} of {self.name!r} is no longer supported; this worker takes {self.version}"
                + (f" and from {min(self.upgrades)}" if self.upgrades else ""),
                code="payload-version-unsupported",
            )
        for step in range(version, self.version):
            payload = self.upgrades[step](payload)
        return payload


def _pointer(loc: tuple[int | str, ...]) -> str:
    """A JSON pointer from the body of the request to the field (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in ("payload", *loc))
