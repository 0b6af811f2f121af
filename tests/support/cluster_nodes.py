"""Three nodes of one cluster in one process: each has its sockets, directory and turns of its own; a manual clock moves
on when none of them has anything to do, so that time-outs cost no time."""

from __future__ import annotations

import contextlib
import pathlib
import select
import socket
import struct
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from support.broker_client import BrokerClient
from support.manual_clock import ManualClock
from support.ports import free_port

from kafkatools.core import config as tables
from kafkatools.core.broker.metadata.feature_levels import (
    LATEST_RELEASE,
    METADATA_LEVELS,
    METADATA_VERSION,
    default_levels,
)
from kafkatools.core.broker.metadata.formatter import (
    FormatRequest,
    PlannedDirectory,
    Voter,
    random_uuid,
    write_directory,
)
from kafkatools.core.broker.node import Node, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.config import Config
from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.files import FileSystem, RealFileSystem

STEP_MS = 5
IDLE_TURNS = 3
BUSY_TURNS = 5
QUICK = {
    "controller.quorum.election.timeout.ms": "200",
    "controller.quorum.election.backoff.max.ms": "100",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.enable": "false",
    "request.timeout.ms": "10000",
}


class ClusterNodes:
    """The cluster. Nodes are numbered from 1; `nodes` holds those that run, `paused` those of them that stand still, as
    after SIGSTOP."""

    def __init__(
        self, root: pathlib.Path, count: int = 3, settings: Mapping[str, str] | None = None, *, seed: int = 1
    ) -> None:
        self.clock = ManualClock()
        self.root = root
        self.cluster_id = random_uuid()
        self.ids = tuple(range(1, count + 1))
        self.nodes: dict[int, Node] = {}
        self.lines: list[str] = []
        self.settings = {**QUICK, **(settings or {})}
        self.ports = {node_id: (free_port(), free_port()) for node_id in self.ids}
        self.voters: tuple[int, ...] = ()
        self.paused: set[int] = set()
        self.disks: dict[int, FileSystem] = {}
        self._seed = seed
        self._clients: dict[int, tuple[Node, BrokerClient]] = {}

    # -- nodes -----------------------------------------------------------------------------------------------------
    def start(self) -> ClusterNodes:
        """Start them all and wait until they serve."""
        for node_id in self.ids:
            self.start_node(node_id)
        self.run_until(lambda: all(node.is_ready for node in self.nodes.values()))
        return self

    def start_node(self, node_id: int, overrides: Mapping[str, str] | None = None) -> Node:
        """Start one, formatting its directory when there is none."""
        directory = self.root / f"node-{node_id}"
        if not (directory / "meta.properties").exists():
            self.format(node_id, self.cluster_id)
        setup = NodeSetup(
            self.config(node_id, overrides),
            self.clock,
            self.disks.get(node_id),
            report=self.lines.append,
            random=Random(self._seed + node_id),
        )
        node = start_node(setup)
        self.nodes[node_id] = node
        return node

    def config(self, node_id: int, overrides: Mapping[str, str] | None = None) -> Config:
        """The settings of a node."""
        port, controller_port = self.ports[node_id]
        voters = ",".join(f"{each}@127.0.0.1:{self.ports[each][1]}" for each in self.voters or self.ids)
        return Config(
            tables.BROKER,
            {
                "node.id": str(node_id),
                "process.roles": "broker,controller",
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                # without it a combined node that is the only voter would be a node alone
                "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
                "log.dirs": str(self.root / f"node-{node_id}"),
                **self.settings,
                **(overrides or {}),
            },
        )

    def controller_only(self, node_id: int) -> dict[str, str]:
        """The settings of a controller that is no broker."""
        return {"process.roles": "controller", "listeners": f"CONTROLLER://127.0.0.1:{self.ports[node_id][1]}"}

    def broker_only(self, node_id: int) -> dict[str, str]:
        """The settings of a broker that is no controller."""
        return {"process.roles": "broker", "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[node_id][0]}"}

    def format(self, node_id: int, cluster_id: str, directory: str = "", *, standalone: bool = False) -> None:
        """Write the directory of a node, as `kt storage format` does; `standalone` as the first voter of a dynamic
        quorum."""
        directory = directory or str(self.root / f"node-{node_id}")
        level = METADATA_LEVELS[LATEST_RELEASE]
        directory_id = random_uuid()
        voters = [Voter(node_id, "127.0.0.1", self.ports[node_id][1], directory_id)] if standalone else []
        levels = {METADATA_VERSION: level, **default_levels(level)}
        request = FormatRequest(cluster_id, node_id, (directory,), directory, levels, voters=voters)
        kind = "dynamic metadata voter directory" if standalone else "metadata directory"
        planned = PlannedDirectory(directory, kind, directory_id)
        write_directory(RealFileSystem(), request, planned, self.clock.wall_ms())

    def kill(self, node_id: int) -> None:
        """End a node as far as the others can tell as kill -9 does: sockets are closed, nothing is handed over. Its
        directory gets no marker of a clean stop."""
        node = self.nodes.pop(node_id)
        node.close()
        (self.root / f"node-{node_id}" / ".kafka_cleanshutdown").unlink(missing_ok=True)

    def stop(self, node_id: int) -> None:
        """The controlled shutdown."""
        node = self.nodes[node_id]
        node.member.begin_leaving()
        self.run_until(lambda: node.member.has_left)
        del self.nodes[node_id]
        node.close()

    def end_failed(self, node_id: int) -> str:
        """Let a node that cannot go on end; gives why it could not."""
        node = self.nodes[node_id]
        self.run_until(lambda: node.is_stopping)
        node.member.begin_leaving()
        self.run_until(lambda: node.member.has_left)
        del self.nodes[node_id]
        with contextlib.suppress(KafkaStorageError):
            node.close()
        return str(node.failure)

    @property
    def bootstrap(self) -> str:
        """The addresses of the brokers."""
        return ",".join(f"127.0.0.1:{self.ports[node_id][0]}" for node_id in self.ids)

    @property
    def controller(self) -> Node:
        """The node whose controller is active."""
        return next(node for node in self.nodes.values() if node.controller.is_active)

    # -- time ------------------------------------------------------------------------------------------------------
    def turn(self) -> int:
        """One turn of each; gives the events they had."""
        return sum(node.run_once(0) for node_id, node in list(self.nodes.items()) if node_id not in self.paused)

    def run_until(self, done: Callable[[], object], max_ms: int = 60_000) -> int:
        """Turn until it is so; gives the time it took."""
        begun = self.clock.now_ms()
        idle = turns = 0
        while not done():
            turns += 1
            idle = 0 if self.turn() else idle + 1
            if idle >= IDLE_TURNS:
                idle = 0
                self.clock.advance_ms(STEP_MS)
            elif turns % BUSY_TURNS == 0:
                self.clock.advance_ms(1)  # who asks again and again waits for the time, too
            assert self.clock.now_ms() - begun < max_ms, f"it did not happen in {max_ms} ms: {self.lines}"
        return self.clock.now_ms() - begun

    def run_for(self, duration_ms: int) -> None:
        """Let time pass."""
        end_ms = self.clock.now_ms() + duration_ms
        self.run_until(lambda: self.clock.now_ms() >= end_ms, duration_ms + 1000)

    # -- clients ---------------------------------------------------------------------------------------------------
    def ask(self, node_id: int, api_key: int, version: int, **fields: Any) -> Any:
        """Send a request to a broker, turn until it is answered, and give the answer."""
        client = self.client(node_id)
        client.socket.sendall(client.frame(api_key, version, fields))
        self.run_until(lambda: has_response(client))
        return client.receive(api_key, version)

    def client(self, node_id: int) -> BrokerClient:
        """The connection of the test to a broker."""
        node = self.nodes[node_id]
        found = self._clients.get(node_id)
        if found is None or found[0] is not node:
            if found is not None:
                found[1].close()
            found = self._clients[node_id] = (node, BrokerClient("127.0.0.1", self.ports[node_id][0]))
        return found[1]

    def create_topic(self, name: str, partitions: int = 1, replication: int = 3, **configs: str) -> None:
        """By the first node that runs; every node has it then."""
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": replication,
            "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
        }
        asked = next(node_id for node_id, node in self.nodes.items() if node.cluster.is_broker)
        answer = self.ask(asked, 19, 7, topics=[topic], timeout=30_000)
        assert [int(each.error_code) for each in answer.topics] == [0], answer
        self.run_until(lambda: all(name in node.image.topics for node in self.nodes.values()))

    def leader(self, topic: str, index: int = 0) -> int:
        """Who leads a partition, as the active controller has it."""
        return self.controller.controller.image.topics[topic].partitions[index].leader

    def close(self) -> None:
        """Stop without ceremony."""
        for _, client in self._clients.values():
            client.close()
        for node in self.nodes.values():
            node.close()
        self.nodes.clear()


def has_response(client: BrokerClient) -> bool:
    """Whether a whole response has come, or the connection has ended."""
    arrived = select.poll()  # unlike select(), it takes descriptors above 1023
    arrived.register(client.socket, select.POLLIN)
    if not arrived.poll(0):
        return False
    head = client.socket.recv(4, socket.MSG_PEEK)
    if len(head) < 4:
        return not head
    size = 4 + int(struct.unpack(">i", head)[0])
    return len(client.socket.recv(size, socket.MSG_PEEK)) >= size
