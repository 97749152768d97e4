from __future__ import annotations

from typing import Any

import boto3
import pytest
from moto import mock_aws

from local import samples
from shared.adapters.files import S3Files
from tests.unit.test_invoice_csv import invoices_in


def test_the_same_month_is_made_on_every_machine() -> None:
    assert samples.write_month(500, seed=7) == samples.write_month(500, seed=7)
    assert samples.write_month(500, seed=7) != samples.write_month(500, seed=8)
    first = samples.write_month().decode().splitlines()[1]
    assert first == "2026-05-00001,2026-05-01,2026-06-30,Žlutý Kotel s.r.o.,CZK,2656.89,21,557.95,3214.84"


@pytest.mark.parametrize("rows", [1, 31, 3_000])
def test_a_month_of_any_size_is_what_the_export_accepts(rows: int) -> None:
    invoices = invoices_in(samples.write_month(rows, month="2028-02"), "made.csv")

    assert len(invoices) == rows
    assert {f"{i.issued_on:%Y-%m}" for i in invoices} == {"2028-02"}


def test_loading_puts_the_month_where_the_export_looks_for_it() -> None:
    with mock_aws():
        client: Any = boto3.client("s3", "us-east-1", aws_access_key_id="test", aws_secret_access_key="test")
        client.create_bucket(Bucket="files")

        assert samples.load(client, "files") == ["invoices/acme-eu/2026-05.csv"]

        data = S3Files(client, "files").read("invoices/acme-eu/2026-05.csv")
        assert len(invoices_in(data, "loaded")) == samples.SAMPLE_INVOICES


@pytest.mark.parametrize("endpoint", ["https://s3.eu-central-1.amazonaws.com", "", "127.0.0.1:4566"])
def test_samples_go_to_a_local_cloud_only(endpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        samples.main(["--bucket", "b", "--endpoint-url", endpoint])

    assert "give the address of a local cloud" in capsys.readouterr().err
