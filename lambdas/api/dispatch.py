"""One request, from event to answer: every way to fail becomes a problem document here, and one line is logged."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from lambdas.api import problems
from lambdas.api.app import App
from lambdas.api.gateway import Request, Response, from_event
from lambdas.api.pointer import shown
from lambdas.api.routes import find
from shared.errors import RequestRefused, StoreUnavailable

_LEVELS = {500: "error", 503: "warning"}


def answer(app: App, event: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to an HTTP API event (payload format 2.0). Never raises for anything a caller can send."""
    started = time.perf_counter()
    request = from_event(event)
    response, error = _respond(app, request)
    app.log.event(
        "answered",
        level=_LEVELS.get(response.status, "info"),
        error=error,
        method=request.method,
        path=shown(request.path),
        status=response.status,
        request=request.request_id,
        **app.identity.named(request),
        duration_ms=round((time.perf_counter() - started) * 1000, 1),
        **response.facts,
    )
    return response.to_event()


def _respond(app: App, request: Request) -> tuple[Response, Exception | None]:
    """The answer, and the error whose stack is news to the log."""
    try:
        route, request = find(request)
        return route.call(app, request), None
    except problems.Refused as refused:
        return refused.response(), None
    except RequestRefused as e:
        return problems.of_refusal(e).response(), None
    except StoreUnavailable as e:
        return problems.unavailable(request.method).response(), e
    except Exception as e:
        # API Gateway would make a bare 500 of it: a caller must be told whether to send the request again.
        return problems.internal(request.method, request.request_id).response(), e
