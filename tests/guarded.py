"""A test's own server on 127.0.0.1 that pages in a browser on this machine cannot use: the base of its handler."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

from local.guard import refusal_of_api


class GuardedHandler(BaseHTTPRequestHandler):
    """Refuses, as the local address does, before any `do_…` is called."""

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        refused = refusal_of_api(self.headers.items(), origins=())
        if refused is not None:
            self.close_connection = True
            self.send_error(refused.status, refused.title, refused.detail)
        return refused is None
