"""One mail through SES: what may be in it, and its sending, which must not happen twice."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from shared.domain.run import Run
from shared.domain.text import BREAKING_CHARACTERS, flaw
from shared.errors import EnvironmentalFailure, Fault
from shared.jobs import Payload
from shared.jobs._clients import client
from shared.jobs._mailbox import JSON_SCHEMA, LONGEST, Mailbox
from shared.senders import sender_of


def _mailbox(text: str) -> str:
    Mailbox.parse(text)
    return text


def _one_line(text: str) -> str:
    if wrong := flaw(text):  # a line break in a header begins another header
        raise ValueError(f"must be one line of text; this one holds {wrong}")
    if not text.strip():
        raise ValueError("must say something")
    return text


Address = Annotated[
    str,
    AfterValidator(_mailbox),
    Field(
        max_length=LONGEST,
        description="name@example.com or Some Name <name@example.com>; the domain may have letters of any alphabet. "
        "Written for DNS (other letters as xn--…) it has at most 253 characters, and the address at most 254.",
        json_schema_extra=JSON_SCHEMA,
    ),
]
"""Kept as it was written; `Mailbox` says whose it is."""

Line = Annotated[
    str,
    AfterValidator(_one_line),
    Field(
        json_schema_extra={
            "pattern": rf"^[^{BREAKING_CHARACTERS}]*[^\s{BREAKING_CHARACTERS}][^{BREAKING_CHARACTERS}]*$"
        }
    ),
]
_SAYS_SOMETHING: JsonDict = {
    "anyOf": [{"required": [part], "properties": {part: {"type": "string"}}} for part in ("text", "html")]
}


class Email(Payload):
    """One mail to all of `to`, who see each other; a mail for each is a job for each.

    from_address       of a sender that is declared for the job's tenant (shared/senders.py) and verified with SES
    configuration_set  one of that sender's: where SES reports deliveries and bounces; its events carry the tag job_id
    at_most_once       rather no mail than two: a sending whose end nobody knows (no answer, a 5xx) stops the job for a
                       human to look
    """

    model_config = ConfigDict(json_schema_extra=_SAYS_SOMETHING)

    to: list[Address] = Field(min_length=1, max_length=50, examples=[["ada@example.com"]])
    subject: Line = Field(min_length=1, max_length=200, examples=["Your export is ready"])
    text: str | None = Field(default=None, min_length=1)
    html: str | None = Field(default=None, min_length=1)
    from_address: Address = Field(examples=["Jobs Team <jobs@example.com>"])
    reply_to: Address | None = None
    configuration_set: str | None = Field(default=None, pattern="^[A-Za-z0-9_-]{1,64}$")
    at_most_once: bool = False

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.text is None and self.html is None:
            raise ValueError("give text, html or both")
        return self

    def refused_to(self, tenant: str | None) -> list[Fault]:
        """See Payload. A sender of another tenant's and one that nobody declared are told in the same words."""
        address = Mailbox.parse(self.from_address).address
        sender = sender_of(address)
        if sender is None or not sender.is_of(tenant):
            return [Fault("/fromAddress", f"must be a sender of this job's tenant; {address} is none")]
        if self.configuration_set not in (None, *sender.configuration_sets):
            return [Fault("/configurationSet", "must be a configuration set of this sender")]
        return []


def send_once(email: Email, run: Run) -> None:
    """Send it; the outcome kept with the job is SES's MessageId.

    SES takes no idempotency key, so `once` is all that stands between a retry and a second mail: after SES's answer
    has been recorded none is sent. A worker that dies, or loses the answer, between SES's yes and that record leaves
    an effect that is sent again, unless the payload says at_most_once. What SES refused, or never heard of, was not
    sent, and is sent when it is tried again, either way.
    """
    run.once("send", lambda: _send(email, run.job_id), at_most_once=email.at_most_once)


def _send(email: Email, job_id: str) -> str:
    from botocore.exceptions import ClientError

    # One try: the SDK would repeat a call whose answer was lost, out of sight of `once`.
    ses = client("sesv2", answer_within=timedelta(seconds=10), tries=1)
    try:
        return str(ses.send_email(**_request(email, job_id))["MessageId"])
    except ClientError as error:
        # SES has one code for its rate per second and its quota per day; only its sentence tells them apart.
        if "daily message quota" in str(error).lower():
            raise EnvironmentalFailure(str(error), code="ses-daily-quota") from error
        raise


def _request(email: Email, job_id: str) -> dict[str, Any]:
    parts = {"Text": email.text, "Html": email.html}
    optional = {
        "ReplyToAddresses": [_ascii(email.reply_to)] if email.reply_to else None,
        "ConfigurationSetName": email.configuration_set,
    }
    return {
        "FromEmailAddress": _ascii(email.from_address),
        "Destination": {"ToAddresses": [_ascii(address) for address in email.to]},
        "Content": {
            "Simple": {
                "Subject": _utf8(email.subject),
                "Body": {name: _utf8(part) for name, part in parts.items() if part is not None},
            }
        },
        "EmailTags": [{"Name": "job_id", "Value": job_id}],
        **{name: value for name, value in optional.items() if value is not None},
    }


def _ascii(address: str) -> str:
    return Mailbox.parse(address).as_ses_takes_it()


def _utf8(text: str) -> dict[str, str]:
    return {"Data": text, "Charset": "UTF-8"}
