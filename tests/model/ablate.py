"""Every part of the table and every rule, missing alone: it is missed, or its reason is given in explained.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.domain.states import SUBMIT
from tests.model import submit
from tests.model.explained import EXPLAINED, Reason
from tests.model.hints import DEEP, SOON
from tests.model.hunt import ALL, Hunt, hunt
from tests.model.profiles import PROFILES
from tests.model.rules import RULES

HUNT_STATES, LOOK_STATES, DEEP_STATES = 60_000, 15_000, 400_000
"""States of one hunt in one configuration: where there must be a counterexample, where there should be none, and where
it lies deep.
"""


LOOKS = 8
"""Configurations of one hunt: those where the part makes a difference soonest."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of one part. fault: why that is not enough."""

    name: str
    found: Hunt
    reason: Reason | None = None
    covered: Hunt | None = None
    fault: str = ""

    @property
    def states(self) -> int:
        """Explored for it."""
        return self.found.states + (0 if self.covered is None else self.covered.states)


def names() -> Sequence[str]:
    """Every part and every rule."""
    return (*ALL, *RULES)


def where(name: str, told_apart: Mapping[str, Mapping[str, int]]) -> Sequence[str]:
    """The configurations to hunt in, those first where it makes a difference soonest.

    told_apart  by configuration: the parts that make a difference there, and how soon
    """
    if name.startswith(f"{SUBMIT.name}:"):
        return tuple(submit.CASES)
    if name in RULES:
        return (SOON[name],) if name in SOON else tuple(PROFILES)
    apart = {profile: soon[name] for profile, soon in told_apart.items() if name in soon}
    return sorted(apart, key=lambda profile: (profile != SOON.get(name), apart[profile]))


def judge(name: str, profiles: Sequence[str]) -> Verdict:
    """Hunt for its counterexample; where there is none, look for the reason and check what it says."""
    reason = next((reason for reason in EXPLAINED if reason.explains(name)), None)
    if name in DEEP:
        found = hunt([name], [DEEP[name]], DEEP_STATES)
    else:
        found = hunt([name], profiles[:LOOKS], HUNT_STATES if reason is None else LOOK_STATES)
    if found.broken:
        fault = "explained.py says that it has no counterexample" if reason is not None else ""
        return Verdict(name, found, fault=fault)
    if reason is None:
        return Verdict(name, found, fault="no counterexample, and no reason in explained.py")
    if not reason.beside:
        return Verdict(name, found, reason)
    covered = hunt(reason.combined(name), [reason.profile], HUNT_STATES)
    fault = "" if covered.broken else f"no counterexample without {' + '.join(reason.combined(name))} either"
    return Verdict(name, found, reason, covered, fault)
