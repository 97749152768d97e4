"""The catalogue of job types: one file each in this folder, nothing to register elsewhere.

A file declares a payload model, and a handler under `@job_type`; see invoice_export.py. Heavy imports belong inside
the handler: a worker imports a file when the first job of its type arrives.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import get_type_hints

from shared.domain.retry import DEFAULT_POLICY, RetryPolicy
from shared.errors import DeclarationError
from shared.jobs._job_type import Ending, Handler, JobType, Upgrade
from shared.jobs._payload import Payload, TenantId
from shared.queues import QUEUES

LEASE_BEYOND_DEADLINE = timedelta(seconds=10)
"""What a lease has beyond the deadline: time to record how the attempt ended."""

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_TENANT_WORD = re.compile(r"(^|_)tenant(_|$)")


__all__ = [
    "LEASE_BEYOND_DEADLINE",
    "Catalogue",
    "Ending",
    "Handler",
    "JobType",
    "Payload",
    "TenantId",
    "Upgrade",
    "job_type",
]


def job_type(
    name: str,
    *,
    queue: str,
    version: int = 1,
    upgrades: Mapping[int, Upgrade] | None = None,
    policy: RetryPolicy = DEFAULT_POLICY,
    deadline: timedelta = timedelta(seconds=20),
    lease: timedelta | None = None,
    max_age: timedelta = timedelta(hours=24),
    requires_result: bool = False,
    open_to_tenants: bool = False,
    shared_files: tuple[str, ...] = (),
    own_metrics: bool = False,
) -> Callable[[Handler], Handler]:
    """Declare the decorated function as the handler of job type `name`; the payload model is the annotation of its
    first parameter. Without a `lease` it is the deadline and LEASE_BEYOND_DEADLINE. Raises DeclarationError, by name,
    for what cannot work.
    """
    lease = deadline + LEASE_BEYOND_DEADLINE if lease is None else lease
    upgrades = dict(upgrades or {})

    def refuse(why: str) -> DeclarationError:
        return DeclarationError(f"job type {name!r}: {why}")

    if not _NAME.fullmatch(name) or len(name) > 40:
        raise refuse("a name is at most 40 lower-case letters and digits, joined by single dashes")
    if queue not in QUEUES:
        raise refuse(f"queue {queue!r} is not declared in shared/queues.py; there are {', '.join(QUEUES)}")
    if version < 1:
        raise refuse(f"version {version}: payload versions count from 1")
    if wrong := sorted(set(upgrades) - set(range(1, version))):
        raise refuse(f"an upgrade from version {wrong[0]} leads nowhere: this file declares version {version}")
    if deadline < timedelta(seconds=1):
        raise refuse(f"a deadline of {deadline} leaves no time to run")
    if deadline > QUEUES[queue].deadline:
        raise refuse(f"a deadline of {deadline} is beyond the {QUEUES[queue].deadline} of queue {queue!r}")
    if lease < timedelta(seconds=5):
        raise refuse(f"a lease of {lease} ends before a worker could renew it; give at least 5 s")
    if lease > QUEUES[queue].function_timeout:
        ends = QUEUES[queue].function_timeout
        raise refuse(f"a lease of {lease} outlives the worker of {queue!r}, which ends after {ends}")
    if max_age < timedelta(minutes=1) or max_age > timedelta(days=14):
        raise refuse(f"max_age {max_age} is outside 1 minute..14 days")
    reached = {*QUEUES[queue].reads, *QUEUES[queue].writes}
    if denied := [prefix for prefix in shared_files if not prefix.startswith(tuple(reached)) or prefix[-1] != "/"]:
        raise refuse(f"queue {queue!r} may not reach {denied[0]!r}; it has {', '.join(sorted(reached)) or 'no files'}")

    def declare(handler: Handler) -> Handler:
        hints = get_type_hints(handler)
        parameters = [hint for parameter, hint in hints.items() if parameter != "return"]
        if len(parameters) != 2 or not (isinstance(parameters[0], type) and issubclass(parameters[0], Payload)):
            raise refuse("the handler takes (payload: <a Payload model>, run: Run), both annotated")
        if why := _tenant_forgotten(parameters[0]):
            raise refuse(why)
        handler.job_type = JobType(  # type: ignore[attr-defined]
            name=name,
            queue=QUEUES[queue],
            payload=parameters[0],
            handler=handler,
            version=version,
            upgrades=upgrades,
            policy=policy,
            deadline=deadline,
            lease=lease,
            max_age=max_age,
            requires_result=requires_result,
            open_to_tenants=open_to_tenants,
            shared_files=shared_files,
            own_metrics=own_metrics,
        )
        return handler

    return declare


def _tenant_forgotten(payload: type[Payload]) -> str | None:
    """What would leave a tenant unchecked: nobody would compare the field with the job's tenant."""
    declared = payload.tenant_fields()
    if len(declared) > 1:
        return f"{' and '.join(declared)} are both TenantId; a payload names one tenant"
    if alike := [name for name in payload.model_fields if _TENANT_WORD.search(name) and name not in declared]:
        return f"field {alike[0]!r} names a tenant; declare it as TenantId, so that it is held to the job's own"
    if declared and not payload.model_fields[declared[0]].is_required():
        return f"field {declared[0]!r} has a default; a TenantId has none, the door fills it in"
    return None


class Catalogue:
    """Job types by name, found by file name: type "invoice-export" lives in invoice_export.py."""

    def __init__(self, package: str = __name__) -> None:
        self._package = package
        self._known: dict[str, JobType] = {}

    def get(self, name: str) -> JobType | None:
        """The job type, its file imported on first use; None when no file declares it. Raises DeclarationError when
        the file is there and cannot be used.
        """
        if name in self._known:
            return self._known[name]
        module = f"{self._package}.{name.replace('-', '_')}"
        if not _NAME.fullmatch(name) or importlib.util.find_spec(module) is None:
            return None
        self._known[name] = found = self._declared_in(module)
        return found

    def own_metrics(self, name: str) -> bool:
        """Whether this type has asked to be counted apart; one that was never loaded here has not."""
        return name in self._known and self._known[name].own_metrics

    def all(self) -> Mapping[str, JobType]:
        """Every job type, by name."""
        package = importlib.import_module(self._package)
        names = [m.name.replace("_", "-") for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")]
        return {name: found for name in sorted(names) if (found := self.get(name)) is not None}

    def _declared_in(self, module: str) -> JobType:
        members = vars(importlib.import_module(module)).values()
        types: list[JobType] = [m.job_type for m in members if isinstance(getattr(m, "job_type", None), JobType)]
        expected = module.rpartition(".")[2].replace("_", "-")
        if [t.name for t in types] != [expected]:
            found = ", ".join(t.name for t in types) or "none"
            raise DeclarationError(f"{module}: one file declares one job type, here {expected!r}; found {found}")
        return types[0]
