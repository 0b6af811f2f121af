"""The acceptor: one address on which a broker accepts connections."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol

from kafkatools.core.broker.server.requests import Request, Response

BACKLOG = 50


class Dispatch(Protocol):
    """The request handler of a listener; `apis` has its APIs by API key."""

    apis: Mapping[int, Any]

    def __call__(self, request: Request) -> Response:
        """Handle a request and return its response: its parts, or DELAYED or SLICED when it comes later. Raises
        CloseConnection."""
        ...


class SecureStream(Protocol):
    """The encrypted bytes of one connection; `TlsStream` implements and documents it."""

    @property
    def socket(self) -> socket.socket: ...
    @property
    def principal(self) -> str: ...
    @property
    def has_pending(self) -> bool: ...
    def handshake(self) -> int: ...
    def recv_into(self, buffer: memoryview, /) -> int: ...
    def send(self, data: bytes | memoryview, /) -> int: ...
    def sendmsg(self, buffers: Sequence[bytes | memoryview], ancillary: tuple[()], flags: int, /) -> int: ...
    def send_file(self, descriptor: int, position: int, size_bytes: int) -> int: ...
    def close(self) -> None: ...


Secure = Callable[[socket.socket], SecureStream]
"""Begins TLS on an accepted socket. Raises OSError when the client is gone."""
Interceptor = Callable[[Request, Dispatch], Response]
"""Handles a request in the place of a request handler, which it may call. Raises CloseConnection."""


class _Intercepted:
    """A request handler with an interceptor before it."""

    def __init__(self, interceptor: Interceptor, dispatch: Dispatch) -> None:
        self.apis = dispatch.apis
        self._interceptor, self._dispatch = interceptor, dispatch

    def __call__(self, request: Request) -> Response:
        return self._interceptor(request, self._dispatch)


@dataclass(eq=False, repr=False)
class Acceptor:
    """One listener in Kafka's sense: a name, a bound address and a request handler.

    `is_internal` says that only other nodes of the cluster connect to it. `is_protected` says that a connection above a
    limit other than max.connections.per.ip is accepted, and a client's connection closed for it. `socket` is one of
    `bind_acceptor`; with `is_open` it listens. `secure` begins TLS on an accepted socket; None: no TLS.
    `max_first_request_bytes` limits the requests of a client that has not authenticated.
    """

    name: str
    socket: socket.socket
    dispatch: Dispatch
    _: KW_ONLY
    is_open: bool = True
    is_internal: bool = False
    is_protected: bool = False
    security_protocol: str = "PLAINTEXT"
    secure: Secure | None = None
    max_first_request_bytes: int = sys.maxsize

    def __post_init__(self) -> None:
        self.host, self.port = self.socket.getsockname()[:2]
        self._handler = self.dispatch

    def intercept(self, interceptor: Interceptor | None) -> None:
        """Pass requests to an interceptor instead of the request handler; None: to the handler again."""
        self.dispatch = self._handler if interceptor is None else _Intercepted(interceptor, self._handler)

    def open(self) -> None:
        """Accept connections from now on. Raises OSError with the address."""
        listen(self.socket)
        self.is_open = True

    def close(self) -> None:
        """Close the socket: further connections are refused."""
        self.socket.close()
        self.is_open = False


def listen(bound: socket.socket) -> None:
    """Let a bound socket accept connections. Raises OSError with the address."""
    try:
        bound.listen(BACKLOG)
    except OSError as error:
        host, port = bound.getsockname()[:2]
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error


def bind_acceptor(address: tuple[str, int]) -> socket.socket:
    """Bind a socket that does not listen yet; port 0 chooses a free port. Raises OSError with the address."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    acceptor = socket.socket(family, socket.SOCK_STREAM)
    try:
        acceptor.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        acceptor.bind(address)
    except OSError as error:
        acceptor.close()
        raise OSError(error.errno, error.strerror, f"{address[0]}:{address[1]}") from error
    acceptor.setblocking(False)
    return acceptor
