"""Processes and threads that take turns when told: greenlets in the places of threads, so that a history decides who
goes on at every call that leaves a process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, Protocol

import greenlet

from shared.operations import relay
from shared.operations.run import batch, turns

REPEATED = "repeated by the SDK"
POLL = 0.1
"""Seconds between two looks of the operations at what no signal tells them."""


class Killed(BaseException):
    """The process is gone: this call and every later one of it."""


class Timed(Protocol):
    """Who tells the true time, whether threads still stop at every call, and whether the table is away."""

    now: datetime
    stepwise: bool
    away: bool

    def add_thread(self, thread: Thread) -> None: ...


@dataclass(eq=False)
class Process:
    """One invocation of a Lambda, or one client. `struck`: what happened to it that no healthy process meets.

    skew     its clock minus the true one
    about    what it was given: messages of a worker, a shard of the stream
    """

    name: str
    world: Timed
    skew: timedelta = timedelta()
    about: Any = None
    dead: bool = False
    struck: list[str] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    frozen_until: datetime | None = None
    _fault: str = ""

    def now(self) -> datetime:
        """Clock: what its own clock shows."""
        at = current().read_at = self.world.now + self.skew
        return at

    def start(self, name: str, act: Callable[[], Any]) -> Thread:
        """A new thread of this process."""
        thread = Thread(name, self, act)
        self.threads.append(thread)
        self.world.add_thread(thread)
        return thread

    def call(self, label: str, act: Callable[[], Any], refused: Callable[[], Exception] | None = None) -> Any:
        """A call to the outside: a stop before it and one after it. `refused` makes the error of an answer that never
        came; where it is None the call cannot go wrong.
        """
        thread = current()
        self._fault = fault = thread.stop(label, faults=refused is not None)
        if fault == "lost" and refused is not None:
            raise refused()
        answer = act()
        if fault == "repeat":
            thread.stop(f"{label}, {REPEATED}")
            answer = act()
        if fault == "unheard" and refused is not None:
            raise refused()
        thread.stop(f"after {label}")
        return answer

    def strikes(self, fault: str) -> bool:
        """This fault strikes the present call."""
        return self._fault == fault

    def end(self) -> None:
        """From outside: the process is gone, with every thread of it."""
        self.dead = True
        for thread in self.threads:
            thread.kill()


class Thread(greenlet.greenlet):
    """One thread. Where it stands: `label`; whether a fault can strike there: `faults`; what it waits for: `ready`."""

    def __init__(self, name: str, process: Process, act: Callable[[], Any]) -> None:
        super().__init__(parent=_hub())
        self.name, self.process, self._act = name, process, act
        self.label, self.faults = "start", False
        self.ready: Callable[[], bool] | None = None
        self.until: datetime | None = None
        self.frozen_until: datetime | None = None
        self.read_at: datetime | None = None
        self.over = False
        self.answer: Any = None
        self.error: BaseException | None = None

    def run(self, *_: Any) -> None:
        try:
            self.answer = self._act()
        except Killed:
            pass
        except BaseException as e:
            self.error = e
        self.over = True

    def go(self, fault: str = "") -> None:
        """Let it run to its next stop. Only the hub calls this."""
        self.switch(fault)

    def kill(self) -> None:
        """Unwind it: each call it still makes on its way raises again."""
        if not self.over and self is not greenlet.getcurrent():
            if self:
                self.throw(Killed())
            self.over = True

    def can_go(self, now: datetime) -> bool:
        """Neither ended, nor frozen, nor waiting for another."""
        if self.over:
            return False
        frozen = [at for at in (self.frozen_until, self.process.frozen_until) if at is not None and at > now]
        due = self.until is not None and self.until <= now
        return not frozen and (self.ready is None or due or self.ready())

    def stop(self, label: str, *, faults: bool = False) -> str:
        """Stand here until the history goes on with it; returns the fault that strikes."""
        if self.process.dead:
            raise Killed
        if not self.process.world.stepwise:
            return ""
        self.label, self.faults = label, faults
        fault: str = self.parent.switch()
        self.faults = False
        if self.process.dead:
            raise Killed
        return fault

    def wait(self, label: str, ready: Callable[[], bool], until: datetime | None) -> None:
        """Stand here until this holds, or that time comes."""
        if self.process.dead:
            raise Killed
        if not ready():
            self.label, self.ready, self.until = label, ready, until
            self.parent.switch()
            self.ready = self.until = None
        if self.process.dead:
            raise Killed

    def done(self) -> bool:
        """As concurrent.futures.Future."""
        return self.over

    def result(self) -> Any:
        """As concurrent.futures.Future."""
        if self.error is not None:
            raise self.error
        return self.answer


def current() -> Thread:
    """The thread that runs now."""
    thread = greenlet.getcurrent()
    assert isinstance(thread, Thread), "outside every process of the history"
    return thread


def _hub() -> greenlet.greenlet:
    found = greenlet.getcurrent()
    while found.parent is not None:
        found = found.parent
    return found


class Pool:
    """In the place of ThreadPoolExecutor."""

    def __init__(self, size: int) -> None:
        self._made: list[Thread] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._join(self._made)

    def submit(self, act: Callable[..., Any], *args: Any) -> Thread:
        """See ThreadPoolExecutor."""
        process = current().process
        name = f"{process.name}.{len(process.threads)}"
        self._made.append(process.start(name, lambda: act(*args)))
        return self._made[-1]

    def map(self, act: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """See ThreadPoolExecutor."""
        made = [self.submit(act, item) for item in items]
        self._join(made)
        return [thread.result() for thread in made]

    def shutdown(self, *, wait: bool = True) -> None:
        """See ThreadPoolExecutor."""

    def _join(self, made: Sequence[Thread]) -> None:
        current().wait("its threads", lambda: all(thread.over for thread in made), None)


def wait(running: set[Thread], *, timeout: float | None, return_when: str) -> tuple[set[Thread], set[Thread]]:
    """In the place of concurrent.futures.wait, FIRST_COMPLETED."""
    thread = current()
    until = None if timeout is None else thread.process.world.now + timedelta(seconds=_coarse(timeout))
    thread.wait("its jobs", lambda: any(one.over for one in running), until)
    ended = {one for one in running if one.over}
    return ended, running - ended


def _coarse(timeout: float) -> float:
    """Polls of a part of a second become whole ones: nothing here is faster."""
    return timeout if timeout > POLL else 1.0


class Condition:
    """In the place of threading.Condition. Turns change hands only at stops, so its lock needs none."""

    def __init__(self) -> None:
        self._changes = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, timeout: float) -> None:
        """See threading.Condition."""
        seen, thread = self._changes, current()
        until = thread.process.world.now + timedelta(seconds=_coarse(timeout))
        thread.wait("its turn", lambda: self._changes > seen, until)

    def notify_all(self) -> None:
        """See threading.Condition."""
        self._changes += 1


def _monotonic() -> float:
    return current().process.world.now.timestamp()


@contextmanager
def green_threads() -> Iterator[None]:
    """The operations that start threads start ours."""
    places: tuple[tuple[Any, str, Any], ...] = (
        (batch, "ThreadPoolExecutor", Pool),
        (batch, "wait", wait),
        (relay, "ThreadPoolExecutor", Pool),
        (turns, "time", SimpleNamespace(monotonic=_monotonic)),
        (turns, "threading", SimpleNamespace(Condition=Condition, get_ident=lambda: id(current()))),
    )
    kept = [(module, name, getattr(module, name)) for module, name, _ in places]
    try:
        for module, name, ours in places:
            setattr(module, name, ours)
        yield
    finally:
        for module, name, theirs in kept:
            setattr(module, name, theirs)
