"""Channel: the frames of one connection to a node, sent from buffers without a copy (KafkaChannel)."""

from __future__ import annotations

from collections import deque

from kafkatools.core.net.selector import READ
from kafkatools.core.net.transport import MAX_BUFFERS, Buffer, Transport
from kafkatools.core.protocol.frames import FrameReader

TRUSTED_GROWTH_BYTES = 64 << 20


class EndOfStream(Exception):
    """The node closed the connection."""


class Channel:
    """Reads and writes the frames of one connection; their content is opaque here."""

    def __init__(self, node_id: int, transport: Transport, max_frame_bytes: int) -> None:
        self.node_id = node_id
        self.transport = transport
        self.is_connected = False
        self.has_received = False  # reset when the connection becomes trusted
        self.is_trusted = False
        self.is_tcp_up = False
        self.events = 0
        self._is_closed = False
        self._has_frames = False  # whether the last `read` completed a frame
        self._outgoing: deque[memoryview] = deque()
        self._reader = FrameReader(max_frame_bytes)

    def trust(self, max_bytes: int) -> None:
        """Accept frames of up to `max_bytes` and allocate large ones at once, because the node has proved to be a
        broker."""
        self.is_trusted, self.has_received = True, False
        self._reader.max_bytes = max_bytes
        self._reader.growth_bytes = TRUSTED_GROWTH_BYTES

    @property
    def is_receiving(self) -> bool:
        """Return whether a part of a frame has arrived and the rest has not."""
        return self._reader.is_inside_a_frame

    def has_only_part(self, events: int) -> bool:
        """Return whether these events of the selector brought a part of a frame and nothing else."""
        is_open = self.is_connected and not self._is_closed
        return events == READ and is_open and self.is_receiving and not self._has_frames

    def send(self, buffers: list[Buffer]) -> int:
        """Queue the buffers of a frame and return their size in bytes; they must not change until `write` returns
        True."""
        size = 0
        for buffer in buffers:
            view = memoryview(buffer)
            if view.nbytes:
                size += view.nbytes
                self._outgoing.append(view.cast("B") if view.format != "B" or view.ndim != 1 else view)
        return size

    def write(self) -> bool:
        """Send queued frames as far as the socket takes them; return True when nothing is left. Raises OSError,
        and SslAuthenticationFailed when the node refused the client's certificate."""
        while self._outgoing:
            batch = [self._outgoing[i] for i in range(min(MAX_BUFFERS, len(self._outgoing)))]
            sent_bytes = self.transport.sendmsg(batch)
            if sent_bytes == 0:
                return False
            self._drop(sent_bytes)
        return True

    def _drop(self, count: int) -> None:
        while count:
            head = self._outgoing[0]
            if count < len(head):
                self._outgoing[0] = head[count:]
                return
            count -= len(head)
            self._outgoing.popleft()

    def read(self) -> list[memoryview]:
        """Receive from the socket and return the frames that are complete, which may be none. Raises NotKafka, OSError
        and errors of TLS. Raises EndOfStream when the node has closed the connection; frames before the end are
        returned by an earlier call."""
        self._has_frames = False
        frames = self._read()
        self._has_frames = bool(frames)
        return frames

    def _read(self) -> list[memoryview]:
        while True:
            with self._reader.buffer() as buffer:
                room = len(buffer)
                count = self.transport.recv_into(buffer)
            if count is None:
                return self._reader.receive()
            if count == 0:
                frames = self._reader.receive()
                if frames:
                    return frames
                raise EndOfStream
            self.has_received = True
            self._reader.advance(count)
            if count < room:
                return self._reader.receive()

    def close(self) -> None:
        """Close the connection and drop the queued frames."""
        self._is_closed = True
        self._outgoing.clear()
        self.transport.close()
