"""Which call answers which method and path.

Powertools' resolver was tried and left: it answers a wrong method with 404, keeps the current request in a class
attribute that threads share, and adds about 40 ms of CPU to a cold start (measured).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lambdas.api.app import App
from lambdas.api.calls import get_job, get_openapi, get_result, post_export, post_job
from lambdas.api.gateway import Request, Response
from lambdas.api.problems import BAD_METHOD, NO_ROUTE, Refused
from shared import routes

Call = Callable[[App, Request], Response]


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path template ("/jobs/{id}"), and the call behind them."""

    method: str
    path: str
    call: Call

    def match(self, path: str) -> dict[str, str] | None:
        """The path's parameters, None where the path is not this route's."""
        found = routes.pattern(self.path).fullmatch(path)
        return None if found is None else found.groupdict()


CALLS: dict[str, Call] = {
    "POST /jobs": post_job,
    "POST /exports": post_export,
    "GET /jobs/{id}": get_job,
    "GET /jobs/{id}/result": get_result,
    "GET /openapi.json": get_openapi,
}


def _route(line: str) -> Route:
    method, path = line.split(" ")
    return Route(method, path, CALLS[line])


ROUTES = tuple(_route(line) for line in routes.ROUTES)


def find(request: Request) -> tuple[Route, Request]:
    """The request's route, and the request with its path parameters. Raises Refused (404, 405 with Allow)."""
    here = [(route, parameters) for route in ROUTES if (parameters := route.match(request.path)) is not None]
    for route, parameters in here:
        if route.method == request.method:
            return route, replace(request, path_parameters=parameters)
    if not here:
        raise Refused(NO_ROUTE, "No resource has this path; GET /openapi.json lists them all.")
    allowed = ", ".join(sorted(route.method for route, _ in here))
    raise Refused(BAD_METHOD, f"This resource takes {allowed} only.", headers={"allow": allowed})
