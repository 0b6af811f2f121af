"""A broker's sockets: accept connections, read frames, write responses, on one thread with one selector (Kafka's
SocketServer and Selector).

Rules:
- The requests of a connection are handled and responded to in their order. While a request is delayed, or its response
  does not fit into the socket, the connection is muted: it is not read. So a slow reader costs one response. Only
  repeated writes, which a shortcut handles, need not wait for each other's responses (`REPLY_PENDING`); the first other
  request does.
- Memory grows with the bytes that arrived, never with the size a frame announces. A frame above `max_request_bytes`
  closes the connection. So does a frame for which all receive buffers together would exceed `max_buffered_bytes`.
- A handler gets a frame as a writable view on the receive buffer, valid until the handler returns.
- A connection that has handled frames for `TURN_NS` continues in the next turn, after the other connections. A large
  request is handled in slices (`slow_lane.py`); its connection is muted until the response is complete.
- Once the socket is full, a queued file region gets its own descriptor (dup). A deleted segment then cannot be replaced
  by another file under it. `ConnectionLimits` bounds the connections and these descriptors.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final

from kafkatools.core.broker.server.acceptor import Acceptor, Interceptor
from kafkatools.core.broker.server.connection_limits import ConnectionLimits, OwnedDescriptor, release_region
from kafkatools.core.broker.server.receive_memory import Memory, allocated, can_grow
from kafkatools.core.broker.server.requests import (
    DELAYED,
    NO_SHORTCUT,
    SLICED,
    CloseConnection,
    FileRegion,
    HasDescriptor,
    Request,
    Response,
    Shortcut,
)
from kafkatools.core.broker.server.slow_lane import SlowLane
from kafkatools.core.clock import monotonic_ns

_INT32 = Struct(">i")
_HEADER = Struct(">hhi")

INITIAL_BUFFER_BYTES = 16 * 1024
READ_BUFFER_BYTES = 256 * 1024
MAX_REQUEST_BYTES = 100 * 1024 * 1024
MAX_BUFFERED_BYTES = 256 * 1024 * 1024
FLUSH_BYTES = 64 * 1024
TURN_NS = 10_000_000
ACCEPT_PAUSE_MS = 1000
IDLE_CHECK_MS = 1000
SENDFILE_CHUNK = 1 << 20
MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE
REPLY_PENDING: Final = b"pending"
MAX_PENDING_REPLIES = 64


class Connection:
    """One client connection: receive buffer with unread bytes from `_start` to `_end`, output queue, and whether it is
    muted. Requests of a peer, another node of the cluster, do not count as use of the broker."""

    def __init__(self, listener: Listener, acceptor: Acceptor, sock: socket.socket, now_ms: int, host: str) -> None:
        self.listener = listener
        self.acceptor = acceptor
        self.socket = sock
        self.last_active_ms = now_ms
        self.is_muted = False
        self.is_throttled = self.is_closed = False
        self.is_peer = acceptor.is_internal
        self._buffer: Memory = bytearray(INITIAL_BUFFER_BYTES)
        self._capacity = INITIAL_BUFFER_BYTES
        self._view = memoryview(self._buffer)
        self._start = self._end = 0
        self._output: deque[bytes | memoryview | FileRegion] = deque()
        self._queued_bytes = 0
        self._events = READ
        self._is_handling = False
        self.client_host = host
        self.shortcut: Shortcut | None = None
        self._pending_replies = 0
        self._is_held = False
        self._is_in_lane = False
        self.is_unfinished = False
        self.last_written: object = None
        self._when_closed: dict[object, Callable[[], None]] = {}
        listener.buffered_bytes += self._capacity

    @property
    def is_protected(self) -> bool:
        """Return whether the connection's listener is used by other nodes of the cluster only."""
        return self.acceptor.is_protected

    # -- reading ---------------------------------------------------------------------------------------------------
    def handle_readable(self) -> None:
        """Receive bytes and handle the complete frames; close the connection at its end or after an error."""
        try:
            received = self.socket.recv_into(self._view[self._end :])
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if not received:
            self.close()
            return
        self._end += received
        self.handle_frames()

    def handle_frames(self) -> None:
        """Handle buffered frames until a request is delayed, the socket is full, TURN_NS have passed or no complete
        frame is left.

        Does nothing while a frame of this connection is being handled. A CloseConnection of a handler closes the
        connection.
        """
        if self._is_handling or self._is_in_lane:
            return  # the handler of one request of this connection completed another one
        self._is_handling = True
        over_ns = monotonic_ns() + TURN_NS
        try:
            while not (self.is_muted or self.is_throttled or self.is_closed):
                if self._queued_bytes >= FLUSH_BYTES:
                    self._flush()
                    if self._output:
                        break
                frame = self._next_frame()
                if frame is None:
                    break
                self._handle_frame(frame)
                if self._start < self._end and monotonic_ns() > over_ns:
                    self.listener.go_on_later(self)
                    break
            self._flush()
        except CloseConnection:
            self._flush()
            self.close()
        finally:
            self._is_handling = False
        self._compact()
        self._update_events()

    def go_on(self) -> None:
        """Handle the remaining frames in the next turn, after the other connections."""
        self.is_unfinished = False
        if not self.is_closed:
            self.handle_frames()

    def _next_frame(self) -> memoryview | None:
        start, available = self._start, self._end - self._start
        if available < 4:
            return None
        (size,) = _INT32.unpack_from(self._buffer, start)
        if size < 8 or size > self.listener.max_request_bytes:
            raise CloseConnection(f"invalid frame size {size}")
        if available < size + 4:
            return None
        self._start = start + 4 + size
        return self._view[start + 4 : self._start]

    def _handle_frame(self, frame: memoryview) -> None:
        if self.shortcut is not None:
            reply = self.shortcut.respond(frame)
            if reply is REPLY_PENDING:
                self._pending_replies += 1
                self.is_muted = self._pending_replies >= MAX_PENDING_REPLIES
                return
            if self._pending_replies and reply is None:
                self._start -= len(frame) + 4  # handle the frame again after the pending responses
                self._is_held = self.is_muted = True
                return
            if reply is not None:
                self._output.append(reply)
                self._queued_bytes += len(reply)
                return
        request = Request(self, frame, _HEADER.unpack_from(frame), self.listener.lane)
        response = self.acceptor.dispatch(request)
        if response is SLICED:
            self.begin_slices()
            return
        if response is DELAYED:
            if not self.is_closed:
                self.is_muted = True
            return
        if request.throttle_ms:
            self.throttle(request.throttle_ms)
        self._queue(response)

    def _compact(self) -> None:
        """Move a partial frame to the front of the buffer; double a full buffer, and shrink a large empty one."""
        if self.is_closed or self._is_in_lane:
            return
        pending = self._end - self._start
        capacity = self._capacity
        if pending == 0 and capacity > READ_BUFFER_BYTES:
            self._replace_buffer(READ_BUFFER_BYTES)
        elif self._end == capacity and (pending == capacity or capacity < READ_BUFFER_BYTES):
            self._replace_buffer(min(capacity * 2, max(READ_BUFFER_BYTES, self.listener.max_request_bytes + 4)))
        elif self._start and (pending == 0 or self._end == capacity):
            self._view[:pending] = self._view[self._start : self._end]
            self._start, self._end = 0, pending

    def _replace_buffer(self, capacity: int) -> None:
        listener = self.listener
        if listener.buffered_bytes + capacity > listener.max_buffered_bytes:
            self.close()
            return
        listener.buffered_bytes += capacity - self._capacity
        pending, buffer = self._end - self._start, self._buffer
        if self._start or not can_grow(buffer, capacity):
            buffer = allocated(capacity, listener.max_request_bytes + 4)
            buffer[:pending] = self._view[self._start : self._end]
        self._buffer, self._view, self._capacity = buffer, memoryview(buffer)[:capacity], capacity
        self._start, self._end = 0, pending

    # -- writing ---------------------------------------------------------------------------------------------------
    def complete(self, response: Response) -> None:
        """Send the response to the delayed request, then handle the frames after it."""
        if self.is_closed:
            return
        self.is_muted = False
        self._queue(response)
        self.handle_frames()

    def begin_slices(self) -> None:
        """Handle nothing more until `end_slices`: a request of this connection is in the slow lane."""
        self.is_muted = self._is_in_lane = True

    def end_slices(self, outcome: Response | CloseConnection) -> None:
        """Send the outcome of a request in the slow lane, then handle the frames after it. CloseConnection closes the
        connection; with DELAYED it stays muted until `complete`."""
        self._is_in_lane = False
        if isinstance(outcome, CloseConnection):
            self._flush()
            self.close()
        elif outcome is not DELAYED:
            self.complete(outcome)
        else:
            self._compact()
            self._update_events()

    def queue_pending(self, reply: bytes) -> None:
        """Queue the next response of the shortcut (REPLY_PENDING); `settle` sends it."""
        if not self.is_closed:
            self._pending_replies -= 1
            self._output.append(reply)
            self._queued_bytes += len(reply)

    def settle(self) -> None:
        """Send the queued responses of the shortcut, then handle the frames after them."""
        if self.is_closed:
            return
        self._is_held = self._is_held and self._pending_replies > 0
        self.is_muted = self._is_held or self._pending_replies >= MAX_PENDING_REPLIES
        self.handle_frames()

    def throttle(self, delay_ms: int) -> None:
        """Read and handle nothing for `delay_ms` (KIP-219); does nothing if the connection is throttled already."""
        if not self.is_throttled and not self.is_closed:
            self.is_throttled = True
            self.listener.schedule(delay_ms, self._end_throttle)

    def _end_throttle(self, now_ms: int) -> None:
        self.is_throttled = False
        self.last_active_ms = now_ms
        if not self.is_closed:
            self.handle_frames()

    def _queue(self, response: Response) -> None:
        for part in response:
            if isinstance(part, FileRegion):
                if part.size_bytes:
                    self._output.append(part)
                    self._queued_bytes += part.size_bytes
            else:
                self._output.append(part if isinstance(part, bytes) else memoryview(part))
                self._queued_bytes += len(part)

    def _flush(self) -> None:
        """Send until the output queue is empty or the socket is full; close the connection after an error."""
        output = self._output
        try:
            while output and not self.is_closed:
                if isinstance(output[0], FileRegion):
                    if not self._send_file(output[0]):
                        break
                elif not self._send_bytes():
                    break
        except (BlockingIOError, InterruptedError):
            self._own_queued_files()
        except OSError:
            self.close()

    def _send_bytes(self) -> bool:
        output = self._output
        if len(output) == 1:
            first = output[0]
            assert not isinstance(first, FileRegion)
            size, sent_bytes, flags = len(first), self.socket.send(first), 0
        else:
            parts: list[bytes | memoryview] = []
            size = flags = 0
            for part in output:
                if isinstance(part, FileRegion) or len(parts) == 64:
                    flags = MSG_MORE
                    break
                parts.append(part)
                size += len(part)
            sent_bytes = self.socket.sendmsg(parts, (), flags)
        self._queued_bytes -= sent_bytes
        if sent_bytes == size and len(output) == 1:
            output.clear()
            return True
        is_complete = sent_bytes == size
        while sent_bytes:
            part = output.popleft()
            assert not isinstance(part, FileRegion)
            if len(part) > sent_bytes:
                output.appendleft(memoryview(part)[sent_bytes:])
                break
            sent_bytes -= len(part)
        return is_complete

    def _send_file(self, region: FileRegion) -> bool:
        sent_bytes = os.sendfile(
            self.socket.fileno(), region.file.fileno(), region.position, min(region.size_bytes, SENDFILE_CHUNK)
        )
        if sent_bytes == 0:  # the file is shorter than the response promised: the frame cannot be finished
            self.close()
            return False
        region.position += sent_bytes
        region.size_bytes -= sent_bytes
        self._queued_bytes -= sent_bytes
        if region.size_bytes == 0:
            self._output.popleft()
            release_region(region)
        return True

    def _own_queued_files(self) -> None:
        for part in self._output:
            if isinstance(part, FileRegion) and not isinstance(part.file, OwnedDescriptor):
                owned = self.listener.duplicate(part.file)
                if owned is None:  # no descriptor is left for a client that reads too slowly
                    self.close()
                    return
                part.file = owned

    def handle_writable(self) -> None:
        """Send more of the output queue; when it is empty, handle the frames that waited."""
        self._flush()
        if not self._output and not self.is_closed:
            self.handle_frames()
        self._update_events()

    def _update_events(self) -> None:
        if self.is_closed:
            return
        events = WRITE if self._output else 0 if self.is_muted or self.is_throttled else READ
        if events != self._events:
            self.listener.change_events(self, self._events, events)
            self._events = events

    def close(self) -> None:
        """Close the connection, drop its output queue and its request in the slow lane, and call the callbacks of
        `call_when_closed`. Does nothing when called again."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._is_in_lane:
            self.listener.lane.abandon(self)
        for part in self._output:
            if isinstance(part, FileRegion):
                release_region(part)
        self._output.clear()
        self.listener.forget(self, self._events)
        self.listener.buffered_bytes -= self._capacity
        with contextlib.suppress(OSError):
            self.socket.close()
        for run in self._when_closed.values():
            run()

    def use_shortcut(self, shortcut: Shortcut | None) -> None:
        """Pass later frames to this shortcut first (None: to none). Does nothing while requests are intercepted."""
        if not self.listener.is_intercepted:
            self.shortcut = shortcut

    def call_when_closed(self, owner: object, run: Callable[[], None]) -> None:
        """Call `run` when the connection closes; only the first one of an owner counts."""
        self._when_closed.setdefault(owner, run)


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
    ) -> None:
        self.limits = limits or ConnectionLimits()
        self.max_request_bytes = max_request_bytes
        self.max_buffered_bytes = max_buffered_bytes
        self.max_idle_ms = max_idle_ms
        self.buffered_bytes = 0
        self.connections: set[Connection] = set()
        self.schedule = schedule
        self.last_request_ms = self._now_ms = self._next_idle_check_ms = 0
        self._accept_again_ms: int | None = None
        self.lane = SlowLane()
        self._unfinished: deque[Connection] = deque()
        self.acceptors: list[Acceptor] = []
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
            self._selector.register(acceptor.socket, READ, acceptor)

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
                self._selector.register(acceptor.socket, READ, acceptor)

    def close_acceptor(self, acceptor: Acceptor) -> None:
        """Accept no more connections on this address; the open ones stay."""
        self.unwatch(acceptor.socket)
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

        It does not wait while the slow lane or a connection has work left, and at most ACCEPT_PAUSE_MS while
        descriptors are lacking.
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
        """Close idle connections that are not muted or throttled, report refused ones, and accept again after a lack of
        descriptors. The node calls this between polls."""
        self._now_ms = now_ms
        if self._accept_again_ms is not None and now_ms >= self._accept_again_ms:
            self._accept_again_ms = None
            for acceptor in self._open_acceptors():
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
        if mask & WRITE:
            connection.handle_writable()
        if mask & READ and not connection.is_closed:
            connection.handle_readable()

    def _open_acceptors(self) -> list[Acceptor]:
        return [acceptor for acceptor in self.acceptors if acceptor.is_open]

    def _accept(self, acceptor: Acceptor) -> None:
        if self._accept_again_ms is not None:
            return
        try:
            sock, address = acceptor.socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                raise
            for open_acceptor in self._open_acceptors():
                self._selector.unregister(open_acceptor.socket)
            self._accept_again_ms = self._now_ms + ACCEPT_PAUSE_MS
            return
        host = str(address[0])
        if not self.limits.admit(self.connections, host, self._now_ms, is_protected=acceptor.is_protected):
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(self, acceptor, sock, self._now_ms, host)
        self.connections.add(connection)
        self._selector.register(sock, READ, connection)

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
        self.limits.forget(connection.client_host)

    def duplicate(self, file: HasDescriptor) -> OwnedDescriptor | None:
        """Duplicate a descriptor for a response to a slow client; None if the limits or the system have none left."""
        try:
            return self.limits.duplicate(file.fileno(), len(self.connections))
        except OSError:
            return None

    def wakeup(self) -> None:
        """Make `poll` return; safe from signal handlers and other threads."""
        with contextlib.suppress(BlockingIOError, OSError):
            self._wake_sender.send(b"\0")

    def close(self) -> None:
        """Close all connections, acceptors and the selector."""
        self.lane.close()
        for connection in list(self.connections):
            connection.close()
        for acceptor in self.acceptors:
            if acceptor.is_open and self._accept_again_ms is None:
                self.unwatch(acceptor.socket)
            acceptor.socket.close()
        self._wake_receiver.close()
        self._wake_sender.close()
        self._selector.close()
