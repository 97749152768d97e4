"""microburst with seeded dice, behind the emulator's guard: run by path, in an environment of its own, never imported.

What a page could send it would reach the emulator in its name, or change its rules.
"""

from __future__ import annotations

import logging
import random
import sys
from pathlib import Path
from typing import Any

# Last, so that it hides nothing: this environment knows no project.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from aiohttp import web
from microburst.cli import main

from local.guard import refusal_of_emulator

_serve = web.run_app


@web.middleware
async def guarded(request: web.Request, handler: Any) -> web.StreamResponse:
    """Before the proxy's own rules and controls."""
    refused = refusal_of_emulator(request.method, request.raw_path, list(request.headers.items()))
    if refused is None:
        answer: web.StreamResponse = await handler(request)
        return answer
    return web.Response(status=refused.status, body=refused.document(), content_type="application/problem+json")


def serve(app: web.Application, **options: Any) -> None:
    """In place of aiohttp's, which microburst calls."""
    app.middlewares.append(guarded)
    _serve(app, **options)


if __name__ == "__main__":
    # It draws from Python's own dice, which no option of it seeds; its request log costs more than all else.
    random.seed(int(sys.argv.pop(1)))
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    web.run_app = serve
    sys.exit(main())
