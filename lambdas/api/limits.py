"""What the door takes at most. What a job may carry is the operation's business (shared/domain/job.py)."""

from __future__ import annotations

from datetime import timedelta

MAX_BODY_BYTES = 300 * 1024
"""The 256 KB a payload may have, the other fields, and some room for escapes."""

MAX_DEPTH = 32
"""Containers within containers, the body itself included."""

MAX_INTEGER = 2**53
"""Beyond it a JavaScript client reads another number than was sent, without a word."""

MAX_FAULTS = 50
"""Faults one answer names; a body may have thousands."""

MAX_SHOWN = 300
"""Characters of a pointer or a sentence in an answer; a field's name may be as long as the body."""

RESULT_LINK_LIFETIME = timedelta(minutes=5)

STORE_RETRY_AFTER = timedelta(seconds=2)
"""What a 503 asks for: a throttled partition recovers within the second, a failing-over one within a few."""
