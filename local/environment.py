"""The environments of what the local cloud starts, and its AWS clients. Nothing here can reach a real AWS account: the
developer's own AWS variables, profiles and files are left out, and the credentials are the emulator's dummies.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from local.place import Place

ACCOUNT = "000000000000"
REGION = "us-east-1"
KEY_ID = SECRET = "test"

_KEPT_FOR_EMULATOR = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
"""Functions inherit the emulator's environment. Whatever else the developer has set (PYTHONPATH above all) would hide
a dependency that is missing from a function's zip.
"""


def emulator_environment(place: Place, port: int) -> dict[str, str]:
    """For the emulator. No AWS_ENDPOINT_URL: it would win over the emulator's own address in every function."""
    return {
        **{name: os.environ[name] for name in _KEPT_FOR_EMULATOR if name in os.environ},
        **_dummies(place),
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "AUTH": "true" if place.enforce_iam else "false",
        "TMPDIR": str(place.home / "tmp"),
        # It would otherwise open ports for IoT and SFTP, and tidy up containers that may be someone else's.
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "DOCKER_HOST": f"unix://{place.home}/no-docker",
    }


def cdk_environment(place: Place, endpoint: str) -> dict[str, str]:
    """For the CDK command line and the app it runs: this Python and this Node first, the emulator as all of AWS."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_", "HOLDFAST_"))}
    return {
        **kept,
        **_dummies(place),
        # Not resolved: a virtual environment's python is a link, and its folder is what makes it one.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ENDPOINT_URL_S3": endpoint,
        "CDK_HOME": str(place.home / "cdk-home"),
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_DISABLE_VERSION_CHECK": "true",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def client(service: str, endpoint: str, **config: Any) -> Any:
    """A boto3 client of the emulator. An empty `proxies` keeps it from asking a company proxy for 127.0.0.1."""
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=KEY_ID,
        aws_secret_access_key=SECRET,
        config=Config(proxies={}, retries={"total_max_attempts": 2}, **config),
    )


def _dummies(place: Place) -> Mapping[str, str]:
    nowhere = str(place.home / "no-aws-files-here")
    return {
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": nowhere,
        "AWS_SHARED_CREDENTIALS_FILE": nowhere,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
