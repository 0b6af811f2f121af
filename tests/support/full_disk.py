"""A broker on a disk that has no room for what a test says."""

from __future__ import annotations

import errno
import os
import pathlib
import threading
from collections.abc import Callable, Sequence

import pytest
from support.broker_client import BrokerClient

from kafkatools.core.broker.node import single_node_config, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.clock import SystemClock
from kafkatools.core.log.files import Buffer, RealFileSystem, RealLogFile

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}


class FullDisk(RealFileSystem):
    """Has no room for what `is_full` says, by path."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full: Callable[[str], bool] = lambda path: False

    def check(self, path: str) -> None:
        if self.is_full(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def open(self, path: str, *, create: bool = False) -> RealLogFile:
        if create:
            self.check(path)
        return super().open(path, create=create)

    def make_directory(self, path: str) -> None:
        self.check(path)
        super().make_directory(path)

    def write_bytes(self, path: str, data: Buffer, *, sync: bool) -> None:
        self.check(path)
        super().write_bytes(path, data, sync=sync)


def watch_writes(disk: FullDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let writes to open files ask the disk too. As the system's, the error names no file."""
    write = os.pwrite

    def pwrite(descriptor: int, data: Buffer, position: int) -> int:
        if disk.is_full(os.readlink(f"/proc/self/fd/{descriptor}")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data, position)

    monkeypatch.setattr(os, "pwrite", pwrite)


class FullBroker:
    """A node on such a disk, with its thread and a client."""

    def __init__(self, directory: pathlib.Path, monkeypatch: pytest.MonkeyPatch, *more: pathlib.Path) -> None:
        self.disk = FullDisk()
        self.reports: list[str] = []
        config = single_node_config(",".join(map(str, (directory, *more))), "127.0.0.1", 0, SETTINGS)
        self.node = start_node(NodeSetup(config, SystemClock(), self.disk, self.reports.append), format_if_needed=True)
        watch_writes(self.disk, monkeypatch)
        self.thread = threading.Thread(target=self.node.run)
        self.thread.start()
        self.client = BrokerClient("127.0.0.1", self.node.listener.port)
        self.bootstrap = self.node.bootstrap

    def produce_at_once(self, topic: str, batches: Sequence[bytes]) -> list[int]:
        """Send a Produce request for each batch before any is answered; gives the error codes."""
        data = [[{"name": topic, "partition_data": [{"index": 0, "records": each}]}] for each in batches]
        fields = {"transactional_id": None, "acks": -1, "timeout": 5000}
        frames = [self.client.frame(0, 9, {**fields, "topic_data": each}) for each in data]
        self.client.socket.sendall(b"".join(frames))
        answers = [self.client.receive(0, 9) for _ in frames]
        return [int(each.responses[0].partition_responses[0].error_code) for each in answers]

    def find(self, key: str, kind: int) -> int:
        """FindCoordinator's error code."""
        answer = self.client.call(10, 4, key_type=kind, coordinator_keys=[key])
        return int(answer.coordinators[0].error_code)

    def close(self) -> None:
        self.client.close()
        self.node.request_stop()
        self.thread.join()
        self.node.close()
