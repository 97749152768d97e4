"""AWS clients for handlers: one per service and worker, shared by its threads."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any


@cache
def client(service: str, *, answer_within: timedelta, tries: int) -> Any:
    """The boto3 client of a service, made when the first job asks for it.

    answer_within  the longest silence to bear
    tries          in all; 1 where the call must not be repeated below the handler's sight
    """
    import boto3
    from botocore.config import Config

    config = Config(
        connect_timeout=2,
        read_timeout=answer_within.total_seconds(),
        retries={"mode": "standard", "total_max_attempts": tries},
        max_pool_connections=64,  # the most threads a lane may have
    )
    # A session of its own: boto3's default one is not safe to make clients from in two threads at once. Two threads
    # that come first together make two clients, and one is forgotten.
    return boto3.session.Session().client(service, config=config)
