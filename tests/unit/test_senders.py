"""Whose jobs may send mail as whom: at the door, in the worker, and as far as the mail workers' roles go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lambdas.api.identity import Identity
from shared import senders
from shared.domain.states import State
from shared.errors import DeclarationError
from shared.jobs import Catalogue, JobType
from shared.queues import QUEUES, SEND_EMAIL
from shared.senders import EVERY_TENANT, SENDERS, Sender, declare, sender_of
from tests.api import Client
from tests.promises.test_tenants import run_job, stored

MAIL = {"to": ["ada@reader.example.org"], "subject": "s", "text": "t", "fromAddress": "jobs@a.example"}
TYPES = ("send-email", "send-bulk-email")


class Opened(Catalogue):
    """The catalogue of a project that lets tenants send mail."""

    def get(self, name: str) -> JobType | None:
        found = super().get(name)
        return found and replace(found, open_to_tenants=True)


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = declare(
        Sender(identity="a.example", tenants=("a",), configuration_sets=("of-a", "both")),
        Sender(identity="b.a.example", tenants=("b",), configuration_sets=("of-b", "both")),
        Sender(identity="xn--bcher-kva.example", tenants=("b",)),
        Sender(identity="ceo@a.example", tenants=("boss",)),
        Sender(identity="house.example"),
        Sender(identity="all.example", tenants=(EVERY_TENANT,), configuration_sets=("of-all",)),
    )
    monkeypatch.setattr(senders, "SENDERS", ours)


def as_tenant(tenant: str, **fields: Any) -> Any:
    client = Client(identity=Identity("jwt", "org"), catalogue=Opened())
    answered = client.post("/jobs", {"type": "send-email", "payload": MAIL | fields}, claims={"org": tenant})
    assert answered.status == 202 or stored(client) == []
    return answered.status, answered.pointers


@pytest.mark.parametrize(
    ("sender", "of"),
    [
        ("jobs@a.example", {"a"}),
        ("jobs@A.Example", {"a"}),
        ("jobs@x.a.example", {"a"}),
        ("jobs@b.a.example", {"b"}),
        ("jobs@x.b.a.example", {"b"}),
        ("ceo@a.example", {"boss"}),
        ("ceo@A.EXAMPLE", {"boss"}),
        ("jobs@all.example", {"a", "b", "boss"}),
        ("jobs@house.example", set()),
        ("jobs@aa.example", set()),
        ("a.example@evil.example", set()),
        ("The Boss <jobs@a.example>", {"a"}),
        ('"ceo@a.example" <jobs@b.a.example>', {"b"}),
        ("jobs@bücher.example", {"b"}),
        ("jobs@xn--bcher-kva.example", {"b"}),
    ],
)
def test_a_tenant_sends_as_its_own_identities_and_as_no_others(sender: str, of: set[str]) -> None:
    for tenant in ("a", "b", "boss"):
        expected = (202, []) if tenant in of else (403, ["/payload/fromAddress"])
        assert as_tenant(tenant, fromAddress=sender) == expected, tenant


def test_a_tenant_uses_the_configuration_sets_of_its_sender_and_no_others() -> None:
    for of_a in ("of-a", "both", None):
        assert as_tenant("a", configurationSet=of_a)[0] == 202
    for others in ("of-b", "of-all", "nobodys"):
        assert as_tenant("a", configurationSet=others) == (403, ["/payload/configurationSet"])


def test_an_undeclared_sender_is_refused_in_the_words_for_another_tenants() -> None:
    client = Client(identity=Identity("jwt", "org"), catalogue=Opened())
    body = {"type": "send-email", "payload": MAIL}
    theirs = client.post("/jobs", body | {"payload": MAIL | {"fromAddress": "x@b.a.example"}}, claims={"org": "a"})
    nobodys = client.post("/jobs", body | {"payload": MAIL | {"fromAddress": "x@c.example"}}, claims={"org": "a"})
    assert theirs.text.replace("x@b.a.example", "it") == nobodys.text.replace("x@c.example", "it")


@pytest.mark.parametrize("name", TYPES)
def test_a_trusted_callers_job_is_held_to_the_tenant_it_names(name: str) -> None:
    client = Client()
    for tenant, sender, status in (
        ("a", "jobs@a.example", 202),
        ("b", "jobs@a.example", 403),
        (None, "jobs@house.example", 202),
        (None, "jobs@all.example", 202),
        (None, "jobs@a.example", 403),
        ("a", "jobs@house.example", 403),
    ):
        body = {"type": name, "payload": MAIL | {"fromAddress": sender}, "tenantId": tenant}
        assert client.post("/jobs", body).status == status, (tenant, sender)


@pytest.mark.parametrize("name", TYPES)
def test_a_mail_that_no_door_refused_dies_in_the_worker_before_it_is_sent(name: str) -> None:
    found = Catalogue().get(name)
    assert found is not None
    ended = run_job(found, MAIL, "b")
    assert (ended.state, ended.error_code, ended.effects) == (State.DEAD, "tenant-mismatch", {})
    assert "must be a sender of this job's tenant" in (ended.error_message or "")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"identity": "*"}, "a domain in small letters"),
        ({"identity": "*.example.com"}, "a domain in small letters"),
        ({"identity": "Example.com"}, "a domain in small letters"),
        ({"identity": "com"}, "a domain in small letters"),
        ({"identity": "jobs@"}, "a domain in small letters"),
        ({"identity": "example.com", "configuration_sets": ("*",)}, "no configuration set like"),
    ],
)
def test_a_sender_that_ses_cannot_have_is_refused_by_name(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(DeclarationError, match=why):
        Sender(**fields)


def test_a_sender_declared_twice_is_refused_or_the_later_one_would_take_it_away() -> None:
    with pytest.raises(DeclarationError, match=r"'a\.example' is declared twice"):
        declare(Sender(identity="a.example", tenants=("a",)), Sender(identity="a.example", tenants=("b",)))


def test_the_mail_lanes_may_send_as_what_is_declared_and_as_nothing_else() -> None:
    expected = {f"ses:identity/{name}" for name in SENDERS}
    expected |= {f"ses:configuration-set/{one}" for sender in SENDERS.values() for one in sender.configuration_sets}
    assert {right.resource for right in SEND_EMAIL} == expected
    assert not any(right.is_wide for right in SEND_EMAIL)
    assert [name for name, lane in QUEUES.items() if lane.rights == SEND_EMAIL] == ["emails.high", "emails.bulk"]


def test_an_address_without_a_declared_domain_has_no_sender() -> None:
    assert sender_of("x@nowhere.example") is None
