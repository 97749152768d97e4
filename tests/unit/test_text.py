"""Names are refused for characters that break a line or are none, and for no others."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest

from shared.domain.job import Job
from shared.domain.run import Run
from shared.domain.text import NAME_PATTERN, flaw
from shared.jobs import Catalogue
from tests.api import EXPORT_JOB, Client
from tests.builders import a_job
from tests.world import World

ORDINARY = {
    "a screenshot on a Mac": "Screenshot 2026-05-01 at 9.41.07\u202fAM.png",
    "a no-break blank": "Müller\u00a0GmbH",
    "an ideographic blank": "株式会社\u3000東京",
    "a joined emoji": "👩\u200d👧\u200d👦",
    "Persian": "می\u200cخواهم.pdf",
    "Arabic, with a direction mark": "\u200fفاتورة",
    "a letter younger than many Pythons": "\U00011f02\U0001fae8\U000105c0",
    "a private sign": "\uf8ff",
    "an accent of its own": "e\u0301",
}
BREAKING = {
    "a\x00b": "U+0000, a control character",
    "a\tb": "U+0009, a control character",
    "a\x7fb": "U+007F, a control character",
    "a\x85b": "U+0085, a control character",
    "a\u2028b": "U+2028, a line separator",
    "a\u2029b": "U+2029, a paragraph separator",
    "a\ud83db": "U+D83D, half of a surrogate pair",
}


def test_the_rule_is_unicodes_four_closed_categories_on_whatever_python_this_is() -> None:
    refused = {unicodedata.category(chr(code)) for code in range(sys.maxunicode + 1) if flaw(chr(code))}
    passed = {unicodedata.category(chr(code)) for code in range(sys.maxunicode + 1) if not flaw(chr(code))}

    assert refused == {"Cc", "Cs", "Zl", "Zp"}
    assert refused.isdisjoint(passed)


@pytest.mark.parametrize("name", ORDINARY.values(), ids=ORDINARY)
def test_ordinary_names_are_taken_everywhere(name: str) -> None:
    assert flaw(name) is None
    assert re.search(NAME_PATTERN, name)
    assert Client().post("/jobs", EXPORT_JOB | {"tags": {name: name}}).status == 202
    assert accepted_key(f"uploads/acme-eu/{name}") == []
    assert ended_by_an_effect_named(name).error_message is None


@pytest.mark.parametrize(("name", "why"), BREAKING.items())
def test_a_name_that_breaks_a_line_is_refused_with_the_character_that_does(name: str, why: str) -> None:
    assert flaw(name) == why
    assert why in str(ended_by_an_effect_named(name).error_message)
    if why.endswith(("a control character", "separator")) and "\x00" not in name:
        assert any(why in fault for fault in accepted_key(f"uploads/acme-eu/{name}"))
        assert why in Client().post("/jobs", EXPORT_JOB | {"tags": {"name": name}}).text
        assert re.search(NAME_PATTERN, name) is None


def ended_by_an_effect_named(name: str) -> Job:
    """The record of a job whose handler asked for this effect."""

    def handler(payload: object, run: Run) -> None:
        run.once(name, lambda: "done")

    world = World(handler=handler)
    message = world.submitted(a_job())
    world.deliver(message)
    return world.found(message)


def accepted_key(key: str) -> list[str]:
    """What is wrong with a thumbnail's source key."""
    job_type = Catalogue().get("thumbnail")
    assert job_type is not None
    payload = {"tenantId": "acme-eu", "sourceKey": key, "width": 32, "height": 32}
    return [fault.detail for fault in job_type.accept(payload)[1]]
