"""Run: lease, execute, record, acknowledge. The worker is a lease manager; the handler is the smallest part of it.

The order of the writes is the guarantee:

    1 lease        a crash after it: the message comes back, finds the lease lapsed, and the job is reclaimed
    2 effect       a crash after it: the rerun repeats the effect under the same key or name, which converges it; one
                   that `once` recorded is not repeated, and one that is at-most-once stops for a human
    3 record       a crash after it: the message comes back, finds the job final or its dispatch newer, runs nothing
    4 acknowledge

Every write after the lease carries its run number and holder, so a worker whose job was reclaimed can write nothing.
tests/chaos kills a process before and after every call of this path.

    batch.py       an invocation's messages, side by side; ends the process where a handler hangs
    deliver.py     one message to its end
    delivery.py    a message and its job: lease it, defer it, or do what the record found means
    execute.py     the handler
    held.py        a leased job: every write under its lease, its heartbeat
    end.py         how its run ended
    handle.py, effects.py, files.py      what the handler holds
    invocation.py, turns.py, watch.py    what the threads of an invocation share
"""

from shared.operations.run.batch import run_batch
from shared.operations.run.ports import Lane, WorkerPorts

__all__ = ["Lane", "WorkerPorts", "run_batch"]
