"""The rules that are no guards of the table. Each can be switched off, and must then be missed."""

from __future__ import annotations

from collections.abc import Mapping

RULES: Mapping[str, str] = {
    "live_leave": "a current message that finds a live lease stays hidden, never acknowledged",
    "early_leave": "a current message that finds a wait stays hidden, never acknowledged",
    "gate_first": "unknown type, newer version and pause are looked at before the lease",
    "own_lease": "a refused lease that finds its own token has won",
    "cancel_for_wait": "a retry, defer or continue refused for a cancel request becomes the cancellation",
    "handler_stops": "a handler past its deadline is gone, its process ended, before its retry can be leased",
    "own_start": "a refused start is its worker's own only while the record is, and the lease lasts",
    "amo_keep": "the entry of an at-most-once effect is erased only where it was not done, not on any exception",
    "checkpoint_moves": "a handler that continues from the checkpoint it started at has failed",
    "suspect_alone": "the relay says in the message that a job's last worker vanished",
    "accept_dead_only": "a redriven copy is accepted only while its job is dead",
    "repair_lapsed": "the sweeper requeues, ends or cancels a job whose lease has lapsed",
    "repair_unmarked": "a retrying job whose ring was never marked is rung again",
    "repair_lost": "a job of an empty queue, long past its time, is rung again",
    "park_current": "the sweeper parks a job by its current doorbell only, unmarked, and not under a live lease",
    "drop_stale": "a DLQ message is deleted for being stale, whatever the state of its job",
}
