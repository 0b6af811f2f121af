"""Waiting on many sockets at once, and being woken from another thread (org.apache.kafka.common.network.Selector)."""

from __future__ import annotations

import contextlib
import selectors
import socket
from typing import Generic, NamedTuple, TypeVar

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE

Data = TypeVar("Data")


class Ready(NamedTuple, Generic[Data]):
    """A registered socket's data and what it is ready for."""

    data: Data
    events: int


class Selector(Generic[Data]):
    """`register`, `modify`, `unregister` and `poll` belong to one thread; `wakeup` may be called from any."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wakeup_receiver, self._wakeup_sender = socket.socketpair()
        self._wakeup_receiver.setblocking(False)
        self._wakeup_sender.setblocking(False)
        self._selector.register(self._wakeup_receiver, READ, None)

    def fileno(self) -> int:
        """Readable while a registered socket is ready: one selector can wait for another."""
        return self._selector.fileno()

    def register(self, sock: socket.socket, events: int, data: Data) -> None:
        """Watch a socket; `data` comes back from `poll`."""
        self._selector.register(sock, events, data)

    def modify(self, sock: socket.socket, events: int, data: Data) -> None:
        """Watch a socket for other events."""
        self._selector.modify(sock, events, data)

    def unregister(self, sock: socket.socket) -> None:
        """Stop watching; a socket that is not watched is no error."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(sock)

    def poll(self, timeout_ms: int) -> list[Ready[Data]]:
        """Wait until something is ready, `wakeup` is called or the time is over."""
        ready: list[Ready[Data]] = []
        for key, events in self._selector.select(max(0, timeout_ms) / 1000):
            if key.fileobj is self._wakeup_receiver:
                self._drain_wakeups()
            else:
                ready.append(Ready(key.data, events))
        return ready

    def _drain_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wakeup_receiver.recv(4096):
                pass

    def wakeup(self) -> None:
        """End the present or the next `poll`. A full pipe means that it is woken already."""
        with contextlib.suppress(BlockingIOError, OSError):
            self._wakeup_sender.send(b"\0")

    def close(self) -> None:
        """Close; the registered sockets stay open."""
        self._selector.close()
        self._wakeup_receiver.close()
        self._wakeup_sender.close()
