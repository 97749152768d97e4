"""The catalogue of job types: one file each in this folder, nothing to register elsewhere.

A file declares a payload model, and a handler under `@job_type`; see invoice_export.py. Heavy imports belong inside
the handler: a worker imports a file when the first job of its type arrives.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from shared.domain.retry import DEFAULT_POLICY, RetryPolicy
from shared.domain.run import Cancel, Continue, Defer, Run, StoredFile
from shared.errors import DeclarationError, DeterministicFailure, Fault
from shared.jobs._in_words import in_words
from shared.queues import QUEUES, Queue

FINISHING_MARGIN = timedelta(seconds=10)
"""What a lease has beyond the deadline: time to record how the attempt ended."""

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


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

    def accept(self, payload: Mapping[str, Any]) -> tuple[str, list[Fault]]:
        """At the door: the payload as it will be stored (compact JSON text), and what is wrong with it.

        Validated as JSON, as the worker will: the strict mode for Python objects refuses a date given as text.
        """
        try:
            text = json.dumps(payload, ensure_ascii=False)
            return self.payload.model_validate_json(text, by_alias=True, by_name=False).model_dump_json(
                by_alias=True
            ), []
        except ValidationError as e:
            return "", [Fault(_pointer(found["loc"]), in_words(found, self.payload)) for found in e.errors()]

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
) -> Callable[[Handler], Handler]:
    """Declare the decorated function as the handler of job type `name`; the payload model is the annotation of its
    first parameter. Without a `lease` it is the deadline and FINISHING_MARGIN. Raises DeclarationError, by name, for
    what cannot work.
    """
    lease = deadline + FINISHING_MARGIN if lease is None else lease
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

    def declare(handler: Handler) -> Handler:
        hints = get_type_hints(handler)
        parameters = [hint for parameter, hint in hints.items() if parameter != "return"]
        if len(parameters) != 2 or not (isinstance(parameters[0], type) and issubclass(parameters[0], Payload)):
            raise refuse("the handler takes (payload: <a Payload model>, run: Run), both annotated")
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
        )
        return handler

    return declare


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
