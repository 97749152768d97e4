"""The emulator behind its guard, in the emulator's own process and environment: run by path, never imported."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

# Last, so that it hides nothing: this environment knows no project.
sys.path.append(str(Path(__file__).resolve().parents[1]))

import ministack.app

from local.guard import refusal_of_emulator

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_emulator = ministack.app.app


async def guarded(scope: Message, receive: Receive, send: Send) -> None:
    """The emulator as an ASGI application that answers this machine's programs only."""
    if scope["type"] == "lifespan":
        await _emulator(scope, receive, send)
        return
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    target = f"{scope['raw_path'].decode('latin-1')}?{scope['query_string'].decode('latin-1')}"
    refused = refusal_of_emulator(scope.get("method", "GET"), target, headers)
    if refused is None:
        await _emulator(scope, receive, send)
    elif scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
    else:
        body = refused.document()
        head = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
        closing = (b"connection", b"close")  # the body was not read
        await send({"type": "http.response.start", "status": refused.status, "headers": [*head, closing]})
        await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    ministack.app.app = guarded  # its main() serves whatever bears this name
    ministack.app.main()
