"""What the API needs from the world; handler.py fills it with AWS, the tests with twins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lambdas.api.identity import Identity
from shared.jobs import Catalogue
from shared.operations.admit import Admission
from shared.ports import Clock, JobStore, Links, Log


@dataclass(frozen=True, kw_only=True)
class App:
    """exports_table: the name `POST /exports` writes its row under · admission: the quotas' gate
    entropy: so many random bytes
    """

    store: JobStore
    links: Links
    clock: Clock
    log: Log
    identity: Identity
    exports_table: str
    admission: Admission
    entropy: Callable[[int], bytes]
    catalogue: Catalogue
