"""One connection of a broker: reads frames, has them handled, writes responses.

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
- With TLS the bytes go through a `SecureStream`. It may hold decrypted bytes that no selector reports: whoever reads
  the connection again asks it for them. File regions go out by sendfile without TLS only.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

from kafkatools.core.broker.server.acceptor import Acceptor, SecureStream
from kafkatools.core.broker.server.connection_limits import OwnedDescriptor, release_region
from kafkatools.core.broker.server.receive_memory import Memory, allocated, can_grow
from kafkatools.core.broker.server.requests import (
    ANONYMOUS,
    DELAYED,
    SLICED,
    CloseConnection,
    FileRegion,
    HasDescriptor,
    Request,
    Response,
    Shortcut,
    TokenHandler,
)
from kafkatools.core.broker.server.slow_lane import SlowLane
from kafkatools.core.clock import monotonic_ns

_INT32 = Struct(">i")
_HEADER = Struct(">hhi")

INITIAL_BUFFER_BYTES = 16 * 1024
READ_BUFFER_BYTES = 256 * 1024
FLUSH_BYTES = 64 * 1024
TURN_NS = 10_000_000
SENDFILE_CHUNK = 1 << 20
MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE
REPLY_PENDING: Final = b"pending"
MAX_PENDING_REPLIES = 64


class ConnectionOwner(Protocol):
    """The members of `Listener` that a connection uses."""

    buffered_bytes: int
    max_buffered_bytes: int
    max_request_bytes: int
    is_intercepted: bool
    lane: SlowLane
    schedule: Callable[[int, Callable[[int], None]], object]

    def go_on_later(self, connection: Connection) -> None: ...
    def change_events(self, connection: Connection, before: int, after: int) -> None: ...
    def forget(self, connection: Connection, events: int) -> None: ...
    def duplicate(self, file: HasDescriptor) -> OwnedDescriptor | None: ...
    def note_refused_client(self, connection: Connection, error: Exception) -> None: ...


class Connection:
    """One client connection: receive buffer with unread bytes from `_start` to `_end`, output queue, and whether it is
    muted. Requests of a peer, another node of the cluster, do not count as use of the broker."""

    def __init__(
        self, listener: ConnectionOwner, acceptor: Acceptor, sock: socket.socket, now_ms: int, host: str
    ) -> None:
        """Raises OSError when TLS cannot begin, because the client is gone."""
        self.listener = listener
        self.acceptor = acceptor
        self._tls: SecureStream | None = None if acceptor.secure is None else acceptor.secure(sock)
        self._stream: socket.socket | SecureStream = sock if self._tls is None else self._tls
        self.socket = sock if self._tls is None else self._tls.socket
        self.is_handshaking = self._tls is not None
        self.principal = ANONYMOUS
        self.has_session_end = self.is_token_authenticated = False
        self.software = ("", "")
        self._token_handler: TokenHandler | None = None
        self.max_request_bytes = min(listener.max_request_bytes, acceptor.max_first_request_bytes)
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

    @property
    def client_port(self) -> int:
        """The client's port; 0 when it has disconnected."""
        try:
            return int(self.socket.getpeername()[1])
        except OSError:
            return 0

    # -- TLS -------------------------------------------------------------------------------------------------------
    def continue_handshake(self) -> None:
        """Continue the TLS handshake; after a failure, report it and close the connection."""
        assert self._tls is not None
        try:
            events = self._tls.handshake()
        except OSError as error:
            self.listener.note_refused_client(self, error)
            self.close()
            return
        if events:
            self._change_events(events)
            return
        self.is_handshaking = False
        self.principal = self._tls.principal
        self._change_events(READ)
        self.handle_readable()

    # -- reading ---------------------------------------------------------------------------------------------------
    def handle_readable(self) -> None:
        """Receive bytes and handle the complete frames; close the connection at its end or after an error."""
        try:
            received = self._stream.recv_into(self._view[self._end :])
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
        if self.is_closed:
            return
        if self._tls is not None and self._events == READ and self._tls.has_pending:
            self.handle_readable()
        else:
            self.handle_frames()

    def _next_frame(self) -> memoryview | None:
        start, available = self._start, self._end - self._start
        if available < 4:
            return None
        (size,) = _INT32.unpack_from(self._buffer, start)
        if size > self.max_request_bytes or (size < 8 and (size < 0 or self._token_handler is None)):
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
        if self._token_handler is not None:
            self._answer(self._token_handler(frame))
            return
        request = Request(self, frame, _HEADER.unpack_from(frame), self.listener.lane)
        response = self.acceptor.dispatch(request)
        if response is SLICED:
            self.begin_slices()
            return
        if request.throttle_ms and response is not DELAYED:
            self.throttle(request.throttle_ms)
        self._answer(response)

    def _answer(self, response: Response) -> None:
        if response is not DELAYED:
            self._queue(response)
        elif not self.is_closed:
            self.is_muted = True

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
                    self._own_queued_files()  # a segment may be deleted before the client reads on
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
            size, sent_bytes, flags = len(first), self._stream.send(first), 0
        else:
            parts: list[bytes | memoryview] = []
            size = flags = 0
            for part in output:
                if isinstance(part, FileRegion) or len(parts) == 64:
                    flags = MSG_MORE
                    break
                parts.append(part)
                size += len(part)
            sent_bytes = self._stream.sendmsg(parts, (), flags)
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
        if self._tls is not None:
            sent_bytes = self._tls.send_file(region.file.fileno(), region.position, region.size_bytes)
        else:
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
        self._change_events(WRITE if self._output else 0 if self.is_muted or self.is_throttled else READ)
        if self._tls is not None and self._events == READ and self._tls.has_pending:
            self.listener.go_on_later(self)

    def _change_events(self, events: int) -> None:
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
            self._stream.close()
        for run in self._when_closed.values():
            run()

    def take_tokens(self, handler: TokenHandler | None) -> None:
        """Pass later frames to this handler of SASL tokens, which have no request header; None: handle requests."""
        self._token_handler = handler

    def use_shortcut(self, shortcut: Shortcut | None) -> None:
        """Pass later frames to this shortcut first (None: to none). Does nothing while requests are intercepted, or if
        the client has to authenticate again at some time."""
        if not self.listener.is_intercepted and not self.has_session_end:
            self.shortcut = shortcut

    def call_when_closed(self, owner: object, run: Callable[[], None]) -> None:
        """Call `run` when the connection closes; only the first one of an owner counts."""
        self._when_closed.setdefault(owner, run)
