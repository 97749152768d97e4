"""The verdict over all phases: what was promised and not kept, and what became of the jobs concerned."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

from tests.crash import sight
from tests.crash.checks import Broken, check
from tests.crash.evidence import Evidence
from tests.crash.faults import EFFECTS, REFUSALS
from tests.crash.ledger import Ledger
from tests.crash.phases import Ran
from tests.crash.report import Result, slowest, table
from tests.crash.sweeping import Sweeping
from tests.crash.takeover import PROMISED_SECONDS, handover, late, takeovers
from tests.e2e.cloud import Cloud

IN_TIME = f"a killed process is replaced within {PROMISED_SECONDS:.0f} s"

STRUCK = "kills and faults strike"


def judge(ran: Sequence[Ran], ledger: Ledger, sweeping: Sweeping, cloud: Cloud) -> int:
    """Print the table, the times and every broken promise; the exit status."""
    planned = [{one.job_id for one in phase.planned} for phase in ran]
    others = [set[str]().union(*planned[:place], *planned[place + 1 :]) for place in range(len(ran))]
    results = [_result(one, alien, ledger, sweeping, cloud) for one, alien in zip(ran, others, strict=True)]
    print("", table(results), "", sep="\n")
    for result in results:
        took, busy = result.ran.over - result.ran.begun, f"load {result.ran.load:.1f} on {os.cpu_count()} processors"
        print(f"{result.ran.phase.name}: {took:.0f} s, {busy}; repairs {result.repairs}")
        print(f"  an ordinary message waited {handover(result.evidence):.1f} s for a worker (95 %)")
        print(f"  faults {dict(sorted(result.ran.fired.items()))}")
        if result.takeovers:
            print(slowest(result.takeovers))
    broken = [one for result in results for one in result.broken]
    for one in broken:
        print(f"\nBROKEN: {one.promise}: {one.job_id}: {one.found}")
        print(_history(one.job_id, results, ledger, cloud))
    print(f"\n{len(broken)} broken promises" if broken else "\nevery promise was kept")
    return 1 if broken else 0


def _result(ran: Ran, others: set[str], ledger: Ledger, sweeping: Sweeping, cloud: Cloud) -> Result:
    """The evidence of one phase: all that was seen but what belongs to the other phases' jobs."""
    records = {job_id: job for job_id, job in sight.records(cloud).items() if job_id not in others}
    lying = [one for one in sight.messages(cloud) if one.bell is None or one.bell.job_id not in others]
    own = Ledger(
        [start for start in ledger.starts if start.job_id not in others],
        dict(ledger.ends),
        [call for call in ledger.calls if call.job_id not in others],
    )
    evidence = Evidence(
        answered=ran.answered,
        records=records,
        ledger=own,
        kills=ran.kills,
        lying=lying,
        now=time.time(),
        lapsed=frozenset(sight.lapsed(cloud, records.values())),
        swept=[(one.job_id, at) for at, one in sweeping.repaired if one.done],
    )
    again = takeovers(evidence)
    slow = [Broken(IN_TIME, *found) for found in late(again, handover(evidence))] if ran.phase.keeps_time else []
    if ran.phase.kills and not again:
        slow.append(Broken(STRUCK, "-", "no kill interrupted a job that started again: this run shows nothing"))
    wanted = (EFFECTS, *REFUSALS) if ran.phase.faults else ()
    unspoiled = [which for which in wanted if not any(name.startswith(which) for name in ran.fired)]
    slow += [Broken(STRUCK, "-", f"no answer about {which} was spoiled: this run shows nothing") for which in unspoiled]
    repairs = str(dict(sweeping.counted(ran.begun, ran.over)))
    return Result(ran=ran, broken=[*check(evidence), *slow], takeovers=again, repairs=repairs, evidence=evidence)


def _history(job_id: str, results: Sequence[Result], ledger: Ledger, cloud: Cloud) -> str:
    record = next((r.evidence.records[job_id] for r in results if job_id in r.evidence.records), None)
    told = "no record" if record is None else sight.described(cloud, record)
    return "\n".join([told, *(f"  {at:.2f} {what}" for at, what in sorted(_events(job_id, results, ledger)))])


def _events(job_id: str, results: Sequence[Result], ledger: Ledger) -> Iterator[tuple[float, str]]:
    """What happened to a job, as it was seen from outside."""
    for result in results:
        for kill in result.ran.kills:
            if any(hit.job_id == job_id for hit in kill.interrupted):
                yield kill.at, f"kill -9 of {kill.kind} {kill.pid}"
    for job, at in results[0].evidence.swept:
        if job == job_id:
            yield at, "repaired by a sweep"
    for start in (start for start in ledger.starts if start.job_id == job_id):
        yield start.at, f"run {start.run}, attempt {start.attempt}, started in {start.pid}"
        if (end := ledger.ends.get(start.mark)) is not None:
            yield end.at, f"run {start.run} ended: {end.how}"
    for call in (call for call in ledger.calls if call.job_id == job_id):
        yield call.at, f"effect {call.effect!r} called by run {ledger.run_of(call.mark)}"
