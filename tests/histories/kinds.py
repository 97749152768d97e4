"""The kinds of jobs in a history: what their handlers do, and how they may end by their own doing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol

from shared.domain.retry import FailureClass, RetryPolicy
from shared.domain.run import Cancel, Continue, Defer
from shared.domain.states import State
from shared.errors import DeterministicFailure, EnvironmentalFailure, TransientFailure
from shared.jobs import Ending, JobType, Payload
from shared.queues import QUEUES

POLICY = RetryPolicy((timedelta(), timedelta(seconds=5), timedelta(seconds=30)), spread=timedelta())
ATTEMPTS = POLICY.max_attempts
VERSION = 2
ROOMY, ROOMY_DEADLINE = "exports.month-end", timedelta(minutes=2)
DEFERRED_SECONDS = (20, 300, 20, 20)
"""More than there are attempts, so that one spent by a defer shows; one of them is a long wait."""


MANY_LOOKS = 25
"""More than the receives after which a wait on a standard lane makes a fresh message."""


class Work(Payload):
    """What every job here is given."""

    text: str = ""


class Stage(Protocol):
    """What a handler may do here besides its run object."""

    def pause(self, label: str) -> None:
        """Stand still until the history goes on."""

    def sleep(self, seconds: float) -> None:
        """Take time."""

    def effect(self, name: str, *, at_most_once: bool = False, fails: bool = False, refused: bool = False) -> None:
        """Call the provider under run.once. `fails`: it is done, and raises; `refused`: it says that it was not."""

    def times(self, what: str) -> int:
        """How often this job has asked so, this time included."""

    def crash(self) -> None:
        """End the process, without a word."""

    def hang(self) -> None:
        """Never return."""


Behaviour = Callable[[Stage, Any], Ending]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind. `ends`: the states it reaches where nothing goes wrong; `dies`: the classes of its own failures."""

    behave: Behaviour
    effects: tuple[str, ...] = ()
    ends: frozenset[State] = frozenset({State.COMPLETED})
    dies: frozenset[FailureClass] = frozenset()
    lease: timedelta = timedelta(seconds=20)
    deadline: timedelta = timedelta(seconds=10)
    requires_result: bool = False
    large: bool = False


def _plain(stage: Stage, run: Any) -> Ending:
    stage.pause("works")
    return None


def _one(stage: Stage, run: Any) -> Ending:
    stage.effect("charge")
    return None


def _two(stage: Stage, run: Any) -> Ending:
    stage.effect("charge")
    stage.effect("mail")
    return None


def _once_only(stage: Stage, run: Any) -> Ending:
    stage.effect("wire", at_most_once=True)
    return None


def _flaky(stage: Stage, run: Any) -> Ending:
    stage.effect("charge")
    if stage.times("tries") < ATTEMPTS:
        raise TransientFailure("busy")
    return None


def _flaky_effect(stage: Stage, run: Any) -> Ending:
    stage.effect("charge", fails=stage.times("tries") == 1)
    return None


def _flaky_once_only(stage: Stage, run: Any) -> Ending:
    stage.effect("wire", at_most_once=True, fails=stage.times("tries") == 1)
    return None


def _refused_once_only(stage: Stage, run: Any) -> Ending:
    stage.effect("wire", at_most_once=True, refused=stage.times("tries") == 1)
    return None


def _patient(stage: Stage, run: Any) -> Ending:
    stage.effect("charge")
    if stage.times("tries") == 1:
        raise TransientFailure("come back in ten minutes", retry_after=600)
    return None


def _hopeless(stage: Stage, run: Any) -> Ending:
    stage.pause("fails")
    raise TransientFailure("busy")


def _broken(stage: Stage, run: Any) -> Ending:
    stage.effect("charge")
    raise DeterministicFailure("no such tenant")


def _outage(stage: Stage, run: Any) -> Ending:
    if stage.times("looks") < 3:
        raise EnvironmentalFailure("off")
    stage.effect("charge")
    return None


def _defers(stage: Stage, run: Any) -> Ending:
    looks = stage.times("looks")
    if looks <= len(DEFERRED_SECONDS):
        return Defer(timedelta(seconds=DEFERRED_SECONDS[looks - 1]))
    stage.effect("charge")
    return None


def _restless(stage: Stage, run: Any) -> Ending:
    if stage.times("looks") <= MANY_LOOKS:
        return Defer(timedelta())
    stage.effect("charge")
    return None


def _far(stage: Stage, run: Any) -> Ending:
    if stage.times("tries") == 1:
        raise TransientFailure("come back in six hours", retry_after=6 * 3600)
    stage.effect("charge")
    return None


def _continues(stage: Stage, run: Any) -> Ending:
    place = int((run.checkpoint or {}).get("place", 0))
    stage.effect(f"part-{place}")
    return Continue({"place": place + 1}) if place < 2 else None


def _cancels(stage: Stage, run: Any) -> Ending:
    stage.pause("thinks")
    return Cancel("not wanted")


def _reports(stage: Stage, run: Any) -> Ending:
    for page in range(1, 5):
        stage.sleep(4)
        run.progress(page, 4, "pages")
    stage.effect("charge")
    return None


def _poison(stage: Stage, run: Any) -> Ending:
    stage.pause("is about to end its process")
    stage.crash()
    return None


def _crashes_once(stage: Stage, run: Any) -> Ending:
    stage.effect("charge")
    if stage.times("tries") == 1:
        stage.crash()
    return None


def _hangs_once(stage: Stage, run: Any) -> Ending:
    if stage.times("tries") == 1:
        stage.hang()
    stage.effect("charge")
    return None


SHARED_KEY = "exports/result"
"""Of all jobs' files, as two exports of one month share theirs."""


def _files(stage: Stage, run: Any) -> Ending:
    stage.pause("renders")
    stored: Ending = run.files.write(SHARED_KEY, run.job_id.encode(), "application/pdf")
    return stored


_DEAD, _CANCELLED = frozenset({State.DEAD}), frozenset({State.CANCELLED})
_CHARGE = ("charge",)

KINDS: Mapping[str, Kind] = {
    "plain": Kind(behave=_plain),
    "one": Kind(behave=_one, effects=_CHARGE),
    "two": Kind(behave=_two, effects=("charge", "mail")),
    "once-only": Kind(behave=_once_only, effects=("wire",)),
    "flaky": Kind(behave=_flaky, effects=_CHARGE),
    "flaky-effect": Kind(behave=_flaky_effect, effects=_CHARGE),
    "flaky-once-only": Kind(behave=_flaky_once_only, ends=_DEAD, dies=frozenset({FailureClass.UNKNOWN_OUTCOME})),
    "refused-once-only": Kind(behave=_refused_once_only, effects=("wire",)),
    "patient": Kind(behave=_patient, effects=_CHARGE),
    "hopeless": Kind(behave=_hopeless, ends=_DEAD, dies=frozenset({FailureClass.TRANSIENT})),
    "broken": Kind(behave=_broken, ends=_DEAD, dies=frozenset({FailureClass.DETERMINISTIC})),
    "outage": Kind(behave=_outage, effects=_CHARGE),
    "defers": Kind(behave=_defers, effects=_CHARGE),
    "restless": Kind(behave=_restless, effects=_CHARGE),
    "far": Kind(behave=_far, effects=_CHARGE),
    "continues": Kind(behave=_continues, effects=("part-0", "part-1", "part-2")),
    "cancels": Kind(behave=_cancels, ends=_CANCELLED),
    "reports": Kind(behave=_reports, effects=_CHARGE, lease=timedelta(seconds=9), deadline=timedelta(seconds=20)),
    "poison": Kind(behave=_poison, ends=_DEAD, dies=frozenset({FailureClass.STALLED})),
    "crashes-once": Kind(behave=_crashes_once, effects=_CHARGE),
    "hangs-once": Kind(behave=_hangs_once, effects=_CHARGE),
    "files": Kind(behave=_files, requires_result=True),
    "large": Kind(behave=_one, effects=_CHARGE, large=True),
}


@dataclass(frozen=True)
class Kinds:
    """Catalogue of one process: job types named "<kind>@<lane>". `lacks`: a kind this code version does not know;
    `version`: of the payload, the newest it knows; `moved`: the one type that it knows on ROOMY, with a deadline that
    no other lane has the time for.
    """

    play: Callable[[Kind, Any], Ending]
    lacks: str | None = None
    version: int = VERSION
    moved: str | None = None

    def get(self, name: str) -> JobType | None:
        """See Catalogue."""
        kind_name, _, lane = name.partition("@")
        if kind_name == self.lacks:
            return None
        kind = KINDS[kind_name]
        return JobType(
            name=name,
            queue=QUEUES[ROOMY if name == self.moved else lane],
            payload=Work,
            handler=lambda payload, run: self.play(kind, run),
            version=self.version,
            upgrades={version: lambda payload: payload for version in range(1, self.version)},
            policy=POLICY,
            deadline=ROOMY_DEADLINE if name == self.moved else kind.deadline,
            lease=kind.lease,
            max_age=timedelta(hours=24),
            requires_result=kind.requires_result,
            shared_files=(SHARED_KEY,),
        )

    def all(self) -> Mapping[str, JobType]:
        """See Catalogue."""
        return {}

    def older(self, lacks: str | None, version: int, moved: str | None) -> Kinds:
        """An earlier code version's."""
        return replace(self, lacks=lacks, version=version, moved=moved)
