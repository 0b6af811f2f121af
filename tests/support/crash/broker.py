"""A whole broker on a `PowerDisk`, turned by hand: no sockets, no threads, a manual clock."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from random import Random
from typing import Any

from support.crash.disk import PowerDisk
from support.fuzz.in_process import MemoryConnection, MemorySocket
from support.manual_clock import ManualClock
from support.whole_messages import decode_all

from kafkatools.core.broker.node import single_node_config, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.broker.server.requests import FileRegion
from kafkatools.core.log.cleaner.cleaner import Cleaner
from kafkatools.core.log.cleaner.manager import LogCleanerManager
from kafkatools.core.log.partition.segment_swap import swap_in
from kafkatools.core.protocol.api_versions import is_flexible
from kafkatools.core.protocol.messages import build, encode, request_type, response_type

SETTINGS = {
    "log.cleaner.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "internal.metadata.log.segment.bytes": "3000",
    "metadata.log.max.record.bytes.between.snapshots": "1500",
    "metadata.max.retention.bytes": "4000",
    "internal.metadata.delete.delay.millis": "0",
    "log.initial.task.delay.ms": "100000000",
    "log.retention.check.interval.ms": "100000000",
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "log.flush.start.offset.checkpoint.interval.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "5000",
    "log.segment.delete.delay.ms": "500",
    "log.index.interval.bytes": "200",
    "transaction.max.timeout.ms": "900000",
}
WALL_MS = 1_795_230_000_000
IDLE_TURNS = 4


class DiskConnection(MemoryConnection):
    """A connection whose file regions come from a disk in memory."""

    def _send_file(self, region: FileRegion) -> bool:
        data = region.file.read_at(region.position, region.size_bytes)  # type: ignore[attr-defined]
        self.socket.output += data  # type: ignore[attr-defined]
        self._queued_bytes -= region.size_bytes
        self._output.popleft()
        return True


class Broker:
    """One run of a broker."""

    def __init__(self, disk: PowerDisk, directory: str, durability: str, rng: Random, clock: ManualClock) -> None:
        self.disk = disk
        self.clock = clock
        self.reports: list[str] = []
        self._rng = rng
        config = single_node_config(directory, "127.0.0.1", 0, {**SETTINGS, "log.durability": durability})
        setup = NodeSetup(config, clock, disk, self.reports.append)  # type: ignore[arg-type]
        self.node = start_node(setup, format_if_needed=True)
        if self.node.replicas.commits is not None:
            self.node.replicas.commits.max_threads = 0  # syncs run when the test says so
        self._correlation = 0
        self._open()

    def _open(self) -> None:
        self._socket = MemorySocket()
        self._connection = DiskConnection(self.node, self.node.listener.acceptors[0], self._socket)

    def turn(self) -> None:
        """One turn of the crank; what waits for the disk may wait for another."""
        self.node.run_once(0)
        commits = self.node.replicas.commits
        if commits is not None and self._rng.random() < 0.7:
            commits.run_pending()

    def settle(self, duration_ms: int = 50) -> None:
        """Let time pass."""
        for _ in range(IDLE_TURNS):
            self.turn()
            self.clock.advance_ms(duration_ms // IDLE_TURNS)
        self.turn()

    def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """Send a request and turn until it is answered."""
        self._correlation += 1
        head = struct.pack(">hhih", api_key, version, self._correlation, 5) + b"crash"
        head += b"\0" if is_flexible(api_key, version) else b""
        frame = head + encode(build(request_type(api_key, version), fields))
        self._socket.input = struct.pack(">i", len(frame)) + frame
        self._connection.handle_readable()
        for _ in range(400):
            if self._socket.output:
                break
            assert not self._connection.is_closed, f"the broker closed the connection: {self.reports}"
            self.turn()
            self.clock.advance_ms(5)
        answer = bytes(self._socket.output[4:])
        assert answer, f"no answer to {api_key}: {self.reports}"
        self._socket.output.clear()
        offset = 5 if is_flexible(api_key, version) and api_key != 18 else 4
        return decode_all(response_type(api_key, version), answer, offset)

    def ask_again(
        self, api_key: int, version: int, fields: Mapping[str, Any], code: Any, retry: tuple[int, ...]
    ) -> Any:
        """Ask until the error code of the answer, as `code` finds it, is none of those to retry."""
        for _ in range(50):
            answer = self.ask(api_key, version, **fields)
            if int(code(answer)) not in retry:
                return answer
            self.settle()
        raise AssertionError(f"{api_key} answers {answer} again and again")

    def compact(self, topic: str) -> None:
        """One round of the cleaner over a topic's first partition, on this thread."""
        log = self.node.replicas.get(topic, 0).log
        manager = LogCleanerManager()
        grabbed = manager.grab_filthiest_log([log], self.clock.wall_ms())
        if grabbed is None:
            return
        wanted, now_ms = grabbed[1], self.clock.wall_ms()
        stats = Cleaner(self.disk, dedupe_buffer_bytes=4096).clean(  # type: ignore[arg-type]
            wanted, now_ms, lambda plan, cleaned: swap_in(log, plan, cleaned, now_ms)
        )
        manager.done_cleaning(log, wanted, stats, now_ms)

    def stop(self) -> None:
        """The clean stop."""
        self._connection.close()
        self.node.close()

    def abandon(self) -> None:
        """Let go of sockets and locks; the disk is not touched any more."""
        self.disk.on_operation = _refuse
        self._connection.close()
        self.node.listener.close()
        self.node.directories.release()


def _refuse(kind: str, path: str) -> None:
    raise AssertionError(f"{kind} {path} after the end")
