"""How the delivery of one message ends: a closed set, so that no ending quietly counts as success."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """What became of the message. `acknowledged` decides whether SQS may delete it."""

    COMPLETED = "completed"
    RETRYING = "retrying"  # hidden until its next attempt
    DEFERRED = "deferred"  # hidden until it may be looked at again; no attempt spent
    RETRYING_IN_DUE = "retrying-in-due"  # a long wait: the promoter will ring a fresh doorbell
    DEFERRED_IN_DUE = "deferred-in-due"
    CONTINUED = "continued"  # queued again under a new doorbell, from its checkpoint
    DEAD = "dead"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    REPLAYED = "replayed"  # a redriven copy of a dead job: queued again, under a new doorbell
    REROUTED = "rerouted"  # its type has moved: queued on another lane, under a new doorbell
    STALE = "stale"  # the record is final, or has a newer doorbell
    ORPHANED = "orphaned"  # no record: set aside for a human
    WAITING = "waiting"  # another holds the job, or its time has not come
    LEASE_LOST = "lease-lost"  # another took the job over; nothing more was written
    RELEASED = "released"  # not started, for want of time or room; visible again at once or nearly so
    UNAVAILABLE = "unavailable"  # the table did not answer; the message comes back, ever later

    @property
    def acknowledged(self) -> bool:
        """Whether the message may go: the record is final, or no longer needs this message (DESIGN §5)."""
        return self in _ACKNOWLEDGED


_ACKNOWLEDGED = frozenset(
    {
        Outcome.COMPLETED,
        Outcome.RETRYING_IN_DUE,
        Outcome.DEFERRED_IN_DUE,
        Outcome.CONTINUED,
        Outcome.DEAD,
        Outcome.CANCELLED,
        Outcome.EXPIRED,
        Outcome.REPLAYED,
        Outcome.REROUTED,
        Outcome.STALE,
        Outcome.ORPHANED,
    }
)


class Alert(StrEnum):
    """What a person must hear of though no dead-letter queue tells it. Each has a metric and an alarm of its own."""

    EXPIRED = "expired"  # a job was too old before it could run
    TYPE_NOT_LOADED = "type-not-loaded"  # its type's file does not import here, so it waits until it is too old
    TYPE_NOT_KNOWN = "type-not-known"  # no such file, or an older one: a deployment under way, or one that went wrong
