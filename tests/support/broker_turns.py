"""A broker whose turns a test counts and times: nothing happens between two turns."""

from __future__ import annotations

import gc
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.broker_client import BrokerClient
from support.readiness import readable

from kafkatools.core.broker.node import single_node_config, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.clock import SystemClock

LONGEST_TURN_SECONDS = 0.25


class Turns:
    """A broker whose turns the test counts and times."""

    def __init__(self, directory: Path) -> None:
        self.reports: list[str] = []
        config = single_node_config(str(directory), "127.0.0.1", 0, {"log.initial.task.delay.ms": "86400000"})
        self.node = start_node(NodeSetup(config, SystemClock(), report=self.reports.append), format_if_needed=True)
        self.longest = self.total = 0.0
        self.clients: list[BrokerClient] = []

    def connect(self) -> BrokerClient:
        client = BrokerClient("127.0.0.1", self.node.listener.port)
        client.socket.setblocking(False)
        self.clients.append(client)
        return client

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.node.close()

    def send(self, client: BrokerClient, data: bytes) -> None:
        """Send while the broker reads; nothing is waited for but that the bytes are taken."""
        view = memoryview(data)
        while view:
            try:
                view = view[client.socket.send(view) :]
            except BlockingIOError:
                self.turn()

    def turn(self) -> None:
        begun = time.process_time()
        self.node.run_once(0)
        seconds = time.process_time() - begun
        self.longest, self.total = max(self.longest, seconds), self.total + seconds

    def turn_until(self, is_so: Callable[[], bool], limit_s: float = 30) -> None:
        """Turn until something is so."""
        ends = time.monotonic() + limit_s
        while not is_so():
            assert time.monotonic() < ends
            self.turn()

    def turn_until_readable(self, *clients: BrokerClient) -> list[socket.socket]:
        """Turn until one of them has an answer or is closed; gives who."""
        while not (found := readable([client.socket for client in clients], 0)):
            self.turn()
        return found

    def call(self, client: BrokerClient, api_key: int, version: int, fields: Mapping[str, Any]) -> Any:
        """Send a request and turn until its answer is there."""
        self.send(client, client.frame(api_key, version, fields))
        return self.receive(client, api_key, version)

    def receive(self, client: BrokerClient, api_key: int, version: int) -> Any:
        """The next answer; EOFError when the broker closed the connection."""
        data = b""
        while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
            self.turn_until_readable(client)
            part = client.socket.recv(1 << 20)
            if not part:
                raise EOFError
            data += part
        client.read = lambda size: _take(rest, size)  # type: ignore[method-assign]
        rest = bytearray(data)
        return client.receive(api_key, version)


def _take(rest: bytearray, size: int) -> bytes:
    taken = bytes(rest[:size])
    del rest[:size]
    return taken


@contextmanager
def started(directory: Path) -> Iterator[Turns]:
    """A broker that has imported what requests need first, without collections of the test's garbage."""
    made = Turns(directory)
    for api_key, version in ((3, 9), (18, 3), (9, 8), (11, 9)):  # what is first used is imported
        client = made.connect()
        made.send(client, client.frame(api_key, version, {}))
        made.turn_until_readable(client)
        client.close()
    made.longest = made.total = 0.0
    gc.collect()
    gc.disable()  # a collection walks over all objects of the test's process
    try:
        yield made
    finally:
        gc.enable()
        made.close()
