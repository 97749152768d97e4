"""Which ports are free, and who is told when one is not."""

from __future__ import annotations

import socket

from local.place import LocalCloudError


def is_free(port: int) -> bool:
    """Nobody listens there. SO_REUSEADDR as servers set it: a port whose last connections linger counts as free."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def require_free(port: int) -> None:
    """Raises LocalCloudError naming HOLDFAST_PORT when somebody has the port."""
    if not is_free(port):
        raise LocalCloudError(
            f"port {port} on 127.0.0.1 is in use by another program; "
            f"choose another one, for example: make up HOLDFAST_PORT={port + 100}"
        )


def free_above(port: int) -> int:
    """The first free port above this one, among the next fifty. Raises LocalCloudError when there is none."""
    for candidate in range(port + 1, port + 51):
        if is_free(candidate):
            return candidate
    raise LocalCloudError(f"no free port from {port + 1} to {port + 50} on 127.0.0.1; set HOLDFAST_PORT elsewhere")
