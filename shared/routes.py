"""What the API answers to, said once: for API Gateway, for the function behind it, for the local cloud's address."""

from __future__ import annotations

import re
from functools import cache

ROUTES = ("POST /jobs", "POST /exports", "GET /jobs/{id}", "GET /jobs/{id}/result", "GET /openapi.json")


@cache
def pattern(path: str) -> re.Pattern[str]:
    """Matches what a path template ("/jobs/{id}") stands for, its parameters as groups."""
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))


PATHS = tuple(pattern(path) for path in sorted({route.split(" ")[1] for route in ROUTES}))


def is_path(path: str) -> bool:
    """Whether any route has this path, whatever the method."""
    return any(template.fullmatch(path) for template in PATHS)
