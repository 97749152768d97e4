"""The service models of a zip: a client made from them asks and understands as one made from botocore's own."""

from __future__ import annotations

import ast
import io
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import botocore.auth
import pytest
from botocore import xform_name
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.model import Shape
from botocore.session import Session

from shared.adapters.session import session
from stacks.constructs.models import OPERATIONS, small_model, write_models
from tests.infrastructure.stages import ROOT

BOTOCORES_OWN = {"s3": {"CreateSession", "HeadBucket"}, "dynamodb": {"DescribeEndpoints"}}
CASES = [(service, operation) for service, operations in OPERATIONS.items() for operation in operations]
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("models")
    write_models(into)
    return into


@pytest.fixture(scope="module")
def clients(models: Path) -> Callable[..., tuple[Any, Any]]:
    """Makes a client from the small models and one from botocore's own."""
    small, full = session(models), Session()
    for one in (small, full):
        one.set_credentials("key", "secret", "token")

    def both(service: str, region: str = "eu-west-1", **settings: Any) -> tuple[Any, Any]:
        config = Config(retries={"mode": "standard", "total_max_attempts": 1}, **settings)
        made = [one.create_client(service, region_name=region, config=config) for one in (small, full)]
        return made[0], made[1]

    return both


def test_every_operation_the_code_calls_is_in_the_models_and_none_besides() -> None:
    names = {
        service: {xform_name(name): name for name in Session().get_service_model(service).operation_names}
        for service in OPERATIONS
    }
    called = {service: set() for service in OPERATIONS}
    for path in [*(ROOT / "shared" / "adapters").glob("*.py"), *(ROOT / "lambdas").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            said = node.attr if isinstance(node, ast.Attribute) else node.value if isinstance(node, ast.Constant) else 0
            for service, known in names.items():
                called[service] |= {known[said]} if said in known else set()

    assert called == {service: set(found) - BOTOCORES_OWN.get(service, set()) for service, found in OPERATIONS.items()}


@pytest.mark.parametrize("service", OPERATIONS)
def test_a_client_has_what_the_models_have_and_no_more(clients, service) -> None:
    small, full = clients(service)
    expected = {*OPERATIONS[service], *BOTOCORES_OWN.get(service, ())}
    assert set(small.meta.service_model.operation_names) == expected < set(full.meta.service_model.operation_names)
    assert small.meta.endpoint_url == full.meta.endpoint_url
    assert small.meta.service_model.metadata == full.meta.service_model.metadata


@pytest.mark.parametrize(("service", "operation"), CASES, ids=lambda one: str(one))
@pytest.mark.parametrize("region", ["eu-west-1", "us-east-1", "cn-north-1"])
def test_a_request_is_the_same_to_the_byte(clients, monkeypatch, service, operation, region) -> None:
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *_: NOW.replace(tzinfo=None))
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=1))
    small, full = clients(service, region)
    input_shape = full.meta.service_model.operation_model(operation).input_shape
    least = {name: _value(input_shape.members[name], name, 3) for name in input_shape.required_members}

    for asked in (least, _value(input_shape, "", 4)):
        sent = [_sent(client, operation, asked) for client in (small, full)]
        assert sent[0] == sent[1]
        assert sent[0]


@pytest.mark.parametrize(("service", "operation"), CASES, ids=lambda one: str(one))
def test_what_an_answer_may_hold_is_the_same_to_the_last_member(clients, service, operation) -> None:
    small, full = (client.meta.service_model.operation_model(operation) for client in clients(service))
    assert list(_described(small.output_shape)) == list(_described(full.output_shape))
    assert [list(_described(one)) for one in small.error_shapes] == [list(_described(one)) for one in full.error_shapes]


@pytest.mark.parametrize("service", OPERATIONS)
def test_every_error_code_of_a_service_comes_out_as_the_same_exception(clients, service) -> None:
    small, full = clients(service)
    codes = [shape.error_code for shape in full.meta.service_model.error_shapes]
    assert codes
    for code in [*codes, "ThrottlingException", "NeverHeardOf"]:
        found = [_refused(client, OPERATIONS[service][0], code) for client in (small, full)]
        assert [type(one).__name__ for one in found] == [type(found[1]).__name__] * 2
        assert found[0].response == found[1].response
        assert found[0].response["Error"]["Code"] in (code, "AWS.SimpleQueueService.NonExistentQueue")


def test_a_signed_link_is_the_same(clients, monkeypatch) -> None:
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *_: NOW.replace(tzinfo=None))
    both = clients("s3", signature_version="s3v4", s3={"addressing_style": "virtual"})
    links = [one.generate_presigned_url("get_object", {"Bucket": "files", "Key": "exports/1.pdf"}) for one in both]
    assert links[0] == links[1]


def test_an_operation_that_botocore_does_not_have_ends_the_bundle() -> None:
    model = Session().get_service_data("sqs")
    with pytest.raises(KeyError, match="SendPigeon"):
        small_model(model, ["SendPigeon"])


def test_without_the_models_and_for_other_services_a_session_reads_botocores_own(models, tmp_path) -> None:
    whole = Session().get_service_model("sqs").operation_names
    assert session(tmp_path / "none").get_service_model("sqs").operation_names == whole
    assert (
        session(models).get_service_model("sns").operation_names == Session().get_service_model("sns").operation_names
    )


def _sent(client: Any, operation: str, asked: dict[str, Any]) -> tuple[Any, ...]:
    """What would go out: method, URL, headers and body."""
    seen: list[AWSPreparedRequest] = []

    def instead(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        seen.append(request)
        return _answer(500, b"", {})

    client.meta.events.register_first("before-send", instead, "instead")
    try:
        with pytest.raises(ClientError):
            getattr(client, xform_name(operation))(**{**asked, **_bodies(asked)})
    finally:
        client.meta.events.unregister("before-send", instead, "instead")
    (request,) = seen
    body = request.body if isinstance(request.body, bytes | str | None) else request.body.read()
    return request.method, request.url, sorted(request.headers.items()), body


def _bodies(asked: dict[str, Any]) -> dict[str, Any]:
    return {"Body": io.BytesIO(b"content")} if "Body" in asked else {}


def _refused(client: Any, operation: str, code: str) -> ClientError:
    json = f'{{"__type":"com.amazonaws#{code}","message":"no","Message":"no"}}'.encode()
    xml = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()

    def instead(**_: Any) -> AWSResponse:
        is_xml = client.meta.service_model.metadata["protocol"] == "rest-xml"
        return _answer(400, xml if is_xml else json, {"x-amzn-query-error": f"{code};Sender"})

    client.meta.events.register_first("before-send", instead, "instead")
    input_shape = client.meta.service_model.operation_model(operation).input_shape
    asked = {name: _value(input_shape.members[name], name, 3) for name in input_shape.required_members}
    try:
        with pytest.raises(ClientError) as refused:
            getattr(client, xform_name(operation))(**asked)
    finally:
        client.meta.events.unregister("before-send", instead, "instead")
    return refused.value


class _Raw(io.BytesIO):
    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


def _answer(status: int, body: bytes, headers: dict[str, str]) -> AWSResponse:
    return AWSResponse("https://answer.test", status, headers, _Raw(body))


def _value(shape: Shape, name: str, depth: int) -> Any:
    """A value of that shape with every member, `depth` levels down."""
    match shape.type_name:
        case "structure":
            chosen = list(shape.members)[:1] if shape.is_tagged_union or name == "Attribute" else list(shape.members)
            members = {one: shape.members[one] for one in chosen if depth or one in shape.required_members}
            return {one: _value(member, one, depth - 1) for one, member in members.items()}
        case "list":
            return [_value(shape.member, name, depth - 1)] if depth else []
        case "map":
            return {_value(shape.key, "key", 0): _value(shape.value, name, depth - 1)} if depth else {}
        case "integer" | "long":
            return 7
        case "float" | "double":
            return 0.5
        case "boolean":
            return True
        case "timestamp":
            return NOW
        case "blob":
            return b"content"
        case _:
            return shape.enum[0] if getattr(shape, "enum", None) else "name-" + "x" * 8


def _described(shape: Shape | None, above: tuple[str, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Everything a parser reads of a shape, member by member."""
    if shape is None:
        return
    yield above, shape.name, shape.type_name, dict(shape.serialization), dict(shape.metadata)
    if shape.name in above:
        return
    parts = dict(shape.members) if shape.type_name == "structure" else {}
    if shape.type_name == "list":
        parts = {"member": shape.member}
    if shape.type_name == "map":
        parts = {"key": shape.key, "value": shape.value}
    for name, part in parts.items():
        yield from _described(part, (*above, shape.name, name))
