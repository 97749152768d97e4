"""The clock, and structured logs through Powertools."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger


class SystemClock:
    """Clock of this machine."""

    def now(self) -> datetime:
        """See Clock. Cut to milliseconds, as the table keeps it, so that what was seen equals what is stored."""
        now = datetime.now(UTC)
        return now.replace(microsecond=now.microsecond // 1000 * 1000)


class PowertoolsLog:
    """Log as one JSON line per event. Fields travel with their line: `append_keys` would mix up the threads' jobs."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def event(self, name: str, /, *, level: str = "info", error: BaseException | None = None, **fields: Any) -> None:
        """See Log. A traceback goes with errors only: a retry that the policy foresees is no surprise."""
        why = {} if error is None else {"error": f"{type(error).__name__}: {error}"[:500]}
        stack = error if level == "error" else None
        getattr(self._logger, level)(name, extra=fields | why, exc_info=stack)
