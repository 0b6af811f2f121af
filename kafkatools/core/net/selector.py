"""Selector: wait for many sockets in one thread; another thread can end the wait
(org.apache.kafka.common.network.Selector)."""

from __future__ import annotations

import contextlib
import selectors
import socket
from typing import Generic, NamedTuple, TypeVar

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE

Data = TypeVar("Data")


class Ready(NamedTuple, Generic[Data]):
    """The data of a registered socket, and the events (READ, WRITE) it is ready for."""

    data: Data
    events: int


class Selector(Generic[Data]):
    """Waits for registered sockets. All methods belong to one thread, except `wakeup`, which any thread may call."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wakeup_receiver, self._wakeup_sender = socket.socketpair()
        self._wakeup_receiver.setblocking(False)
        self._wakeup_sender.setblocking(False)
        self._selector.register(self._wakeup_receiver, READ, None)

    def fileno(self) -> int:
        """A file descriptor that is readable while a registered socket is ready, so that another selector can wait for
        it."""
        return self._selector.fileno()

    def register(self, sock: socket.socket, events: int, data: Data) -> None:
        """Watch a socket for these events; `poll` returns `data` with them."""
        self._selector.register(sock, events, data)

    def modify(self, sock: socket.socket, events: int, data: Data) -> None:
        """Change the watched events of a socket and the data that `poll` returns with them."""
        self._selector.modify(sock, events, data)

    def unregister(self, sock: socket.socket) -> None:
        """Stop watching a socket; does nothing for a socket that is not watched."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(sock)

    def poll(self, timeout_ms: int) -> list[Ready[Data]]:
        """Wait until a socket is ready, `wakeup` is called or the time-out is over; return the ready sockets' data."""
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
        """End the current or the next `poll`. May be called from any thread."""
        with contextlib.suppress(BlockingIOError, OSError):
            self._wakeup_sender.send(b"\0")

    def close(self) -> None:
        """Close the selector; the registered sockets stay open."""
        self._selector.close()
        self._wakeup_receiver.close()
        self._wakeup_sender.close()
