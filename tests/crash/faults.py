"""Answers of AWS that are late, refused or lost, on the way between the functions and the emulator (microburst)."""

from __future__ import annotations

import http.client
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from local.place import LocalCloudError, Place
from local.ports import free_above
from local.processes import end, start, undisturbed

Rule = Mapping[str, Any]

EFFECTS = "effects"
REFUSED, ABORTED, LOST = "refused", "aborted", "answer-lost"
USUAL = {REFUSED: 0.03, ABORTED: 0.02, LOST: 0.04}
"""Of each call. The SDK tries three times, so such faults alone hardly ever reach our code …"""

SQUALL = {REFUSED: 0.35, ABORTED: 0.2, LOST: 0.45}
"""… so now and then, for a moment, most calls fail, and what they fail with is what the code must live with."""

EFFECT = {REFUSED: 0.2, ABORTED: 0.05, LOST: 0.25}
"""Of each write about an effect, all the time: every eighth fails in all three tries."""

_ABOUT_AN_EFFECT: Rule = {"operation": "UpdateItem", "body": 'ExpressionAttributeNames."#effect_name"'}
"""The name that adapters/expressions.py gives the entry."""

SQUALL_SECONDS, LULL_SECONDS = 1.2, (4.0, 9.0)
REFUSALS = {
    "dynamodb": {"code": "ProvisionedThroughputExceededException", "status": 400},
    # Not RequestThrottled: the proxy gives that a prefix which AWS does not, and the SDK then never tries again.
    "sqs": {"code": "ServiceUnavailable", "status": 503},
}
START_SECONDS = 15.0


def rules(odds: Mapping[str, float]) -> list[Rule]:
    """Per service a refusal, a connection aborted before the call was passed on, and an answer lost after it took
    effect; the same for each write about an effect, more often. The proxy asks them in turn, so each is made as likely
    as it is meant to be.
    """
    of_effects = _of_service("dynamodb", EFFECT, _ABOUT_AN_EFFECT)
    return [*of_effects, *(rule for service in REFUSALS for rule in _of_service(service, odds, {}))]


def _of_service(service: str, odds: Mapping[str, float], which: Rule) -> list[Rule]:
    written: list[Rule] = []
    left = 1.0
    for kind, probability in odds.items():
        what = _effect(kind, REFUSALS[service])
        written.append({"service": service, "probability": probability / left, **which, **what})
        left -= probability
    return written


def _effect(kind: str, refusal: Rule) -> Rule:
    effects: Mapping[str, Rule] = {
        REFUSED: {"error": refusal},
        ABORTED: {"reset": True},
        LOST: {"response": {"abort_bytes": 0}},
    }
    return effects[kind]


class Faults:
    """A running proxy."""

    def __init__(self, port: int) -> None:
        self.port, self._of_effects = port, set[int]()

    @property
    def url(self) -> str:
        """What functions take for AWS."""
        return f"http://127.0.0.1:{self.port}"

    def set_rules(self, to: Sequence[Rule]) -> None:
        """From now on these and no others."""
        set_ = self._ask("POST", "rules", to)
        self._of_effects |= {rule["id"] for rule in set_ if "body" in rule}

    def fired(self) -> Counter[str]:
        """What was done since the last question, by service and kind: "dynamodb answer-lost", "effects refused"."""
        events = self._ask("GET", "fired?limit=100000")
        self._ask("DELETE", "fired")
        return Counter(f"{self._of(event)} {_kind(event['action'])}" for event in events)

    def _of(self, event: Mapping[str, Any]) -> str:
        return EFFECTS if event["rule_id"] in self._of_effects else str(event["service"])

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            raw = None if body is None else json.dumps(body)
            connection.request(method, f"/_microburst/{path}", raw, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"the fault proxy answered {answer.status} to {method} {path}: {said[:300]!r}")
            return json.loads(said)
        finally:
            connection.close()


def _kind(action: str) -> str:
    if action.startswith("error"):
        return REFUSED
    return ABORTED if action.startswith("reset") else LOST


@contextmanager
def faults(place: Place, upstream: str, seed: int) -> Iterator[Faults]:
    """The proxy, passing everything on unharmed until it is told otherwise."""
    python = place.project / ".build" / "faults" / "bin" / "python"
    if not python.exists():
        raise LocalCloudError(f"{python} is not there; run make crashtest, which sets it up")
    proxy = Faults(free_above(place.port + 20))
    options = ["--upstream", upstream, "--host", "127.0.0.1", "--port", str(proxy.port)]
    command = [str(python), "-I", str(Path(__file__).with_name("guarded_proxy.py")), str(seed), *options]
    with undisturbed():
        process = start("faults", command, env={"PATH": sys.prefix}, cwd=place.home, log=place.log("faults"))
    try:
        _wait(proxy)
        _check_that_pages_are_refused(proxy)
        yield proxy
    finally:
        end(process)


def _wait(proxy: Faults) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            proxy.set_rules([])
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def _check_that_pages_are_refused(proxy: Faults) -> None:
    """The guard is hooked into somebody else's program: one that has lost it shall not run for half an hour."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    with closing(connection):
        connection.request("POST", "/_microburst/rules", b"[]", {"Origin": "https://evil.example"})
        if (status := connection.getresponse().status) != 403:
            raise RuntimeError(f"the fault proxy answers web pages (with {status}): see tests/crash/guarded_proxy.py")


@contextmanager
def bad_weather(proxy: Faults, dice: random.Random) -> Iterator[None]:
    """The usual faults, with squalls, until the end of the block."""
    over = threading.Event()

    def blow() -> None:
        while not over.wait(dice.uniform(*LULL_SECONDS)):
            proxy.set_rules(rules(SQUALL))
            over.wait(SQUALL_SECONDS)
            proxy.set_rules(rules(USUAL))

    proxy.set_rules(rules(USUAL))
    thread = threading.Thread(target=blow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        proxy.set_rules([])
