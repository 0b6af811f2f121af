"""Processor time of the embedded broker's thread for a Fetch request, and its longest turn, by number of partitions.

The broker runs in this process and the client's requests are frames made in advance, so that only the broker's turns
are measured. A figure is the least of several rounds.
"""

from __future__ import annotations

import gc
import itertools
import pathlib
import select
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

from benchmarks import measure, peers
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.node import Node, single_node_config, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.clock import SystemClock
from kafkatools.core.protocol import messages
from kafkatools.core.records.builder import BatchBuilder

PRODUCE, FETCH, VERSION = 0, 1, 12
ROUNDS = 7
TOPIC = "many"
PARTITIONS = 4000


class Turns:
    """A broker and one client, whose requests are handled in turns that are timed."""

    def __init__(self, directory: pathlib.Path) -> None:
        setup = NodeSetup(single_node_config(str(directory), "127.0.0.1", 0), SystemClock())
        self.node = start_node(setup, format_if_needed=True)
        self.longest_s = self.total_s = 0.0
        self._ids = itertools.count(1)

    def connect(self) -> socket.socket:
        """A connection."""
        return socket.create_connection(("127.0.0.1", self.node.listener.port))

    def frame(self, api_key: int, version: int, fields: Mapping[str, Any]) -> bytes:
        """A request with its size prefix."""
        body = messages.encode(messages.build(messages.request_type(api_key, version), fields))
        head = struct.pack(">hhih", api_key, version, next(self._ids), 1) + b"b\0"
        return struct.pack(">i", len(head) + len(body)) + head + body

    def turn(self) -> None:
        """One turn of the broker."""
        began = time.process_time()
        self.node.run_once(0)
        took = time.process_time() - began
        self.total_s += took
        self.longest_s = max(self.longest_s, took)

    def send(self, client: socket.socket, data: bytes) -> None:
        """Send a request while the broker reads."""
        client.setblocking(False)
        view = memoryview(data)
        while view:
            try:
                view = view[client.send(view) :]
            except BlockingIOError:
                self.turn()

    def receive(self, client: socket.socket) -> int:
        """Take one response; its size."""
        size, received, head = -1, 0, b""
        while size < 0 or received < size + 4:
            while not select.select([client], [], [], 0)[0]:
                self.turn()
            part = client.recv(1 << 20)
            head = (head + part)[:4]
            received += len(part)
            if len(head) == 4:
                (size,) = struct.unpack(">i", head)
        return size

    def settle(self) -> None:
        """Turn until nothing is left to do."""
        for _ in range(20):
            self.turn()


def main() -> None:
    """Prints one line for each kind of fetch."""
    with peers.scratch() as directory:
        turns = Turns(directory)
        turns.node.controller.create_topics([NewTopic(TOPIC, PARTITIONS, 1), NewTopic("one", 1, 1)])
        fill(turns.node)
        gc.collect()
        gc.freeze()
        for name, fields in requests().items():
            cost(turns, name, turns.frame(FETCH, VERSION, fields))
        for count in (1, 100, 1000, PARTITIONS):
            wake(turns, count)
        turns.node.close()


def fill(node: Node) -> None:
    """A batch of 1 MiB, and one of 100 bytes after it."""
    for size in (1 << 20, 100):
        builder = BatchBuilder(1 << 21)
        builder.append(node.clock.wall_ms(), None, b"v" * (size - 70))
        partition = node.replicas.partitions["one"][0]
        partition.append(memoryview(bytearray(builder.close())), node.clock.wall_ms())


def fetch_of(topic: str, offsets: list[int], **fields: Any) -> dict[str, Any]:
    """A Fetch request of partitions from 0 on."""
    partitions = [
        {"partition": index, "fetch_offset": offset, "partition_max_bytes": 2 << 20}
        for index, offset in enumerate(offsets)
    ]
    topics = [{"topic": topic, "partitions": partitions}]
    limits = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 55 << 20, "session_epoch": -1}
    return {**limits, "topics": topics, **fields}


def requests() -> dict[str, dict[str, Any]]:
    """The requests that are answered at once."""
    found = {"1 batch of 1 MiB": fetch_of("one", [0]), "1 batch of 100 bytes": fetch_of("one", [1])}
    for count in (1, 10, 100, 1000, PARTITIONS):
        found[f"{count} partitions without records"] = fetch_of(TOPIC, [0] * count)
    return found


def cost(turns: Turns, name: str, frame: bytes) -> None:
    """Measure a request that is answered at once."""
    client, found, longest = turns.connect(), [], []
    repeat = max(1, 20_000 // len(frame))
    for _ in range(ROUNDS):
        turns.settle()
        turns.total_s = turns.longest_s = 0.0
        for _ in range(repeat):
            turns.send(client, frame)
            turns.receive(client)
        found.append(turns.total_s / repeat)
        longest.append(turns.longest_s)
    client.close()
    measure.report(f"fetch: {name}", cost_us=round(min(found) * 1e6, 1), longest_turn_ms=round(min(longest) * 1e3, 2))


def wake(turns: Turns, count: int) -> None:
    """Measure a fetch that waits, and one that a record wakes, with the record's append."""
    reader, writer = turns.connect(), turns.connect()
    ends = [partition.log.log_end_offset for _, partition in sorted(turns.node.replicas.partitions[TOPIC].items())]
    waits, wakes, longest = [], [], []
    for number in range(ROUNDS):
        turns.settle()
        turns.total_s = turns.longest_s = 0.0
        turns.send(reader, turns.frame(FETCH, VERSION, fetch_of(TOPIC, ends[:count], max_wait=600_000)))
        turns.settle()
        while turns.node.listener.lane.is_busy:
            turns.turn()
        waits.append(turns.total_s)
        turns.total_s = 0.0
        turns.send(writer, produce(turns, number % count))
        ends[number % count] += 1
        turns.receive(reader)
        turns.receive(writer)
        wakes.append(turns.total_s)
        longest.append(turns.longest_s)
    reader.close()
    writer.close()
    measure.report(
        f"fetch: {count} partitions, waits and is woken",
        wait_us=round(min(waits) * 1e6),
        wake_us=round(min(wakes) * 1e6),
        longest_turn_ms=round(min(longest) * 1e3, 2),
    )


def produce(turns: Turns, index: int) -> bytes:
    """A Produce request of one record."""
    builder = BatchBuilder(1 << 12)
    builder.append(turns.node.clock.wall_ms(), None, b"v")
    data = [{"name": TOPIC, "partition_data": [{"index": index, "records": bytes(builder.close())}]}]
    return turns.frame(PRODUCE, 9, {"transactional_id": None, "acks": 1, "timeout": 5000, "topic_data": data})


if __name__ == "__main__":
    main()
