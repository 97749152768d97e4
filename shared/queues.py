"""Every work class and its limits, declared once. Both sides of the deploy read this file: the stacks loop over it,
the worker and the relay look lanes up in it.

Declare what was chosen (how long one job may run, how many at once); everything that AWS needs besides is computed
from that, so nobody can raise one number and forget another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import NoReturn

from shared.errors import DeclarationError
from shared.senders import SENDERS

LAMBDA_LIMIT = timedelta(minutes=15)
FINISHING_MARGIN = timedelta(seconds=30)
"""What a worker keeps for the record, the acknowledgement and the answer after the longest job has ended."""

VISIBILITY_PER_TIMEOUT = 6
"""AWS's advice for a queue behind an event source mapping; it refuses anything below 1 (the emulator does not)."""

MAX_RECEIVES, FIFO_MAX_RECEIVES = 600, 1000
"""Only the backstop for a worker that cannot start at all, or a record that nobody can read: attempts are counted in
the record, while an absent table, waits and throttled polls cost receives too (shared/domain/waits.py has the sum). A
thousand is the most SQS takes.
"""

MESSAGE_RETENTION = timedelta(days=7)
DEAD_LETTER_RETENTION = timedelta(days=14)
"""A standard DLQ keeps the clock of the first enqueue, so it must outlive the queue it serves by far. A FIFO DLQ sets
it anew, and a FIFO job spends all its waits on one message: there the queue keeps messages as long as SQS can.
"""

MAX_DELAY = timedelta(minutes=15)
"""DelaySeconds ends here; on FIFO lanes no per-message delay exists at all."""

SHARE_KEYS = "SHARE#"
"""What the tenants' accounts of worker time begin with in the controls table: SHARE#<lane>#<tenant>."""

_NAME = re.compile(r"[a-z][a-z0-9]*([.-][a-z0-9]+)*")
_PREFIX = re.compile(r"[a-z][a-z0-9-]*/")
_ACTION = re.compile(r"[a-z][a-z0-9-]*:[A-Z][A-Za-z0-9]*")
_RESOURCE = re.compile(r"(?P<service>[a-z][a-z0-9-]*):(?P<name>[A-Za-z][^\s*?]*([/:-]\*)?)")


WORK = "work/"
"""Files that a job keeps between its runs, under its id."""


@dataclass(frozen=True, kw_only=True)
class Right:
    """What a lane's jobs may do in AWS besides their files; its own worker gets it and no other.

    actions   whole names, "ses:SendEmail"
    resource  the end of an ARN of this account and region, "ses:identity/example.com"; "{stage}" stands for the stage;
              "*" after "/", ":" or "-" at its end for everything under it
    because   why everything under it, where it ends so

    Raises DeclarationError, by name, for a right to do everything or to touch everything.
    """

    actions: tuple[str, ...]
    resource: str
    because: str = ""

    def __post_init__(self) -> None:
        if not self.actions:
            self._refuse("it allows nothing; name its actions")
        if wild := [action for action in self.actions if not _ACTION.fullmatch(action)]:
            self._refuse(f"action {wild[0]!r} is not one whole name like 'ses:SendEmail'")
        if not (match := _RESOURCE.fullmatch(self.resource)) or re.sub(r"\{stage\}", "", match["name"]).count("{"):
            self._refuse("a resource is like 'ses:identity/example.com' or 'ses:identity/*', with no name but {stage}")
        if foreign := [action for action in self.actions if not action.startswith(f"{match['service']}:")]:
            self._refuse(f"action {foreign[0]!r} is not one of {match['service']!r}")
        if self.is_wide and not self.because:
            self._refuse("it reaches everything under a name; say why in `because`, or name the one resource")

    def _refuse(self, why: str) -> NoReturn:
        raise DeclarationError(f"right to {', '.join(self.actions) or 'nothing'} on {self.resource!r}: {why}")

    @property
    def is_wide(self) -> bool:
        """It reaches everything under a name."""
        return self.resource.endswith("*")

    @property
    def service(self) -> str:
        """The ARN's service, "ses"."""
        return self.resource.partition(":")[0]

    def name(self, stage: str) -> str:
        """What follows the account in the ARN, "identity/*"."""
        return self.resource.partition(":")[2].replace("{stage}", stage)


@dataclass(frozen=True, kw_only=True)
class Queue:
    """One lane: its own SQS queue, DLQ and worker function.

    deadline          the longest one job of this lane may run
    parallelism       jobs that one worker runs at once, in threads
    max_concurrency   worker invocations at once (the event source's limit, never reserved concurrency)
    memory_mb         of the worker function
    oldest_age_alarm  someone is waiting longer than the design intended; above the deadline, because SQS counts what
                      is being worked on
    fifo              one job at a time per ordering key, in the order of arrival
    tenant_share      worker threads that one tenant's jobs may keep busy on average; above it they are deferred without
                      an attempt, also while the lane has room: it cannot know who comes next
    reads, writes     prefixes of the files its jobs may reach, "invoices/"; under each lies a folder per tenant, under
                      WORK one per job, and a job reaches its own
    rights            what its jobs may do in AWS besides reading and writing their files

    Raises DeclarationError for values that cannot work, naming the queue, the rule and the way out.
    """

    name: str
    deadline: timedelta
    parallelism: int
    max_concurrency: int
    memory_mb: int
    oldest_age_alarm: timedelta
    fifo: bool = False
    tenant_share: int | None = None
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    rights: tuple[Right, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > 40:
            self._refuse("a name is at most 40 lower-case letters and digits, joined by single dots or dashes")
        if self.deadline < timedelta(seconds=1):
            self._refuse(f"a deadline of {self.deadline} leaves a job no time to run; give at least one second")
        if self.deadline % timedelta(seconds=1):
            self._refuse(f"a deadline of {self.deadline} is not a whole number of seconds, which is all Lambda knows")
        if not 1 <= self.parallelism <= 64:
            self._refuse(f"parallelism {self.parallelism} is outside 1..64 threads of one worker")
        if self.function_timeout > LAMBDA_LIMIT:
            runs = f"{self.batch_size} jobs of one key in a row, " if self.fifo and self.batch_size > 1 else ""
            self._refuse(
                f"a deadline of {_words(self.deadline)} leaves no room in Lambda's 15 minutes "
                f"({runs}plus {_words(FINISHING_MARGIN)} to finish make {_words(self.function_timeout)}); "
                "shorten it, or continue the job in several runs"
            )
        if not 2 <= self.max_concurrency <= 1000:
            self._refuse(f"max_concurrency {self.max_concurrency} is outside the 2..1000 an event source takes")
        if self.tenant_share is not None and not 1 <= self.tenant_share < self.parallelism * self.max_concurrency:
            self._refuse(
                f"a tenant_share of {self.tenant_share} is no share of its {self.parallelism * self.max_concurrency} "
                "threads; give 1 or more, and fewer than all"
            )
        if not 128 <= self.memory_mb <= 10_240:
            self._refuse(f"memory of {self.memory_mb} MB is outside Lambda's 128..10240")
        if wide := [prefix for prefix in (*self.reads, *self.writes) if not _PREFIX.fullmatch(prefix)]:
            self._refuse(f"files under {wide[0]!r}: a prefix is one lower-case name and a slash, like 'invoices/'")
        if self.oldest_age_alarm <= self.deadline:
            self._refuse(
                f"an age alarm at {_words(self.oldest_age_alarm)} rings for healthy jobs: SQS counts a message until "
                f"it is deleted, and one job may run {_words(self.deadline)}"
            )

    def _refuse(self, why: str) -> None:
        raise DeclarationError(f"queue {self.name!r}: {why}")

    @property
    def batch_size(self) -> int:
        """Messages of one invocation: all can start at once, so none ages in a worker's hand. SQS gives 10 at most."""
        return min(self.parallelism, 10)

    @property
    def function_timeout(self) -> timedelta:
        """Room for a full batch: side by side on a standard lane, all of one key in a row on a FIFO lane."""
        return self.deadline * (self.batch_size if self.fifo else 1) + FINISHING_MARGIN

    @property
    def visibility_timeout(self) -> timedelta:
        """What SQS hides a message for until the worker says better (lease + 3 s, first thing in a batch)."""
        return self.function_timeout * VISIBILITY_PER_TIMEOUT

    def serves(self, declared: Queue, deadline: timedelta) -> bool:
        """Whether this lane's worker may run a job of a type that is declared for that lane, with this deadline: it has
        the time, the memory and the rights.
        """
        if declared.name == self.name:
            return True
        enough = deadline <= self.deadline and declared.memory_mb <= self.memory_mb
        return enough and set(declared.rights) <= set(self.rights)

    def physical_name(self, prefix: str) -> str:
        """The SQS queue's name under a stage's prefix, "holdfast-dev" → "holdfast-dev-webhooks-partner-a.fifo"."""
        return self._physical(prefix, "")

    def dead_letter_name(self, prefix: str) -> str:
        """The DLQ's name; the DLQ of a FIFO queue must be FIFO too."""
        return self._physical(prefix, "-dlq")

    def _physical(self, prefix: str, ending: str) -> str:
        name = f"{prefix}-{self.slug}{ending}{'.fifo' if self.fifo else ''}"
        if len(name) > 80:
            raise DeclarationError(f"queue {self.name!r}: {name!r} is longer than the 80 characters SQS takes")
        return name

    @property
    def max_receives(self) -> int:
        """Receives after which SQS moves a message of this lane to its DLQ."""
        return FIFO_MAX_RECEIVES if self.fifo else MAX_RECEIVES

    @property
    def message_retention(self) -> timedelta:
        """How long SQS keeps a message of this lane."""
        return DEAD_LETTER_RETENTION if self.fifo else MESSAGE_RETENTION

    @property
    def slug(self) -> str:
        """The name without dots, which SQS keeps for the .fifo ending."""
        return self.name.replace(".", "-")


def _words(duration: timedelta) -> str:
    seconds = int(duration.total_seconds())
    return f"{seconds // 60} min" if seconds % 60 == 0 else f"{seconds} s"


def declare(*queues: Queue) -> dict[str, Queue]:
    """The lanes by name. Raises DeclarationError where two would share one SQS name ('a.b' and 'a-b')."""
    by_slug: dict[str, Queue] = {}
    for queue in queues:
        taken = by_slug.setdefault(queue.slug, queue)
        if taken is not queue:
            raise DeclarationError(f"queue {queue.name!r}: SQS would call it {queue.slug!r}, like {taken.name!r}")
    return {queue.name: queue for queue in queues}


SEND_EMAIL = tuple(
    Right(actions=("ses:SendEmail",), resource=f"ses:{resource}")
    for sender in SENDERS.values()
    for resource in (
        f"identity/{sender.identity}",
        *(f"configuration-set/{name}" for name in sender.configuration_sets),
    )
)
"""SES asks for both where a configuration set is used."""

READ_WEBHOOK_SECRETS = (
    Right(
        actions=("secretsmanager:GetSecretValue",),
        resource="secretsmanager:secret:holdfast/{stage}/webhooks/*",
        because="One secret per receiver, made by an operator; AWS ends each ARN with six random characters.",
    ),
)

QUEUES = declare(
    Queue(
        name="emails.high",
        deadline=timedelta(seconds=30),
        parallelism=5,
        max_concurrency=10,
        memory_mb=512,
        oldest_age_alarm=timedelta(minutes=2),
        rights=SEND_EMAIL,
    ),
    Queue(
        name="emails.bulk",
        deadline=timedelta(seconds=30),
        parallelism=10,
        max_concurrency=2,
        memory_mb=512,
        oldest_age_alarm=timedelta(minutes=15),
        rights=SEND_EMAIL,
    ),
    Queue(
        name="webhooks.partner-a",
        deadline=timedelta(seconds=20),
        parallelism=4,
        max_concurrency=2,
        memory_mb=512,
        oldest_age_alarm=timedelta(minutes=2),
        fifo=True,
        tenant_share=3,
        rights=READ_WEBHOOK_SECRETS,
    ),
    Queue(
        name="exports.month-end",
        deadline=timedelta(minutes=10),
        parallelism=4,
        max_concurrency=10,
        # One whole vCPU, which is all that four Python threads can use; they hold a tenth of it (make exportbench).
        memory_mb=1769,
        oldest_age_alarm=timedelta(minutes=15),
        reads=("invoices/", WORK),
        writes=("exports/", WORK),
    ),
    Queue(
        name="thumbnails",
        deadline=timedelta(minutes=1),
        parallelism=4,
        max_concurrency=4,
        memory_mb=2048,
        oldest_age_alarm=timedelta(minutes=10),
        reads=("uploads/",),
        writes=("thumbnails/",),
    ),
)
