"""Transport: the bytes of one non-blocking connection (TransportLayer). security/tls_transport.py implements TLS."""

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
    """The interface of a non-blocking connection to a node, plain or with TLS."""

    @property
    def socket(self) -> socket.socket: ...

    def connect(self) -> bool:
        """Start to connect; return True if the connection is established at once. Raises OSError."""

    def finish_connect(self) -> None:
        """Complete the connection after its socket became writable. Raises OSError when the connection failed."""

    def handshake(self) -> int:
        """Continue the TLS handshake, if there is one: return the socket events to wait for, or 0 when it is complete.
        Raises KafkaError without the node's name."""

    def recv_into(self, buffer: memoryview) -> int | None:
        """Receive into the buffer: the number of bytes, 0 at the end of the stream, None when nothing is available. A
        count below the buffer's size means that no more bytes are available without waiting. Raises OSError,
        KafkaError."""

    def sendmsg(self, buffers: Sequence[Buffer]) -> int:
        """Send from these buffers; return the number of bytes sent, 0 when the socket's buffer is full. Raises
        OSError."""

    def close(self) -> None:
        """Close the connection. Safe to call again."""


TransportFactory = Callable[[Address, str], Transport]


class PlaintextTransport:
    """A TCP connection without TLS. A buffer size of zero or less leaves the system's default."""

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
        """Start the TCP handshake; return True if the connection is established at once. Raises OSError."""
        result = self._socket.connect_ex(self._address.sockaddr)
        if result in (0, errno.EISCONN):
            return True
        if result in (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN):
            return False
        raise OSError(result, os.strerror(result))

    def finish_connect(self) -> None:
        """Check the result of the TCP handshake. Raises OSError when it failed."""
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
        """Send the first 1024 buffers with one gathering write; return the number of bytes sent, 0 when the socket's
        buffer is full. Raises OSError."""
        try:
            return self._socket.sendmsg(buffers[:MAX_BUFFERS])
        except (BlockingIOError, InterruptedError):
            return 0

    def close(self) -> None:
        self._socket.close()


def plaintext_factory(config: Config) -> TransportFactory:
    """A factory of TCP connections with the configured buffer sizes (send.buffer.bytes, receive.buffer.bytes; -1 for
    the system's default)."""
    send_bytes, receive_bytes = config.send_buffer_bytes, config.receive_buffer_bytes
    return lambda address, host: PlaintextTransport(address, send_bytes, receive_bytes)
