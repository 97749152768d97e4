"""Every port that this project opens on 127.0.0.1 can be reached by every web page its reader has open."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("local", "lambdas", "shared", "stacks", "tests", "benchmarks")
OPENS = re.compile(r"\b(\w*(HTTP|TCP|UDP)Server\b|create_server\(|start_server\(|\.listen\()")
GUARDED = re.compile(r"\b(GuardedHandler|refusal_of_api|refusal_of_emulator)\b")

NOTHING_BEHIND = {
    "benchmarks/job/stub.py": "grants every call of one benchmark",
    "tests/receiver.py": "keeps what it is sent for one test",
    "tests/e2e/browser.py": "is the page's own site",
    "tests/e2e/test_front.py": "stands in for the API for one test",
    "tests/e2e/test_local_cloud.py": "holds a port and answers nothing",
    "tests/conformance/test_files.py": "answers S3's errors for one test",
    "tests/integration/test_api_dynamodb.py": "refuses DynamoDB's calls for one test",
    "tests/unit/test_deliver_webhook.py": "holds a port and answers nothing",
    "tests/unit/test_not_done.py": "holds a port and answers nothing",
}
"""Servers that nothing stands behind: a page that finds one, while it lives, changes one test's own record."""


def test_a_server_with_something_behind_it_refuses_web_pages() -> None:
    opening = {
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if path != Path(__file__) and OPENS.search(source := path.read_text()) and not GUARDED.search(source)
    }

    assert opening == set(NOTHING_BEHIND)
