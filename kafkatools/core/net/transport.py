"""Bytes over one connection (TransportLayer). TLS is another implementation (security/tls_transport.py)."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Sequence
from typing import Protocol

from kafkatools.core.config import Config
from kafkatools.core.net.addresses import Address

Buffer = bytes | bytearray | memoryview

# The most buffers one sendmsg takes (IOV_MAX is 1024 on Linux and macOS).
MAX_BUFFERS = 1024


class Transport(Protocol):
    """A connection that never blocks."""

    @property
    def socket(self) -> socket.socket: ...

    def connect(self) -> bool:
        """Begin to connect; True when that is done at once. Raises OSError."""

    def finish_connect(self) -> None:
        """After the socket became writable. Raises OSError when the connection failed."""

    def handshake(self) -> int:
        """Go on with what comes before the first frame: the events to wait for until the next call, 0 when it is over.
        Raises KafkaError without the node's name."""

    def recv_into(self, buffer: memoryview) -> int | None:
        """Bytes received, 0 at the end of the stream, None when there are none now. A count below the buffer's size
        says that nothing is left to be had without the selector. Raises OSError, KafkaError."""

    def sendmsg(self, buffers: Sequence[Buffer]) -> int:
        """Bytes taken of these buffers, 0 when the socket is full. Raises OSError."""

    def sendfile(self, file_descriptor: int, position: int, count: int) -> int:
        """Bytes of a file sent, 0 when the socket is full. Raises OSError."""

    def close(self) -> None:
        """Close; twice is no error."""


TransportFactory = Callable[[Address, str], Transport]


class PlaintextTransport:
    """A TCP connection as it is."""

    def __init__(self, address: Address, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> None:
        self._address = address
        self._socket = socket.socket(address.family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if send_buffer_bytes > 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        if receive_buffer_bytes > 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)

    @property
    def socket(self) -> socket.socket:
        return self._socket

    def connect(self) -> bool:
        """Begin the TCP handshake."""
        result = self._socket.connect_ex(self._address.sockaddr)
        if result in (0, errno.EISCONN):
            return True
        if result in (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN):
            return False
        raise OSError(result, os.strerror(result))

    def finish_connect(self) -> None:
        """Raise what the handshake came to."""
        result = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if result:
            raise OSError(result, os.strerror(result))

    def handshake(self) -> int:
        return 0

    def recv_into(self, buffer: memoryview) -> int | None:
        try:
            return self._socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return None

    def sendmsg(self, buffers: Sequence[Buffer]) -> int:
        """One gathering write."""
        try:
            return self._socket.sendmsg(buffers[:MAX_BUFFERS])
        except (BlockingIOError, InterruptedError):
            return 0

    def sendfile(self, file_descriptor: int, position: int, count: int) -> int:
        try:
            return os.sendfile(self._socket.fileno(), file_descriptor, position, count)
        except (BlockingIOError, InterruptedError):
            return 0

    def close(self) -> None:
        self._socket.close()


def plaintext_factory(config: Config) -> TransportFactory:
    """Plain TCP with the configured buffer sizes."""
    send_bytes, receive_bytes = config.send_buffer_bytes, config.receive_buffer_bytes

    def make(address: Address, host: str) -> PlaintextTransport:
        return PlaintextTransport(address, send_bytes, receive_bytes)

    return make
