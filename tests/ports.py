"""Ports for servers that a test starts. Not a test itself."""

import socket

_KEPT: list[socket.socket] = []


def free_port() -> int:
    """A port of 127.0.0.1 that nobody else on this machine is given before these tests end.

    It stays bound here, without listening: the system then hands it to no other process, while a
    server that allows the reuse of its address, as all do that are started here, still may take it.
    """
    kept = socket.socket()
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):  # llama-server asks for the second
        kept.setsockopt(socket.SOL_SOCKET, option, 1)
    kept.bind(("127.0.0.1", 0))
    _KEPT.append(kept)
    return int(kept.getsockname()[1])
