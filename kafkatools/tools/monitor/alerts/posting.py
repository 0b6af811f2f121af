"""POST a body by HTTP within a time for the whole answer.

The time-out of a socket is one of each read: a server that sends a byte every few seconds would hold the caller for
hours. So a timer shuts the connection down when the time of the request is over; only a TLS handshake has the
time-out of its reads alone. Redirects are not followed. Proxies are those of the environment.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener


def post(request: Request, timeout_s: float) -> None:
    """Send a request and return when its status is 2xx. Raises HTTPError for any other status, TimeoutError without a
    status after `timeout_s`, OSError, HTTPException and ValueError."""
    deadline = _Deadline()
    opener = build_opener(_NoRedirects, _Handler(deadline))
    timer = threading.Timer(timeout_s, deadline.expire)
    timer.daemon = True
    timer.start()
    try:
        with opener.open(request, timeout=timeout_s):
            return
    except (OSError, HTTPException):
        if deadline.is_over:
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()


class _Deadline:
    """Shuts down the connection of a request when its time is over. `_lock` guards the attributes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.is_over = False

    def watch(self, connected: socket.socket) -> None:
        """Shut down this socket at the deadline. Raises TimeoutError when that has passed."""
        with self._lock:
            self._socket = connected
            if self.is_over:
                raise TimeoutError

    def expire(self) -> None:
        """End the request: a read that waits returns the end of the stream."""
        with self._lock:
            self.is_over = True
            if self._socket is not None:
                with suppress(OSError):  # the request has ended just now
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *args: object, **kwargs: object) -> None:
        """Follow no redirect."""


class _Connection(HTTPConnection):
    def __init__(self, host: str, *, deadline: _Deadline, timeout: float) -> None:
        super().__init__(host, timeout=timeout)
        self._deadline = deadline

    def connect(self) -> None:
        """Connect, and let the deadline watch the socket."""
        super().connect()
        self._deadline.watch(self.sock)


class _TlsConnection(_Connection, HTTPSConnection):
    """The same with TLS."""


class _Handler(HTTPHandler, HTTPSHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: Request) -> HTTPResponse:
        """Open a connection that has the deadline."""
        return self.do_open(partial(_Connection, deadline=self._deadline), req)

    def https_open(self, req: Request) -> HTTPResponse:
        """Open a connection with TLS that has the deadline."""
        return self.do_open(partial(_TlsConnection, deadline=self._deadline), req)
