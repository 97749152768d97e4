from __future__ import annotations

import pytest

from shared.errors import SettingsError
from shared.settings import ApiSettings, PromoterSettings, RelaySettings, Settings, TallySettings, WorkerSettings

COMMON = {"stage": "dev", "prefix": "holdfast-dev", "jobs_table": "holdfast-dev-jobs", "code_version": "abc1234"}
CASES: list[Settings] = [
    ApiSettings(**COMMON, exports_table="x", controls_table="c", bucket="b", auth="iam", tenant_claim="-"),
    RelaySettings(**COMMON, parked_queue="p"),
    PromoterSettings(**COMMON),
    TallySettings(**COMMON, controls_table="c"),
    WorkerSettings(**COMMON, queue="thumbnails", bucket="b", controls_table="c"),
]


@pytest.mark.parametrize("settings", CASES, ids=lambda s: type(s).__name__)
def test_what_the_stacks_write_the_function_reads(settings: Settings) -> None:
    assert type(settings).from_environment(settings.to_environment()) == settings


@pytest.mark.parametrize("settings", CASES, ids=lambda s: type(s).__name__)
def test_a_missing_setting_stops_the_function_naming_every_absent_variable(settings: Settings) -> None:
    environment = settings.to_environment()
    environment.pop("HOLDFAST_STAGE")
    environment["HOLDFAST_JOBS_TABLE"] = ""
    with pytest.raises(SettingsError, match="HOLDFAST_STAGE, HOLDFAST_JOBS_TABLE not set"):
        type(settings).from_environment(environment)


def test_an_empty_setting_is_refused_where_it_is_written() -> None:
    with pytest.raises(SettingsError, match="'parked_queue' is empty"):
        RelaySettings(**COMMON, parked_queue="").to_environment()
