"""The usual worker of a lane whose jobs read and write files."""

from __future__ import annotations

import boto3

from benchmarks.start.stock.worker import handler as handler

s3 = boto3.client("s3")
