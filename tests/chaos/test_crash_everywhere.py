"""Every process of a job's way, killed before and after every call it makes, one kill a history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from shared.domain.job import EFFECT_COMPLETED, Job
from shared.domain.retry import FailureClass
from shared.domain.run import Cancel, Continue, Defer
from shared.domain.states import State
from shared.errors import DeterministicFailure, TransientFailure
from tests.builders import a_job
from tests.chaos.cloud import Cloud, Killer


@dataclass
class Provider:
    """What the effects do to the world."""

    calls: list[str] = field(default_factory=list)
    looks: int = 0

    def do(self, name: str) -> Callable[[], str]:
        return lambda: self.calls.append(name) or f"{name}-ref"  # type: ignore[func-returns-value]


Handler = Callable[[Provider, Any], Any]


def plain(provider: Provider, run: Any) -> None:
    provider.calls.append("work")


def two_effects(provider: Provider, run: Any) -> None:
    run.once("charge", provider.do("charge"))
    run.once("mail", provider.do("mail"))


def short_retry(provider: Provider, run: Any) -> None:
    run.once("charge", provider.do("charge"))
    if run.attempt == 1:
        raise TransientFailure("busy")


def long_retry(provider: Provider, run: Any) -> None:
    run.once("charge", provider.do("charge"))
    if run.attempt == 1:
        raise TransientFailure("busy", retry_after=600)


def defers(provider: Provider, run: Any) -> Defer | None:
    provider.looks += 1
    return Defer(timedelta(seconds=300 if provider.looks == 1 else 20)) if provider.looks < 3 else None


def continues(provider: Provider, run: Any) -> Continue | None:
    page = (run.checkpoint or {"page": 0})["page"] + 1
    run.once(f"page {page}", provider.do(f"page {page}"))
    return None if page == 3 else Continue({"page": page})


def dies(provider: Provider, run: Any) -> None:
    run.once("charge", provider.do("charge"))
    raise DeterministicFailure("row 7", code="row-invalid")


def cancels(provider: Provider, run: Any) -> Cancel:
    return Cancel("paid meanwhile")


def at_most_once(provider: Provider, run: Any) -> None:
    run.once("notify-bank", provider.do("notify-bank"), at_most_once=True)


KINDS: dict[str, tuple[Handler, State]] = {
    handler.__name__: (handler, state)
    for handler, state in (
        (plain, State.COMPLETED),
        (two_effects, State.COMPLETED),
        (short_retry, State.COMPLETED),
        (long_retry, State.COMPLETED),
        (defers, State.COMPLETED),
        (continues, State.COMPLETED),
        (dies, State.DEAD),
        (cancels, State.CANCELLED),
        (at_most_once, State.COMPLETED),
    )
}


def history(kind: str, killer: Killer) -> tuple[Job, Provider, Cloud]:
    """One job of this kind from submit to its end."""
    provider, handler = Provider(), KINDS[kind][0]
    cloud = Cloud(lambda payload, run: handler(provider, run), killer)
    job = a_job()
    cloud.submit(job)
    return cloud.go_on(job.job_id), provider, cloud


def check(kind: str, job: Job, provider: Provider, cloud: Cloud) -> None:
    if kind == "at_most_once":
        assert job.state is State.COMPLETED or job.error_class == FailureClass.UNKNOWN_OUTCOME
        assert len(provider.calls) <= 1, "an at-most-once effect began twice"
        assert job.state is State.DEAD or provider.calls == ["notify-bank"], "completed without its effect"
    else:
        assert job.state is KINDS[kind][1], job
    for name, effect in job.effects.items():
        if effect.status == EFFECT_COMPLETED:
            assert 1 <= provider.calls.count(name) <= 2, "more often than one interrupted try and one whole one"
    marked = [ring for ring in cloud.dead_letters if ring.dispatch == job.dispatch]
    assert bool(marked) == (job.state is State.DEAD), "the DLQ tells the truth"
    assert job.attempts <= job.max_attempts
    assert job.stalls <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_wherever_a_process_dies_the_job_ends_as_it_would_have(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    undisturbed = Killer()
    check(kind, *history(kind, undisturbed))
    calls = undisturbed.calls
    for number in range(1, len(calls) + 1):
        for before in (True, False):
            killer = Killer(at_call=number, before=before)
            try:
                check(kind, *history(kind, killer))
            except AssertionError as e:
                when = "before" if before else "after"
                raise AssertionError(f"killed {when} call {number} ({calls[number - 1]}): {e}") from e
            assert len(killer.calls) >= number, "the kill never came"
    with capsys.disabled():
        print(f"\n{kind}: {2 * len(calls)} crash points over {', '.join(sorted(set(calls)))}")


def test_a_recorded_effect_is_not_repeated_once_its_record_is_written() -> None:
    """Killed after every call that follows the effect's record, the provider has been called once."""
    undisturbed = Killer()
    history("two_effects", undisturbed)
    finishes = [n for n, name in enumerate(undisturbed.calls, 1) if name == "apply"]
    third_apply = finishes[3]  # mark, lease, start charge, finish charge
    for number in range(third_apply + 1, len(undisturbed.calls) + 1):
        _, provider, _ = history("two_effects", Killer(at_call=number))
        assert provider.calls.count("charge") == 1
