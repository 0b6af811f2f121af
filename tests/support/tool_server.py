"""Runs Apache Kafka's tools in one JVM, one after the other: the start of a JVM of its own takes most of a tool's
processor time.

Rules: a server runs one tool at a time, and tools that run at the same time have servers of their own. A tool that
takes longer than its time is killed with its server. What goes over the pipes: ToolServer.java.
"""

from __future__ import annotations

import atexit
import contextlib
import struct
import subprocess
import threading
from collections.abc import Callable, Sequence

_idle: list[ToolServer] = []
_lock = threading.Lock()


class ToolServer:
    """A JVM that waits for tools to run."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def run(self, words: Sequence[str], stdin: bytes) -> tuple[int, bytes, bytes]:
        """Run a class with arguments; return its exit status, stdout and stderr. Raises OSError or struct.error when
        the server ends before."""
        assert self._process.stdin is not None
        self._process.stdin.write(
            struct.pack(">i", len(words)) + b"".join(map(_utf, words)) + struct.pack(">i", len(stdin)) + stdin
        )
        self._process.stdin.flush()
        (status,) = struct.unpack(">i", self._read(4))
        return status, self._reply(), self._reply()

    def _reply(self) -> bytes:
        (length,) = struct.unpack(">i", self._read(4))
        return self._read(length)

    def _read(self, count: int) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.read(count)

    def close(self) -> None:
        """Kill it."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()


def _utf(word: str) -> bytes:
    """A string as Java's readUTF takes it, which has two bytes for NUL and surrogates for what is beyond 16 bits."""
    units = word.encode("utf-16-be", "surrogatepass")
    encoded = b"".join(
        chr(unit).encode("utf-8", "surrogatepass") if unit else b"\xc0\x80"
        for (unit,) in struct.iter_unpack(">H", units)
    )
    return struct.pack(">H", len(encoded)) + encoded


def run(
    start: Callable[[], Sequence[str]], words: Sequence[str], stdin: bytes, timeout: float
) -> subprocess.CompletedProcess[bytes]:
    """Run a tool in an idle server, or in another one that `start` gives the command of. Raises
    subprocess.TimeoutExpired."""
    with _lock:
        server = _idle.pop() if _idle else None
    if server is None:
        server = ToolServer(start())
    late = threading.Timer(timeout, server.close)
    late.start()
    try:
        status, stdout, stderr = server.run(words, stdin)
    except (OSError, struct.error, ValueError):
        is_late = not late.is_alive()
        server.close()
        if is_late:
            raise subprocess.TimeoutExpired(list(words), timeout) from None
        raise
    finally:
        late.cancel()
    with _lock:
        _idle.append(server)
    return subprocess.CompletedProcess(list(words), status, stdout, stderr)


@atexit.register
def close_idle() -> None:
    """End the servers that run no tool."""
    with _lock:
        for server in _idle:
            server.close()
        _idle.clear()
