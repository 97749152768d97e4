"""One history: random choices under a budget, or a script of them; then a fair end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.histories.choices import ACTS, is_fault, options
from tests.histories.ending import end_fairly
from tests.histories.lives import Broken
from tests.histories.plan import Dice, Plan
from tests.histories.steps import perform
from tests.histories.threads import green_threads
from tests.histories.world import START, Action, World


@dataclass
class Told:
    """What one history came to. `script`: what was chosen, in order."""

    plan: Plan
    script: list[Action]
    broken: Broken | None
    rows: dict[str, int]
    faults: Counter[str] = field(default_factory=Counter)
    states: Counter[tuple[str, str]] = field(default_factory=Counter)
    story: list[str] | None = None


def random_history(plan: Plan, *, story: bool = False) -> Told:
    """Choose by the seed's dice."""
    dice = Dice(plan.seed * 2 + 1)

    def choose(world: World) -> list[Action]:
        script: list[Action] = []
        faults, acts = plan.budget, plan.acts
        for _ in range(plan.steps):
            action = dice.weighted(options(world, dice, faults, acts))
            faults -= is_fault(action)
            acts -= action[0] in ACTS
            script.append(action)
            _perform(world, action)
            if world.promises.broken is not None:
                break
        return script

    return _history(plan, choose, story)


def scripted_history(plan: Plan, script: Sequence[Action], *, story: bool = False) -> Told:
    """Let exactly this happen; what cannot happen any more is left out."""

    def follow(world: World) -> list[Action]:
        done: list[Action] = []
        for action in script:
            if _perform(world, action):
                done.append(action)
            if world.promises.broken is not None:
                break
        return done

    return _history(plan, follow, story)


def _perform(world: World, action: Action) -> bool:
    if world.story is not None:
        world.story.append(f"{(world.now - START).total_seconds():10.3f} {' '.join(map(str, action))}")
    done = perform(world, action)
    if done:
        world.happened.add("fault" if is_fault(action) else str(action[0]))
    elif world.story is not None:
        world.story.pop()
    return done


def _history(plan: Plan, act: Callable[[World], list[Action]], story: bool) -> Told:
    world = World(plan)
    world.story = [] if story else None
    with green_threads():
        try:
            script = act(world)
            if world.promises.broken is None:
                world.tell("from here on everything goes right")
                end_fairly(world)
        finally:
            world.end()
    told = Told(plan, script, world.promises.broken, world.promises.rows, story=world.story)
    told.faults.update(str(a[2]) if a[0] == "run" else str(a[0]) for a in script if is_fault(a) or a[0] in ACTS)
    told.states.update((job.type.partition("@")[0], job.state.value) for job in world.store.jobs())
    return told
