"""A real browser, without a driver: it is shown a page, and the page reports to the server that it came from."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
ABSENT = "chromium not found: browser tests skipped (apt-get install chromium)"
ELSEWHERE = "evil.example"
"""The site the pages come from. Only the browser is told that it is this machine."""

PATIENCE_SECONDS = 60.0
_QUIET = (
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)


def program() -> str | None:
    """The browser's path; None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Site(ThreadingHTTPServer):
    """One page at `url`, and every request that reached this port; what the page posts to /report is a report."""

    daemon_threads = True

    def __init__(self, page: str = "") -> None:
        self.page, self.reports, self.heard = page, queue.Queue[Any](), list[tuple[str, str]]()
        super().__init__(("127.0.0.1", 0), _Serve)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{ELSEWHERE}:{self.port}/"


class _Serve(BaseHTTPRequestHandler):
    server: Site

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.heard.append((self.command, self.path))
        if self.path == "/report":
            self.server.reports.put(json.loads(body))
        page = self.server.page.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    do_GET = do_OPTIONS = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield site
    finally:
        site.shutdown()
        thread.join()
        site.server_close()


def report_of(site: Site, home: Path) -> Any:
    """What the site's page reports once a browser shows it."""
    shown = subprocess.Popen(
        _command(home, site.url), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return site.reports.get(timeout=PATIENCE_SECONDS)
    finally:
        os.killpg(shown.pid, signal.SIGKILL)
        shown.wait()


def shown_at_last(url: str, home: Path) -> str:
    """The document that the tab ends at, wherever pages have led it."""
    waits = ("--virtual-time-budget=10000", "--dump-dom")
    done = subprocess.run(
        _command(home, *waits, url), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    return done.stdout


def _command(home: Path, *more: str) -> list[str]:
    browser = program()
    assert browser is not None, ABSENT
    # Root, as in a container, has no use for Chromium's own sandbox, and Chromium does not start with it.
    alone = ("--no-sandbox",) if os.geteuid() == 0 else ()
    resolver = f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1"
    return [browser, *_QUIET, *alone, resolver, f"--user-data-dir={home}", *more]
