"""A node that runs inside the test: a thread turns its crank, a client talks to it over loopback."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable, Iterator

import pytest
from support.broker_client import BrokerClient
from support.broker_turns import Turns, started

from kafkatools.core.broker.node import single_node_config, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.clock import SystemClock


class RunningNode:
    """A node with its thread."""

    def __init__(self, directory: pathlib.Path, settings: dict[str, str]) -> None:
        self.failures: list[str] = []
        config = single_node_config(str(directory), "127.0.0.1", 0, settings)
        self.node = start_node(NodeSetup(config, SystemClock(), report=self.failures.append), format_if_needed=True)
        self.thread = threading.Thread(target=self.node.run)
        self.thread.start()
        self.clients: list[BrokerClient] = []

    def connect(self) -> BrokerClient:
        """A new connection, closed with the node."""
        self.clients.append(BrokerClient("127.0.0.1", self.node.listener.port))
        return self.clients[-1]

    def stop(self) -> None:
        """The clean stop; a bug that the broker reported fails the test."""
        if self.thread.is_alive():
            self.node.request_stop()
            self.thread.join()
            self.node.close()
        for client in self.clients:
            client.close()
        assert self.failures == []


@pytest.fixture
def run_node(tmp_path: pathlib.Path) -> Iterator[Callable[..., RunningNode]]:
    """Starts nodes on `tmp_path`/data; settings by Kafka's names."""
    made: list[RunningNode] = []

    def start(settings: dict[str, str] | None = None) -> RunningNode:
        made.append(RunningNode(tmp_path / "data", settings or {}))
        return made[-1]

    yield start
    for running in made:
        running.stop()


@pytest.fixture
def client(run_node: Callable[..., RunningNode]) -> BrokerClient:
    """A client of a fresh node."""
    return run_node().connect()


@pytest.fixture
def broker(tmp_path: pathlib.Path) -> Iterator[Turns]:
    """A broker whose turns the test makes."""
    with started(tmp_path) as made:
        yield made
