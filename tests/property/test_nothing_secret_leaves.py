"""Secrets and inputs planted into the texts of exceptions leave in no record, answer, log line or dead letter."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import botocore.exceptions
import pytest
from aws_lambda_powertools import Logger
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from shared.adapters.system import PowertoolsLog
from shared.domain.describe import STACK_TEXT_CUT, describe, stack_of
from shared.domain.redaction import LONGEST, redacted
from shared.domain.states import State
from shared.errors import DeterministicFailure, EnvironmentalFailure, TransientFailure
from shared.jobs import Catalogue, Payload
from shared.operations.relay import OutboxRecord, RelayPorts, relay
from shared.queues import QUEUES
from tests.api import Client
from tests.builders import MemoryDoorbell, a_job, a_minute_left
from tests.world import World, raising

SECRET = st.from_regex(r"s[A-Za-z0-9]{4,12}[0-9][A-Za-z0-9_~-]{4,12}Z", fullmatch=True)
PROSE = st.from_regex(r"([a-z]{1,8} ){0,6}", fullmatch=True)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FORMS: Mapping[str, Callable[[str], str]] = {
    "query": lambda s: f"GET https://api.example.com/v1/rates?api_key={s}&day=1 failed",
    "query of any name": lambda s: f"429 for url: https://api.example.com/x?customer={s}",
    "path of urllib3": lambda s: f"Max retries exceeded with url: /v1/x?q={s} (Caused by NewConnectionError())",
    "second query value": lambda s: f"(/x?a=1&b={s})",
    "fragment": lambda s: f"https://id.example.com/callback#access_token={s}",
    "dsn": lambda s: f"could not connect to postgresql://app:{s}@db.internal:5432/orders",
    "dsn, odd password": lambda s: f"amqps://app:@{s}/x:@mq.internal failed",
    "dsn without a scheme": lambda s: f"cannot reach app:{s}@db",
    "libpq": lambda s: f"host=db user=app password='{s} x' dbname=orders",
    "ado": lambda s: f"Server=db;Password={s};Encrypt=true",
    "bearer": lambda s: f"Authorization: Bearer {s}",
    "bearer in a dictionary": lambda s: repr({"Accept": "*/*", "Authorization": f"Bearer {s}"}),
    "header pair": lambda s: repr([("authorization", f"Token {s}"), ("host", "x")]),
    "header bytes": lambda s: repr({b"Authorization": b"Bearer " + s.encode()}),
    "sigv4": lambda s: f"Authorization: AWS4-HMAC-SHA256 Credential=AKIA0/2026, SignedHeaders=host, Signature={s}",
    "bare bearer": lambda s: f"token refused for bearer {s}",
    "basic": lambda s: f"sent Basic {_base64('app:' + s)}",
    "cookie": lambda s: f"Set-Cookie: id=1; session={s}; Path=/",
    "json": lambda s: json.dumps({"user": "app", "apiKey": s}),
    "json with blanks": lambda s: json.dumps({"client_secret": f"{s} \"and\" {s}"}, indent=1),
    "environment": lambda s: f"os.environ['PARTNER_API_TOKEN'] = '{s}'",
    "jwt": lambda s: f"expired: eyJhbGciOiJIUzI1NiJ9.{_base64(s).rstrip('=')}.{s}",
    "github": lambda s: f"remote: ghp_{s} is revoked",
    "webhook secret": lambda s: f"cannot decode whsec_{s}==",
    "pem": lambda s: f"bad key -----BEGIN RSA PRIVATE KEY-----\n{s}\n{s}\n-----END RSA PRIVATE KEY-----",
    "pem, cut off": lambda s: f"bad key -----BEGIN PRIVATE KEY-----\n{s}",
    "pydantic": lambda s: str(_invalid({"n": s}, Loose)),
    "pydantic, twice": lambda s: str(_invalid({"n": s, "of": {s: s}}, Loose)),
    "botocore": lambda s: str(botocore.exceptions.ParamValidationError(report=_report(s))),
    "sqlalchemy": lambda s: f"(sqlite3.IntegrityError) [SQL: INSERT INTO t] [parameters: ('{s}', 1)]",
    "postgresql": lambda s: f"duplicate key\nDETAIL:  Key (email)=({s}) already exists.",
    "mail": lambda s: f"Email address is not verified: {s}@example.com",
}  # fmt: skip


class Loose(BaseModel):
    """A model of an author who has never heard of hide_input_in_errors."""

    n: int
    of: dict[int, int] = {}


class Strict(Payload):
    n: int


def _invalid(value: Any, model: type[BaseModel]) -> ValidationError:
    with pytest.raises(ValidationError) as raised:
        model.model_validate(value)
    return raised.value


def _report(secret: str) -> str:
    value = {"To": secret, "x": "a, type: b"}
    return f"Invalid type for parameter Destination, value: {value}, type: <class 'dict'>, valid types: <class 'str'>"


def _value_error(secret: str) -> Exception:
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        int(secret + "!")
    return raised.value


def _client_error(secret: str) -> Exception:
    said = {
        "Code": "MessageRejected",
        "Message": f"Email address is not verified: {secret}@example.com, {secret}@b.co.uk",
    }
    return botocore.exceptions.ClientError({"Error": said}, "SendEmail")  # type: ignore[arg-type]


FOREIGN: Mapping[str, Callable[[str], BaseException]] = {
    "an unknown exception": lambda s: RuntimeError(FORMS["dsn"](s)),
    "a system call's": lambda s: ConnectionError(FORMS["query"](s)),
    "int() of an input": _value_error,
    "a missing key": lambda s: KeyError(s),
    "pydantic, an author's own model": lambda s: _invalid({"n": s, "of": {s: s}}, Loose),
    "pydantic, a payload": lambda s: _invalid({"n": s}, Strict),
    "SES": _client_error,
    "a group": lambda s: ExceptionGroup("several", [ValueError(FORMS["bearer"](s)), KeyError(s)]),
    "one that left without a message": lambda s: SystemExit(FORMS["json"](s)),
}


@pytest.mark.parametrize("form", FORMS)
@given(secret=SECRET, before=PROSE, after=PROSE)
@settings(max_examples=12, deadline=None)
def test_no_form_of_a_secret_survives_in_any_surrounding(form: str, secret: str, before: str, after: str) -> None:
    text = redacted(f"{before}{FORMS[form](secret)} {after}")
    assert secret[:6] not in text
    assert secret[-6:] not in text
    assert _base64("app:" + secret) not in text


@pytest.mark.parametrize("form", FORMS)
@given(secret=SECRET, length=st.integers(0, LONGEST + 200))
@settings(max_examples=12, deadline=None)
@example(secret="s3cr3tS3cr3t9Z", length=LONGEST - 40)
def test_none_survives_by_being_cut_in_two(form: str, secret: str, length: int) -> None:
    assert secret[:6] not in redacted(f"{'x ' * (length // 2)}{FORMS[form](secret)}").replace(form, "")


@given(st.text(max_size=300))
@settings(deadline=None)
def test_redaction_never_raises_and_cuts_nothing_anew_the_second_time(text: str) -> None:
    assert isinstance(redacted(redacted(text)), str)


@pytest.mark.parametrize(
    "plain",
    [
        "row 7, column vat_rate: expected a number",
        "S3 answered 503 SlowDown",
        "uploads/acme-eu/2026-05.csv is missing",
        "secret holdfast/prod/webhooks/acme/partner-a cannot be read (ResourceNotFoundException); create it",
        "the next attempt would come after the deadline; last: http-503",
        "basic plan: 10 of 10 exports at 10:20:30",
        "partner.example.com answered 410: it wants no more of these; stop sending them",
    ],
)
def test_what_an_author_says_plainly_stays_as_it_is(plain: str) -> None:
    assert redacted(plain) == plain


def outputs(handler: Callable[..., Any]) -> dict[str, str]:
    """Everything that leaves when a job with this handler fails, by where it goes."""
    client, stream, doorbell = Client(), io.StringIO(), MemoryDoorbell()
    world = World(handler=handler, store=client.store, clock=client.clock)
    world.log = PowertoolsLog(Logger(service=f"test-{id(stream)}", stream=stream))  # type: ignore[assignment]
    message = world.submitted(a_job(max_attempts=1))
    world.run_batch(message)
    job = world.found(message)
    assert job.state in (State.DEAD, State.RETRYING), "it failed"
    ports = RelayPorts(
        store=world.store, doorbell=doorbell, clock=world.clock, log=world.log, queues=QUEUES, time_left=a_minute_left
    )
    relay([OutboxRecord({}, job)], ports)
    return {
        "the record": repr(job),
        "its history": repr(world.store.runs(job)),
        "the log": stream.getvalue(),
        "the dead letter": repr(doorbell.sent),
        "GET /jobs/{id}": client.get(f"/jobs/{job.job_id}").text,
        "GET /jobs/{id}/result": client.get(f"/jobs/{job.job_id}/result").text,
    }


@pytest.mark.parametrize("kind", FOREIGN)
@given(secret=SECRET)
@settings(max_examples=4, deadline=None)
def test_a_foreign_exceptions_secret_leaves_nowhere(kind: str, secret: str) -> None:
    for place, text in outputs(raising(FOREIGN[kind](secret))).items():
        assert secret not in text, f"in {place}: {text}"


@pytest.mark.parametrize("author", [TransientFailure, EnvironmentalFailure, DeterministicFailure])
@pytest.mark.parametrize("kind", FOREIGN)
@given(secret=SECRET)
@settings(max_examples=2, deadline=None)
def test_nor_by_way_of_an_exception_that_was_raised_from_it(author: Any, kind: str, secret: str) -> None:
    def handler(payload: Any, run: Any) -> None:
        try:
            raise FOREIGN[kind](secret)
        except BaseException as error:
            raise author("the partner refused", code="partner-refused") from error

    found = outputs(handler)
    for place, text in found.items():
        assert secret not in text, f"in {place}: {text}"
    assert "the partner refused" in found["GET /jobs/{id}"], "what the author wrote is told"


@pytest.mark.parametrize("form", FORMS)
@given(secret=SECRET)
@settings(max_examples=2, deadline=None)
def test_nor_in_an_authors_own_message_that_quotes_it(form: str, secret: str) -> None:
    failure = DeterministicFailure(f"the partner refused: {FORMS[form](secret)}", code="partner-refused")
    for place, text in outputs(raising(failure)).items():
        assert secret not in text, f"in {place}: {text}"


def test_a_caller_is_told_class_and_code_of_a_foreign_exception_and_none_of_its_words() -> None:
    found = outputs(raising(ConnectionError("no route to db.internal")))
    assert '"error":{"class":"transient","code":"ConnectionError","firstAt"' in found["GET /jobs/{id}"]
    for place in ("GET /jobs/{id}", "GET /jobs/{id}/result", "the dead letter"):
        assert "db.internal" not in found[place]
    for place in ("the record", "its history", "the log"):
        assert "ConnectionError: no route to db.internal" in found[place], "the operator reads it"


def test_a_stack_trace_says_where_and_which_cause_as_python_does() -> None:
    def inner() -> None:
        raise ConnectionError("https://api.example.com/x?key=s3cr3t9")

    try:
        try:
            inner()
        except ConnectionError as e:
            raise DeterministicFailure("no rates today") from e
    except DeterministicFailure as e:
        stack = stack_of(e)
    assert stack.index("in inner") < stack.index("direct cause of the following") < stack.index("no rates today")
    assert "ConnectionError: https://api.example.com/x?[cut]" in stack
    assert "s3cr3t9" not in stack.replace('raise ConnectionError("https://api.example.com/x?key=s3cr3t9")', "")


def test_a_chain_without_an_end_is_a_stack_trace_all_the_same() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert stack_of(first).count("Traceback") == 2
    deep: BaseException = ValueError("0")
    for n in range(3000):
        after = ValueError(str(n))
        after.__cause__ = deep
        deep = after
    assert stack_of(deep).count("Traceback") <= 20


def test_words_without_end_are_cut() -> None:
    assert len(describe(RuntimeError("word " * 10_000), STACK_TEXT_CUT)) <= STACK_TEXT_CUT


@pytest.mark.parametrize(
    "piece", ["://", "http://", "password", "a@", "'", '"', "\\", "?a=", "a:", "basic a", "eyJ", " "]
)
def test_no_text_makes_the_search_slow(piece: str) -> None:
    """A handler's exception may hold a megabyte that an attacker chose; its worker must not stand still over it."""
    import time

    begun = time.perf_counter()
    describe(RuntimeError(piece * 300_000))
    assert time.perf_counter() - begun < 2


EVERY_TYPE = Catalogue().all()
MARK = "Ada Lovelace 4111"


def _wrong_everywhere(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Payloads of this model, each with the mark where a field's content stands, in the kinds JSON has."""
    fields = dict(schema["properties"])
    for value in (MARK, [MARK], {"a": MARK}, [[MARK] * 3], f"https://{MARK}@x/?a={MARK}", f"../{MARK}", f"{MARK}\n"):
        yield dict.fromkeys(fields, value)
        for name in fields:
            examples = {one: said["examples"][0] for one, said in fields.items() if said.get("examples")}
            yield examples | {name: value}


@pytest.mark.parametrize("name", EVERY_TYPE)
def test_no_payload_that_a_worker_refuses_has_its_content_in_the_log_or_the_record(name: str) -> None:
    """The door's answer goes to whoever sent it, but the worker's words stand in the record and the log for months."""
    job_type, said = EVERY_TYPE[name], []
    for payload in _wrong_everywhere(job_type.payload.model_json_schema()):
        try:
            job_type.parse(json.dumps(payload), job_type.version)
        except DeterministicFailure as failure:
            said.append(describe(failure, STACK_TEXT_CUT) + stack_of(failure))
    assert said, "nothing was refused"
    assert not [words for words in said if MARK in words]
