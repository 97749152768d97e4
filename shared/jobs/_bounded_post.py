"""One HTTP POST to an address that was checked before, within a time that the other side cannot stretch.

Not an HTTP library: those follow redirects, look names up once more, take proxies from the environment, and bound the
silence between two bytes, but not the whole, so that a receiver with a byte a second holds a worker for ever.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from functools import cache

from shared.jobs._http_answer import Answer, read_answer
from shared.jobs._outside_address import Address, Url

CONNECT_SECONDS = 3.0
SILENCE_SECONDS = 10.0
REST_SECONDS = 1.0
"""For what follows the status: a slow header is worth no more, and most of a body none."""

_PIECE = 16 * 1024


def post(
    url: Url, addresses: Sequence[Address], headers: Mapping[str, str], body: bytes, *, within_seconds: float
) -> Answer:
    """Raises OSError (TimeoutError, ssl.SSLCertVerificationError, …) and http.client.HTTPException. All but a failure
    to connect leave open whether the receiver has the request.
    """
    clock = _Clock(within_seconds)
    connection = http.client.HTTPConnection(url.host, url.port)
    with contextlib.closing(_connected(url, addresses, clock)) as sock:
        connection.sock = _Sent(sock, clock)
        with contextlib.suppress(OSError):  # a receiver may have answered, and closed, before it had read everything
            connection.request("POST", url.target, body, {"Host": url.authority, "Connection": "close", **headers})
        received = io.BufferedReader(_Received(sock, clock))
        return read_answer(received, decided=lambda: clock.shorten(REST_SECONDS))


class _Clock:
    """Time left of the whole exchange, spent by every step of it."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def shorten(self, seconds: float) -> None:
        self._end = min(self._end, time.monotonic() + seconds)

    def left(self, at_most: float) -> float:
        """Seconds, at most those; raises TimeoutError when none are left."""
        left = min(self._end - time.monotonic(), at_most)
        if left <= 0:
            raise TimeoutError("no complete answer in the time this attempt has")
        return left


class _Sent:
    """A socket, as far as http.client needs one to send, whose every send is charged to the clock. http.client itself
    sets one timeout per operation, which a receiver renews with each byte.
    """

    def __init__(self, sock: socket.socket, clock: _Clock) -> None:
        self._sock, self._clock = sock, clock

    def sendall(self, data: bytes) -> None:
        for start in range(0, len(data), _PIECE):
            self._sock.settimeout(self._clock.left(SILENCE_SECONDS))
            self._sock.sendall(data[start : start + _PIECE])


class _Received(io.RawIOBase):
    """What comes in, as BufferedReader reads it, every receive charged to the clock."""

    def __init__(self, sock: socket.socket, clock: _Clock) -> None:
        self._sock, self._clock = sock, clock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # what io gives it
        self._sock.settimeout(self._clock.left(SILENCE_SECONDS))
        return self._sock.recv_into(buffer)


def _connected(url: Url, addresses: Sequence[Address], clock: _Clock) -> socket.socket:
    """To the first address that takes the connection; nothing has been sent before it does."""
    failure: OSError = OSError(f"{url.host} has no address")
    for family, address in addresses:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(clock.left(CONNECT_SECONDS))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # head and body are two sends
            sock.settimeout(clock.left(CONNECT_SECONDS))
            # The certificate must be the host's: the name was only left out of finding the way.
            return _tls().wrap_socket(sock, server_hostname=url.host) if url.scheme == "https" else sock
        except OSError as error:
            sock.close()
            failure = error
            if isinstance(error, ssl.SSLCertVerificationError):
                break
    raise failure


@cache
def _tls() -> ssl.SSLContext:
    """Reading the root certificates takes tens of milliseconds, so once for all threads."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
