"""A broker's sockets: accept connections and run their input and output, on one thread with one selector (Kafka's
SocketServer and Selector). `connection.py` has the rules of a connection; `ConnectionLimits` bounds their number."""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
from collections import deque
from collections.abc import Callable

from kafkatools.core.broker.server.acceptor import Acceptor, Interceptor
from kafkatools.core.broker.server.connection import READ, WRITE, Connection
from kafkatools.core.broker.server.connection_limits import ConnectionLimits, OwnedDescriptor
from kafkatools.core.broker.server.requests import NO_SHORTCUT, HasDescriptor
from kafkatools.core.broker.server.slow_lane import SlowLane
from kafkatools.core.control_characters import visible
from kafkatools.core.net.addresses import java_address

MAX_REQUEST_BYTES = 100 * 1024 * 1024
MAX_BUFFERED_BYTES = 256 * 1024 * 1024
ACCEPT_PAUSE_MS = 1000
IDLE_CHECK_MS = 1000
_UNUSABLE_SOCKET = (errno.EBADF, errno.EINVAL, errno.ENOTSOCK)
"""Errors of accept(2) after which the listening socket never accepts a connection."""


class Listener:
    """Accepts connections of all acceptors and runs their input and output; `poll` is one turn."""

    def __init__(
        self,
        *,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        max_buffered_bytes: int = MAX_BUFFERED_BYTES,
        max_idle_ms: int = 600_000,
        limits: ConnectionLimits | None = None,
        schedule: Callable[[int, Callable[[int], None]], object] = lambda delay_ms, run: None,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`report` gets a line for each client whose TLS handshake or SASL authentication failed, and for each pause
        after a failed accept."""
        self.limits = limits or ConnectionLimits()
        self.max_request_bytes = max_request_bytes
        self.max_buffered_bytes = max_buffered_bytes
        self.max_idle_ms = max_idle_ms
        self.buffered_bytes = 0
        self.connections: set[Connection] = set()
        self.schedule = schedule
        self._report = report
        self.last_request_ms = self._now_ms = self._next_idle_check_ms = 0
        self._accept_again_ms: int | None = None
        self.lane = SlowLane()
        self._unfinished: deque[Connection] = deque()
        self.acceptors: list[Acceptor] = []
        self._held: dict[Acceptor, tuple[socket.socket, str, int]] = {}
        self._refused: set[socket.socket] = set()
        self.is_intercepted = False
        self._selector = selectors.DefaultSelector()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._selector.register(self._wake_receiver, READ, None)

    @property
    def port(self) -> int:
        """The port of the first acceptor."""
        return int(self.acceptors[0].port)

    def add_acceptor(self, acceptor: Acceptor) -> None:
        """Serve one more address, whose socket the listener closes from now on."""
        self.acceptors.append(acceptor)
        if acceptor.is_open:
            self._watch_acceptor(acceptor)

    def intercept(self, interceptor: Interceptor | None) -> None:
        """Pass requests to an interceptor, not to shortcuts and handlers; None: to these again."""
        self.is_intercepted = interceptor is not None
        for acceptor in self.acceptors:
            acceptor.intercept(interceptor)
        for connection in self.connections if self.is_intercepted else ():
            if connection.shortcut is not None:
                connection.shortcut = NO_SHORTCUT

    def open_acceptors(self) -> None:
        """Accept connections on all addresses from now on. Raises OSError."""
        for acceptor in self.acceptors:
            if not acceptor.is_open:
                acceptor.open()
                self._watch_acceptor(acceptor)

    def _watch_acceptor(self, acceptor: Acceptor) -> None:
        """Wait for connections of an acceptor; during a pause after a failed accept `maintain` does so later."""
        if self._accept_again_ms is None:
            self._selector.register(acceptor.socket, READ, acceptor)

    def close_acceptor(self, acceptor: Acceptor) -> None:
        """Accept no more connections on this address; the open ones stay."""
        self.unwatch(acceptor.socket)
        if acceptor in self._held:
            self._held.pop(acceptor)[0].close()
        acceptor.close()

    def watch(self, descriptor: HasDescriptor, run: Callable[[], None]) -> None:
        """Wait in `poll` for another descriptor too, and call `run` when it is readable."""
        self._selector.register(descriptor, READ, run)

    def unwatch(self, descriptor: HasDescriptor) -> None:
        """Stop waiting for a descriptor of `watch`."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(descriptor)

    def poll(self, timeout_ms: int | None, now_ms: int) -> int:
        """Wait at most `timeout_ms` (None: for ever) for events, handle them, and run one slice of the slow lane;
        returns the number of events.

        It does not wait while the slow lane or a connection has work left, and at most ACCEPT_PAUSE_MS during a pause
        after a failed accept. Raises OSError for a listening socket that is closed or invalid.
        """
        self._now_ms = now_ms
        if self._accept_again_ms is not None:
            timeout_ms = min(ACCEPT_PAUSE_MS, timeout_ms if timeout_ms is not None else ACCEPT_PAUSE_MS)
        if self.lane.is_busy or self._unfinished:
            timeout_ms = 0
        events = self._selector.select(None if timeout_ms is None else timeout_ms / 1000)
        for key, mask in events:
            owner = key.data
            if isinstance(owner, Connection):
                self._run_connection(owner, mask)
            elif isinstance(owner, Acceptor):
                self._accept(owner)
            elif owner is None:
                with contextlib.suppress(BlockingIOError):
                    while self._wake_receiver.recv(4096):
                        pass
            else:
                owner()
        for _ in range(len(self._unfinished)):
            self._unfinished.popleft().go_on()
        self.lane.turn()
        return len(events)

    def go_on_later(self, connection: Connection) -> None:
        """Handle the remaining frames of a connection in the next turn, because its share of this turn is used up."""
        if not connection.is_unfinished:
            connection.is_unfinished = True
            self._unfinished.append(connection)

    def maintain(self, now_ms: int) -> None:
        """Close idle connections that are not muted or throttled, report refused ones, and accept again after a
        pause. The node calls this between polls."""
        self._now_ms = now_ms
        for acceptor in list(self._held):
            self._maybe_serve_held(acceptor)
        self.limits.close_excess(self.connections)
        if self._accept_again_ms is not None and now_ms >= self._accept_again_ms:
            self._accept_again_ms = None
            for acceptor in self._accepting():
                self._selector.register(acceptor.socket, READ, acceptor)
        if now_ms >= self._next_idle_check_ms:
            self._next_idle_check_ms = now_ms + IDLE_CHECK_MS
            self.limits.report_refused(now_ms)
            oldest = now_ms - self.max_idle_ms
            for connection in [c for c in self.connections if c.last_active_ms < oldest]:
                if not connection.is_muted and not connection.is_throttled:
                    connection.close()

    def _run_connection(self, connection: Connection, mask: int) -> None:
        if connection.is_closed:
            return
        connection.last_active_ms = self._now_ms
        if not connection.is_peer:
            self.last_request_ms = self._now_ms
        if connection.is_handshaking:
            connection.continue_handshake()
            return
        if mask & WRITE:
            connection.handle_writable()
        if mask & READ and not connection.is_closed:
            connection.handle_readable()

    def _accepting(self) -> list[Acceptor]:
        return [acceptor for acceptor in self.acceptors if acceptor.is_open and acceptor not in self._held]

    def _accept(self, acceptor: Acceptor) -> None:
        if self._accept_again_ms is not None:
            return
        try:
            sock, address = acceptor.socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno in _UNUSABLE_SOCKET:
                raise
            self._pause_accepting(acceptor, error)
            return
        host = java_address(str(address[0]))
        delay_ms = self.limits.rates.delay_ms(acceptor.name, self._now_ms, is_protected=acceptor.is_protected)
        has_slot = self._has_slot(acceptor)
        if not has_slot:
            self.limits.report_waiting(len(self.connections), self._now_ms)
        if delay_ms or not has_slot:
            self.unwatch(acceptor.socket)
            self._held[acceptor] = (sock, host, self._now_ms + delay_ms)
            if delay_ms:
                self.schedule(delay_ms, lambda _now_ms: None)  # `maintain` serves it in the turn of this timer
        else:
            self._serve(acceptor, sock, host)

    def _pause_accepting(self, failed: Acceptor, error: OSError) -> None:
        """Accept no connections for ACCEPT_PAUSE_MS after a failed accept, and report its error (Kafka's Acceptor logs
        any error and continues).

        Without file descriptors or memory, and when a Linux security module or seccomp denies accept, the connection
        stays in the queue of the socket. The socket stays readable, and `poll` would never wait.
        """
        for acceptor in self._accepting():
            self._selector.unregister(acceptor.socket)
        self._accept_again_ms = self._now_ms + ACCEPT_PAUSE_MS
        problem = f"WARN Error while accepting a connection on {failed.name}: {error}"
        self._report(visible(f"{problem}; accepting again in {ACCEPT_PAUSE_MS} ms"))

    def _has_slot(self, acceptor: Acceptor) -> bool:
        return self.limits.has_slot(acceptor.name, len(self.connections), is_protected=acceptor.is_protected)

    def _maybe_serve_held(self, acceptor: Acceptor) -> None:
        """Serve the waiting connection of an acceptor, if its time has come and there is room, and accept others
        again."""
        sock, host, until_ms = self._held[acceptor]
        if self._now_ms < until_ms or not self._has_slot(acceptor):
            return
        del self._held[acceptor]
        self._watch_acceptor(acceptor)
        self._serve(acceptor, sock, host)

    def _serve(self, acceptor: Acceptor, sock: socket.socket, host: str) -> None:
        is_protected = acceptor.is_protected
        refusal_ms = self.limits.rates.refusal_ms(host, acceptor.name, self._now_ms, is_protected=is_protected)
        if refusal_ms and len(self.connections) + len(self._refused) < self.limits.room:
            self._refused.add(sock)
            self.schedule(refusal_ms, lambda _now_ms: self._close_refused(sock))
            return
        if refusal_ms or not self.limits.admit(
            self.connections, host, self._now_ms, is_protected=is_protected, listener=acceptor.name
        ):
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            connection = Connection(self, acceptor, sock, self._now_ms, host)
        except OSError:  # the client is gone before TLS could begin
            sock.close()
            self.limits.forget(host, acceptor.name)
            return
        self.connections.add(connection)
        self._selector.register(connection.socket, READ, connection)

    def _close_refused(self, sock: socket.socket) -> None:
        self._refused.discard(sock)
        sock.close()

    def change_events(self, connection: Connection, before: int, after: int) -> None:
        """Change the selector's events of a connection; 0 means none, for a muted connection."""
        if not before:
            self._selector.register(connection.socket, after, connection)
        elif not after:
            self._selector.unregister(connection.socket)
        else:
            self._selector.modify(connection.socket, after, connection)

    def forget(self, connection: Connection, events: int) -> None:
        """Remove a connection that is being closed."""
        if events:
            self._selector.unregister(connection.socket)
        self.connections.discard(connection)
        self.limits.forget(connection.client_host, connection.acceptor.name)

    def duplicate(self, file: HasDescriptor) -> OwnedDescriptor | None:
        """Duplicate a descriptor for a response to a slow client; None if the limits or the system have none left."""
        try:
            return self.limits.duplicate(file.fileno(), len(self.connections))
        except OSError:
            return None

    def note_refused_client(self, connection: Connection, error: Exception) -> None:
        """Report that a client failed to authenticate."""
        line = f"WARN {connection.client_host} on {connection.acceptor.name} was refused: {error}"
        self._report(visible(line))  # the error may repeat the subject of the client's certificate

    def wakeup(self) -> None:
        """Make `poll` return; safe from signal handlers and other threads."""
        with contextlib.suppress(BlockingIOError, OSError):
            self._wake_sender.send(b"\0")

    def close(self) -> None:
        """Close all connections, acceptors and the selector."""
        self.lane.close()
        for connection in list(self.connections):
            connection.close()
        for sock in (*self._refused, *(held[0] for held in self._held.values())):
            sock.close()
        for acceptor in self.acceptors:
            if acceptor.is_open and self._accept_again_ms is None:
                self.unwatch(acceptor.socket)
            acceptor.socket.close()
        self._wake_receiver.close()
        self._wake_sender.close()
        self._selector.close()
