"""A client as it should be: no answer, or 5xx, and it posts the same again under the same Idempotency-Key."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.crash.plan import Planned

THREADS = 6
TRIES = 15
ANSWER_SECONDS = 12.0
FIRST_WAIT, LONGEST_WAIT = 0.2, 3.0


@dataclass(slots=True)
class Answered:
    """What the API made of one key. `job_ids`: all that it ever named; `accepted_at`: of the first 202, epoch seconds;
    `refused`: a status that no repeat mends.
    """

    planned: Planned
    tries: int = 0
    job_ids: set[str] = field(default_factory=set)
    accepted_at: float | None = None
    refused: str = ""


def submit_all(
    planned: Iterable[Planned],
    port: int,
    provider: int,
    seconds: float,
    note: Callable[[Answered], None],
    stopped: threading.Event,
) -> None:
    """Post them, spread over this time; each is noted once it has its 202 or was given up, all at once if `stopped`."""
    jobs = list(planned)
    begun = time.monotonic()

    def one(place: int) -> None:
        stopped.wait(max(begun + seconds * place / len(jobs) - time.monotonic(), 0.0))
        note(_submit(jobs[place], port, provider, stopped))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(one, range(len(jobs))))


def _submit(planned: Planned, port: int, provider: int, stopped: threading.Event) -> Answered:
    answered, wait = Answered(planned), FIRST_WAIT
    while answered.tries < TRIES and not stopped.is_set():
        answered.tries += 1
        status, body = _post(planned, port, provider)
        if status == 202:
            answered.job_ids.add(json.loads(body)["jobId"])
            answered.accepted_at = time.time()
            return answered
        if 0 < status < 500:
            answered.refused = f"{status} {body[:300].decode(errors='replace')}"
            return answered
        stopped.wait(wait)
        wait = min(wait * 1.6, LONGEST_WAIT)
    return answered


def _post(planned: Planned, port: int, provider: int) -> tuple[int, bytes]:
    """Status and body; status 0 for no answer at all."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    headers = {"Content-Type": "application/json", "Idempotency-Key": planned.idempotency_key}
    try:
        connection.request("POST", "/jobs", json.dumps(planned.body(provider)), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()
