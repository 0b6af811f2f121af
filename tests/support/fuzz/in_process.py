"""Frames into a node without sockets: its real connections over a socket in memory, its real directory, a manual clock.

Properties held for every frame: nothing raised, nothing reported by the broker, an answer that decodes as the API's
response or a closed connection, and less than `STALL_MS` of processor time.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pathlib
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from support.cluster_nodes import ClusterNodes
from support.fuzz.answers import Finding, decode_answer
from support.fuzz.batches import NOW_MS
from support.fuzz.messages import Memory
from support.manual_clock import ManualClock

from kafkatools.core.broker.node import single_node_config, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.broker.server.listener import Acceptor, Connection
from kafkatools.core.broker.server.requests import FileRegion

STALL_MS = 100
EXPECTED = ("elements was refused", "which is skipped: ")
"""What the broker reports when a client, `__admin_client` for the second, brings it about."""
_SIZE = struct.Struct(">i")
_PEERS = socket.socketpair()
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.enable": "false",
    "log.segment.bytes": "1048576",
    "log.retention.bytes": "4194304",
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "socket.request.max.bytes": "1048576",
}


class Place(NamedTuple):
    """The target of frames: a node, one of its listeners, and the APIs of that listener."""

    node: Any
    acceptor: Acceptor

    @property
    def apis(self) -> Any:
        """The table of APIs."""
        return self.acceptor.dispatch.apis


class MemorySocket:
    """The socket in memory of a connection."""

    def __init__(self) -> None:
        self.input = b""
        self.output = bytearray()

    def recv_into(self, view: memoryview) -> int:
        """Read the available bytes; raise BlockingIOError when there are none."""
        if not self.input:
            raise BlockingIOError
        some = self.input[: len(view)]
        view[: len(some)] = some
        self.input = self.input[len(some) :]
        return len(some)

    def send(self, data: Any) -> int:
        """Takes all."""
        self.output += data
        return len(data)

    def sendmsg(self, parts: Sequence[Any], ancillary: Any, flags: int) -> int:
        """Takes all."""
        return sum(self.send(part) for part in parts)

    def fileno(self) -> int:
        """A descriptor of a peer that is there."""
        return _PEERS[0].fileno()

    def getpeername(self) -> tuple[str, int]:
        """A loopback address."""
        return "127.0.0.1", 1

    def close(self) -> None:
        """Nothing to let go."""


class MemoryListener:
    """The parts of a listener that a connection needs."""

    def __init__(self, node: Any) -> None:
        self._listener = node.listener
        self.buffered_bytes = 0
        self.max_request_bytes = self._listener.max_request_bytes
        self.max_buffered_bytes = self._listener.max_buffered_bytes
        self.lane = self._listener.lane
        self.is_intercepted = False

    def schedule(self, delay_ms: int, run: Callable[[int], None]) -> object:
        """The node's timer."""
        return self._listener.schedule(delay_ms, run)

    def go_on_later(self, connection: Connection) -> None:
        """In the node's next turn."""
        self._listener.go_on_later(connection)

    def change_events(self, connection: Connection, before: int, after: int) -> None:
        """There is no selector."""

    def forget(self, connection: Connection, events: int) -> None:
        """There is no selector."""


class MemoryConnection(Connection):
    """A connection over a socket in memory, whose files are read, not sent by the kernel."""

    def __init__(self, node: Any, acceptor: Acceptor, sock: MemorySocket) -> None:
        listener: Any = MemoryListener(node)
        stream: Any = sock
        super().__init__(listener, acceptor, stream, node.clock.now_ms(), "127.0.0.1")

    def _send_file(self, region: FileRegion) -> bool:
        data = os.pread(region.file.fileno(), region.size_bytes, region.position)
        self.socket.output += data  # type: ignore[attr-defined]
        self._queued_bytes -= region.size_bytes
        self._output.popleft()
        if len(data) < region.size_bytes:
            self.close()
        return True


class Target:
    """Sends frames to one place and judges what comes of them."""

    def __init__(self, place: Place, reports: list[str], rng: Random, memory: Memory) -> None:
        self.place = place
        self.memory = memory
        self.answered = self.closed = self.delayed = 0
        self.slowest_ms = 0.0
        self._reports = reports
        self._rng = rng
        self._waiting: list[bytes] = []
        self._open()

    def _open(self) -> None:
        self.socket = MemorySocket()
        self.connection = MemoryConnection(self.place.node, self.place.acceptor, self.socket)
        self._waiting.clear()

    def send(self, frame: bytes) -> None:
        """Handle one frame. Raises Finding."""
        if self.connection.is_closed or self.connection.is_muted or self.connection.is_throttled:
            self.connection.close()
            self._open()
        self.socket.input = _SIZE.pack(len(frame)) + frame
        self._waiting.append(frame)
        try:
            took_ms = self._handle(time.perf_counter_ns)
        except Exception as error:
            raise Finding(f"{type(error).__name__}: {error}") from error
        self.judge()
        if took_ms > STALL_MS and self._is_slow_again(frame):
            raise Finding(f"a frame took {took_ms:.0f} ms of processor time")
        self.slowest_ms = max(self.slowest_ms, min(took_ms, STALL_MS))

    def _handle(self, now_ns: Callable[[], int]) -> float:
        """Have what was sent handled, slice by slice; gives the time of the longest slice in ms."""
        longest_ns = 0
        lane = self.place.node.listener.lane
        while (is_sent := bool(self.socket.input)) or lane.is_busy:
            begun = now_ns()
            if is_sent and not self.connection.is_muted:
                self.connection.handle_readable()
            else:
                lane.turn()
            longest_ns = max(longest_ns, now_ns() - begun)
            if self.connection.is_closed:
                break
        return longest_ns / 1e6

    def _is_slow_again(self, frame: bytes) -> bool:
        """Whether the frame takes that much processor time twice more. A slice takes no less time than processor time,
        the first use of a code path imports modules, and a collection of garbage may fall into any frame."""
        for _ in range(2):
            self._open()
            self.socket.input = _SIZE.pack(len(frame)) + frame
            self._waiting.append(frame)
            if self._handle(time.process_time_ns) < STALL_MS:
                return False
        return True

    def turn(self, advance_ms: int) -> None:
        """Let the node do what is due. Raises Finding."""
        self.place.node.clock.advance_ms(advance_ms)
        try:
            self.place.node.run_once(0)
        except Exception as error:
            raise Finding(f"a turn failed: {type(error).__name__}: {error}") from error
        self.judge()

    def judge(self) -> None:
        """Look at what came back, and at what the broker reported."""
        told = [line for line in self._reports if not line.startswith("INFO ") and not is_expected(line)]
        self._reports.clear()
        if told:
            lines = "; ".join(told)
            raise Finding(f"the broker reported: {lines}")
        output = self.socket.output
        while len(output) >= 4:
            (size,) = _SIZE.unpack_from(output)
            if len(output) < size + 4:
                break
            answer = memoryview(bytes(output[4 : size + 4]))
            del output[: size + 4]
            self._take(answer)
        if output:
            raise Finding(f"{len(output)} bytes of an answer that is not whole")
        if self.connection.is_closed:
            self.closed += 1
        elif self.connection.is_muted:
            self.delayed += 1
        elif len(self._waiting) > 100:
            self._waiting = self._waiting[-10:]

    def _take(self, answer: memoryview) -> None:
        correlation = bytes(answer[:4])
        for number, frame in enumerate(self._waiting):
            if frame[4:8] == correlation:
                del self._waiting[: number + 1]
                break
        else:
            raise Finding(f"an answer to nothing that was asked: {bytes(answer[:40]).hex()}")
        entity = decode_answer(frame, answer, self.place.apis)
        self.answered += 1
        if self._rng.random() < 0.3:
            self.memory.note_entity(entity, self._rng)


def is_expected(report: str) -> bool:
    """Whether a line of the broker is about what a client did."""
    return any(words in report for words in EXPECTED)


@contextlib.contextmanager
def fresh_directory() -> Iterator[pathlib.Path]:
    """A directory in memory where the system has one."""
    base = "/dev/shm" if os.path.isdir("/dev/shm") else None
    path = tempfile.mkdtemp(prefix="kt-fuzz-", dir=base)
    try:
        yield pathlib.Path(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def running_node(directory: pathlib.Path, settings: dict[str, str] | None = None) -> Iterator[tuple[Place, list[str]]]:
    """A node of its own with a manual clock, and what it reports."""
    reports: list[str] = []
    clock = ManualClock(wall_ms=NOW_MS)
    config = single_node_config(str(directory), "127.0.0.1", 0, {**SETTINGS, **(settings or {})})
    node = start_node(NodeSetup(config, clock, report=reports.append), format_if_needed=True)
    try:
        yield Place(node, node.listener.acceptors[0]), reports
    finally:
        node.close()


@contextlib.contextmanager
def clustered_node(directory: pathlib.Path, listener: str) -> Iterator[tuple[Place, list[str]]]:
    """A node of a cluster of one, and one of its listeners: PLAINTEXT or CONTROLLER."""
    nodes = ClusterNodes(directory, 1, {**SETTINGS, "broker.session.timeout.ms": "18000"})
    nodes.clock.set_wall_ms(NOW_MS)
    nodes.start()
    node = nodes.nodes[1]
    nodes.lines.clear()
    try:
        yield Place(node, next(each for each in node.listener.acceptors if each.name == listener)), nodes.lines
    finally:
        nodes.close()


def rss_bytes() -> int:
    """The resident memory of this process."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_descriptors() -> int:
    """The number of descriptors that this process has open."""
    return len(os.listdir("/proc/self/fd"))
