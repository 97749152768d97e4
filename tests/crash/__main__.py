"""`make crashtest`: hundreds of jobs on the real local cloud while its processes are killed and AWS's answers are
spoiled. Ends with 1 when a promise was broken, with what became of the jobs concerned.

Every function runs as deployed. What drives it from outside: the clients, the kills, the faults, and the sweeper's
repairs, which are made from here every few seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from local.place import LocalCloudError, Place
from local.up import take_down
from shared.adapters.dynamodb import DynamoJobStore
from shared.domain.states import FINAL
from tests.crash import sight
from tests.crash.faults import faults
from tests.crash.judging import judge
from tests.crash.kills import Killer
from tests.crash.ledger import Ledger
from tests.crash.phases import PHASES, Scene, run_phase
from tests.crash.project import deployed, place_in, send_through
from tests.crash.provider import provider
from tests.crash.sweeping import Sweeping
from tests.e2e.cloud import Cloud

PREFIX = "holdfast-crash-"
DRAIN_SECONDS = 75.0
"""For the messages of finished jobs to show again and be dropped, and the last dead to reach their DLQ."""


def main() -> int:
    """Returns the exit status."""
    given = _arguments()
    if given.end is not None:
        return _end(given.end)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended then too
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    print(f"seed {given.seed}: {given.jobs} jobs; the sweeper's repairs are driven by this test every few seconds")
    try:
        place = place_in(folder)
        try:
            cloud = deployed(place, print)
            return _test(cloud, given)
        finally:
            if given.keep:
                print(f"left up: {place.url}, logs in {place.home}; end it: python -m tests.crash --end {place.home}")
            else:
                take_down(place)
    except LocalCloudError as e:
        print(f"crashtest: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("crashtest: broken off; what it started has been ended", file=sys.stderr)
        return 130
    finally:
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)


def _end(home: Path) -> int:
    """End what --keep left up, and remove it."""
    ended = take_down(Place(home=home))
    if home.parent.name.startswith(PREFIX):
        shutil.rmtree(home.parent)
    return 0 if ended else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description="kill -9 and faulty AWS answers")
    parser.add_argument("--jobs", type=int, default=300, help="in all phases together (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="default: a new one")
    parser.add_argument("--phase", choices=[phase.name for phase in PHASES], help="only this one")
    parser.add_argument("--keep", action="store_true", help="leave the cloud up")
    parser.add_argument("--end", type=Path, metavar="HOME", help="end a cloud that was left up, and nothing else")
    given = parser.parse_args()
    if given.jobs < 1:
        parser.error("--jobs: at least 1")
    return given


def _test(cloud: Cloud, given: argparse.Namespace) -> int:
    ledger, store = Ledger(), DynamoJobStore(cloud.dynamodb, cloud.up.outputs["JobsTable"])
    prefix, emulator = cloud.up.outputs["Prefix"], cloud.up.processes[0].pid
    killer = Killer(ledger, store.get, prefix, emulator, random.Random(f"{given.seed} kills"))
    sweeping = Sweeping(cloud, lambda: sight.records(cloud))
    phases = [phase for phase in PHASES if given.phase in (None, phase.name)]
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(faults(cloud.place, cloud.up.endpoint, given.seed))
        port = stack.enter_context(provider(ledger, store.get))
        send_through(proxy.url, cloud)
        scene = Scene(
            front=cloud.place.port, provider=port, proxy=proxy, killer=killer, records=lambda: sight.records(cloud)
        )
        if given.keep:  # what is left up must not need the proxy; it takes the emulator a minute or two
            stack.callback(send_through, cloud.up.endpoint, cloud)
        with sweeping.going_on():
            ran = [run_phase(phase, max(given.jobs // len(phases), 1), given.seed, scene) for phase in phases]
            _drain(cloud)
        sweeping.once()
        return judge(ran, ledger, sweeping, cloud)


def _drain(cloud: Cloud) -> None:
    """Wait until no lane holds a message that a worker could take, or the time is up."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while time.monotonic() < deadline:
        soon = [
            one for one in sight.messages(cloud) if not one.dead_letter and one.visible_at < time.time() + DRAIN_SECONDS
        ]
        open_ = [job for job in sight.records(cloud).values() if job.outbox is not None or job.state not in FINAL]
        if not soon and not open_:
            return
        time.sleep(1.0)


if __name__ == "__main__":
    sys.exit(main())
