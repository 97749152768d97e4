"""What getaddrinfo's error says: that there is no such name, or that nobody could tell."""

from __future__ import annotations

from collections.abc import Iterator

_NO_SUCH_NAME = frozenset({-2, -5, 8, 7})  # EAI_NONAME and EAI_NODATA, as Linux and as macOS number them


def is_unknown_name(error: BaseException) -> bool | None:
    """True: the name servers know no such name. False: they could not say (EAI_AGAIN and the like). None: the error
    has nothing to do with names. Looks into what it was raised from, because HTTP clients wrap it.

    Some resolvers say "no such name" in an outage too (systemd #15076), so this names a failure and never ends a job.
    """
    found = next((one for one in _causes(error) if type(one).__name__ == "gaierror"), None)
    return None if found is None else getattr(found, "errno", None) in _NO_SUCH_NAME


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__
