"""Ports for servers that are to know theirs before they listen, or that are to find it again after a restart."""

from __future__ import annotations

import fcntl
import os
import pathlib
import socket
from random import SystemRandom

# Below what systems give to connections (from 16,000 or 32,768 up), above what a sandbox takes; all have five digits.
_PORTS = range(13_000, 16_000)
_TRIES = 1_000
# Not in TMPDIR: runs at the same time have temporary files of their own, and the same ports.
_CLAIMS = pathlib.Path(f"/tmp/kafkatools-test-ports-{os.getuid()}")
_claims: list[int] = []


def free_port() -> int:
    """A loopback port that nothing uses, and that no other test gets while this process lives."""
    _CLAIMS.mkdir(exist_ok=True)
    for _ in range(_TRIES):
        port = SystemRandom().choice(_PORTS)
        claim = os.open(_CLAIMS / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        if _has_claimed(claim) and _is_free(port):
            _claims.append(claim)
            return port
        os.close(claim)
    raise AssertionError("there is no free port")


def _has_claimed(claim: int) -> bool:
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
