"""One HTTP exchange with a server that the caller named, with a limit on the whole of it: no
redirect is followed and no proxy used, so that a key goes to no other server.
"""

import contextlib
import http.client
import io
import os
import socket
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from advisor.domain.facts import AdvisorError
from advisor.domain.printable import excerpt
from advisor.engines.traits import API_KEYS


class ServerGone(AdvisorError):
    """Nothing answers at the address."""


class BadAnswer(AdvisorError):
    """The server answered with something else than asked for, or stopped in the middle."""


class Refused(AdvisorError):
    """An answer that no second try changes: a key is asked for, another server, a size."""


class HasFile(Protocol):
    """A connection with a file descriptor."""

    def fileno(self) -> int:
        """Return the descriptor."""
        ...


class Limit:
    """Seconds that an answer may take, from its request or the latest `restart`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Give the rest of the answer the whole time again."""
        self.end = time.monotonic() + self.seconds

    def remaining_s(self) -> float:
        """Seconds. Raises TimeoutError where none are left."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class _LimitedSocket(io.RawIOBase):
    """The reading end of a socket, on which all reads together keep to a limit."""

    def __init__(self, sock: socket.socket, limit: Limit) -> None:
        self.sock, self.limit = sock, limit

    def readable(self) -> bool:
        """Return True, as `io.BufferedReader` asks."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what has come. Raises TimeoutError at the limit."""
        self.sock.settimeout(self.limit.remaining_s())
        return self.sock.recv_into(buffer)


@contextlib.contextmanager
def exchange(
    url: str,
    limit: Limit,
    key: str | None,
    data: bytes | None,
    headers: Mapping[str, str],
    opened: Callable[[HasFile], None] | None = None,
) -> Iterator[http.client.HTTPResponse]:
    """Send a request and yield the answer; `key` is a bearer key, or a header "NAME: VALUE"."""
    parts = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    method = "GET" if data is None else "POST"
    name, _, value = (key or "").rpartition(": ")
    sent = {**headers}
    if key:
        sent |= {name: value} if name else {"Authorization": f"Bearer {key}"}
    with contextlib.closing(kind(parts.netloc, timeout=limit.seconds)) as connection:
        connection.connect()
        if opened is not None:
            opened(connection.sock)  # before the answer: the server may never give one
        connection.request(method, parts.path, data, sent)
        answer = http.client.HTTPResponse(connection.sock, method=method)
        answer.fp = io.BufferedReader(_LimitedSocket(connection.sock, limit))
        with contextlib.closing(answer):
            answer.begin()
            _check_status(url, answer.status, key)
            yield answer


def _check_status(url: str, status: int, key: str | None) -> None:
    """Raise Refused for a status that asks for a key or sends on to another address."""
    if status in (401, 403):
        why = f"it does not take the key that was sent (--api-key, {', '.join(API_KEYS)}, --header)"
        if not key:
            why = f"it asks for a key, set {API_KEYS[0]}, or give --api-key or --header"
        raise Refused(f"{url} answers {status}: {why}")
    if 300 <= status < 400:
        why = "it sends on to another address, which is not followed; name the server's own address"
        raise Refused(f"{url} answers {status}: {why}")


def reason(error: Exception) -> str:
    """Why an exchange failed, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate: {error.verify_message}; SSL_CERT_FILE=CA.pem names a private CA"
    return excerpt(str(getattr(error, "strerror", None) or error) or type(error).__name__)


def cut(connection: HasFile) -> None:
    """End a stream that another thread reads: a server may wait for its readers before it stops."""
    with (
        contextlib.suppress(OSError, ValueError),  # it is closed already
        socket.socket(fileno=os.dup(connection.fileno())) as end,
    ):
        end.shutdown(socket.SHUT_RDWR)
