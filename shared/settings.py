"""What each Lambda must be told, one class each, both directions: the stacks write the environment with
`to_environment`, the function reads it with `from_environment`. The names of the variables exist nowhere else, and
there are no fallback defaults: a missing setting stops the function at cold start, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

from shared.errors import SettingsError

PREFIX = "HOLDFAST_"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings every Lambda has.

    stage         "dev", "prod", "local": for logs
    prefix        begins every physical name of the stage; queue names are derived from it (environments hold 4 KB)
    jobs_table    name of the table of job records
    code_version  the deployed revision, kept in every record a worker touched
    """

    stage: str
    prefix: str
    jobs_table: str
    code_version: str

    def to_environment(self) -> dict[str, str]:
        """Environment variables for the function. Raises SettingsError for an empty value."""
        return {_variable(f.name): _filled(f.name, getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Raises SettingsError naming every variable that is absent or empty."""
        missing = [_variable(f.name) for f in fields(cls) if not environ.get(_variable(f.name))]
        if missing:
            raise SettingsError(
                f"{cls.__name__}: {', '.join(missing)} not set; deploy the pipeline stack, which writes them"
            )
        return cls(**{f.name: environ[_variable(f.name)] for f in fields(cls)})


@dataclass(frozen=True, kw_only=True)
class ApiSettings(Settings):
    """exports_table: the example's domain table · controls_table: the quotas' counts · bucket: results
    auth: "iam", "jwt" or "none"
    tenant_claim: the JWT claim that names the caller's tenant ("-" where auth is not jwt)
    """

    exports_table: str
    controls_table: str
    bucket: str
    auth: str
    tenant_claim: str


@dataclass(frozen=True, kw_only=True)
class RelaySettings(Settings):
    """parked_queue: name of the queue that takes outbox records no relay can read."""

    parked_queue: str


@dataclass(frozen=True, kw_only=True)
class PromoterSettings(Settings):
    """The promoter reads and writes job records, and nothing else."""


@dataclass(frozen=True, kw_only=True)
class TallySettings(Settings):
    """controls_table: where the counts stand."""

    controls_table: str


@dataclass(frozen=True, kw_only=True)
class WorkerSettings(Settings):
    """queue: the lane this worker serves, a name of shared/queues.py · bucket: where job files live
    controls_table: where the tenants' shares stand
    """

    queue: str
    controls_table: str
    bucket: str


def _variable(field: str) -> str:
    return PREFIX + field.upper()


def _filled(field: str, value: str) -> str:
    if not value:
        raise SettingsError(f"setting {field!r} is empty; every setting must be said")
    return value
