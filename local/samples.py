"""A month of invoices to try the export with, made from a seed: `python -m local.samples --help`."""

from __future__ import annotations

import argparse
import calendar
import csv
import io
import os
import random
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from urllib.parse import urlsplit

from shared.jobs._invoice_csv import HEADER

TENANT, MONTH = "acme-eu", "2026-05"
SAMPLE_INVOICES = 24

_CUSTOMERS: tuple[tuple[str, str, str], ...] = (  # name, currency, VAT in percent: all invented
    ("Nordwind Kabelwerke GmbH & Co. KG", "EUR", "19"),
    ("Blåklokke Møbler A/S", "DKK", "25"),
    ("Žlutý Kotel s.r.o.", "CZK", "21"),
    ("Łąka i Źródło sp. z o.o.", "PLN", "23"),
    ("L'Atelier des Écluses SARL", "EUR", "20"),
    ("Ελιά & Θάλασσα Α.Ε.", "EUR", "24"),
    ("Пекарна Синя Гора ТОВ", "EUR", "0"),
    ("Ægir & Ýmir Veiðarfæri ehf.", "EUR", "0"),
    ("Muinasjutu Tööstus OÜ", "EUR", "22"),
    ("Greyfen Paper Mills Ltd", "GBP", "20"),
    ("Quetzal Tornillos S.L.", "EUR", "21"),
    ("Ştefăniţa Vâlcea Sticlă S.R.L.", "RON", "19"),
)


def write_month(rows: int = SAMPLE_INVOICES, *, month: str = MONTH, seed: int = 1) -> bytes:
    """CSV with this many invoices issued in `month` (YYYY-MM), the same bytes for the same arguments everywhere."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(HEADER)
    writer.writerows(_invoices(rows, month, random.Random(seed)))
    return text.getvalue().encode()


def _invoices(rows: int, month: str, dice: random.Random) -> Iterator[tuple[object, ...]]:
    first = date.fromisoformat(f"{month}-01")
    days = calendar.monthrange(first.year, first.month)[1]
    for number in range(1, rows + 1):
        customer, currency, rate = _CUSTOMERS[dice.randrange(len(_CUSTOMERS))]
        issued_on = first + timedelta(days=(number - 1) * days // rows)
        due_on = issued_on + timedelta(days=(14, 30, 60)[dice.randrange(3)])
        net = Decimal(dice.randrange(1_000, 2_500_000)) / 100
        vat = (net * Decimal(rate) / 100).quantize(Decimal("0.01"), ROUND_HALF_UP)
        yield (
            f"{month}-{number:05}",
            issued_on,
            due_on,
            customer,
            currency,
            f"{net:.2f}",
            rate,
            f"{vat:.2f}",
            f"{net + vat:.2f}",
        )


def load(s3_client: Any, bucket: str, *, rows: int = SAMPLE_INVOICES) -> list[str]:
    """Put the sample month where an export of tenant acme-eu, month 2026-05 looks for it; return the keys written."""
    key = f"invoices/{TENANT}/{MONTH}.csv"
    s3_client.put_object(Bucket=bucket, Key=key, Body=write_month(rows), ContentType="text/csv; charset=utf-8")
    return [key]


def main(arguments: list[str] | None = None) -> int:
    """Load the sample month into the bucket of a local cloud."""
    import boto3

    parser = argparse.ArgumentParser(prog="python -m local.samples", description=main.__doc__)
    parser.add_argument("--bucket", required=True)
    parser.add_argument(
        "--rows", type=int, default=SAMPLE_INVOICES, help="invoices in the month (default: %(default)s)"
    )
    parser.add_argument(
        "--endpoint-url",
        default=os.environ.get("AWS_ENDPOINT_URL"),
        help="of the local cloud, such as http://127.0.0.1:4566 (default: AWS_ENDPOINT_URL)",
    )
    given = parser.parse_args(arguments)
    if given.rows < 1:
        parser.error(f"--rows {given.rows}: a month has at least one invoice")
    if urlsplit(given.endpoint_url or "").hostname not in ("127.0.0.1", "localhost", "::1"):
        # Without an endpoint boto3 would take the developer's own AWS account.
        parser.error(f"--endpoint-url {given.endpoint_url}: give the address of a local cloud on this machine")
    client = boto3.client(
        "s3",
        endpoint_url=given.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    for key in load(client, given.bucket, rows=given.rows):
        print(f"s3://{given.bucket}/{key}: {given.rows} invoices")
    return 0


if __name__ == "__main__":
    sys.exit(main())
