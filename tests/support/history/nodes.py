"""Three nodes as processes, kt's or Apache Kafka's, each behind proxies for the other nodes."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping

from support.apache_kafka import CLUSTER_ID, ApacheKafka
from support.chaos import die_with_parent
from support.embedded_three_nodes import EmbeddedNodes
from support.history.links import LinkProxy, LinkTable
from support.kt import run_kt
from support.ports import free_port

from kafkatools.core.broker.metadata.formatter import random_uuid
from kafkatools.sandbox.faults.control import Faults, NodeProcess

NODES = (1, 2, 3)
KEPT = ("log-", "transactions-")
"""The directories of topics that nobody deletes."""
FAULTY_NODE = pathlib.Path(__file__).with_name("faulty_node.py")
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "metadata.log.max.record.bytes.between.snapshots": "20000",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "auto.create.topics.enable": "false",
    "log.segment.bytes": "1048576",
}


def faults_of(directory: str, pid: int | None, *, skew_ms: int = 0, is_full: bool = False) -> None:
    """Replace the faults of a node by these; a node that runs has them on return."""
    faults = Faults(lambda: {1: NodeProcess(directory, pid)})
    faults.clear()
    if skew_ms:
        faults.add("clock-skew", skew_ms=skew_ms)
    if is_full:
        faults.add("full-disk")


def _before_start() -> None:
    """Ignore SIGUSR1 until the node handles it: it reads its faults at its start anyway."""
    die_with_parent()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


class HistoryNodes(ApacheKafka):
    """Nodes that reach each other through `links`. Apache Kafka's as they stand: their clock and disk stay sound."""

    has_faulty_machine = False

    def __init__(self, home: pathlib.Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(home, 3, {**SETTINGS, **(settings or {})})
        self.links = LinkTable()
        self.links.nodes = NODES
        self.links.pid_of = self.pid
        self._internal_ports = {node: free_port() for node in NODES}
        self.broker_links = {node: LinkProxy(node, self.links) for node in NODES}
        self.controller_links = {node: LinkProxy(node, self.links) for node in NODES}
        for node in NODES:
            self.broker_links[node].target = self._internal_ports[node]
            self.controller_links[node].target = self.controller_ports[node - 1]

    def pid(self, node: int) -> int | None:
        """The process of a node that runs."""
        process = self.processes.get(node)
        return None if process is None or process.poll() is not None else process.pid

    def _properties(self, node: int) -> pathlib.Path:
        """Clients and nodes have a listener each; the one of the nodes is advertised by the address of its proxy."""
        path = super()._properties(node)
        lines = dict(line.split("=", 1) for line in path.read_text().splitlines())
        client = f"CLIENT://127.0.0.1:{self.ports[node - 1]}"
        controller = f"CONTROLLER://127.0.0.1:{self.controller_ports[node - 1]}"
        lines |= {
            "listeners": f"{client},INTERNAL://127.0.0.1:{self._internal_ports[node]},{controller}",
            "advertised.listeners": f"{client},INTERNAL://127.0.0.1:{self.broker_links[node].port},"
            f"CONTROLLER://127.0.0.1:{self.controller_links[node].port}",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{p.port}" for n, p in self.controller_links.items()),
        }
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return path

    def is_running(self, node: int) -> bool:
        """Whether its process lives."""
        return self.pid(node) is not None

    def signal(self, node: int, number: int) -> None:
        """Send a signal to a node that runs."""
        if self.is_running(node):
            self.processes[node].send_signal(number)

    def forget(self, node: int) -> None:
        """Reap a node that has ended by itself."""
        self.processes.pop(node).wait()

    def wipe(self, node: int) -> None:
        """Remove all that a stopped node has stored and format its directory again."""
        shutil.rmtree(self.log_dir(node))
        self.format(node)

    def sizes(self, node: int) -> dict[str, int]:
        """The bytes in the segments of each partition that is not compacted, by the name of its directory."""
        directories = [path for path in self.log_dir(node).iterdir() if path.is_dir()]
        return {
            directory.name: sum(path.stat().st_size for path in directory.glob("*.log"))
            for directory in directories
            if directory.name.startswith(KEPT)
        }

    def has_refilled(self, node: int, sizes: Mapping[str, int]) -> bool:
        """Whether a node has at least these bytes again."""
        if not self.log_dir(node).exists():
            return False
        found = self.sizes(node)
        return all(found.get(name, 0) >= size for name, size in sizes.items())

    def set_faults(self, node: int, **faults: int | bool) -> None:
        """Set the faults of a node's clock and disk (only nodes of kt)."""
        if self.has_faulty_machine:
            faults_of(str(self.faults_directory(node)), self.pid(node), **faults)

    def faults_directory(self, node: int) -> pathlib.Path:
        """The directory from which a node of kt reads its faults."""
        return self.home / f"node{node}"

    def server_log(self, node: int) -> str:
        """Return the output of a node."""
        path = self.home / f"node{node}" / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self) -> None:
        """Leave nothing behind."""
        for node in list(self.processes):
            with contextlib.suppress(ProcessLookupError):
                self.processes[node].send_signal(signal.SIGKILL)
            self.forget(node)
        for proxy in self.links.proxies:
            proxy.close()


class EmbeddedHistoryNodes(EmbeddedNodes, HistoryNodes):
    """Nodes of kt, whose wall clock and disk can be faulty. `is_dynamic`: the voters of their quorum may change, and
    each node that is none joins by itself."""

    has_faulty_machine = True
    is_dynamic = False

    def __init__(self, home: pathlib.Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(home, settings)
        self._directory_ids = {node: random_uuid() for node in NODES}
        self._voters: set[int] = set()

    def _properties(self, node: int) -> pathlib.Path:
        path = super()._properties(node)
        if self.is_dynamic:
            servers = ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.controller_links.values())
            lines = [line for line in path.read_text().splitlines() if not line.startswith("controller.quorum.")]
            lines += [f"controller.quorum.bootstrap.servers={servers}", "controller.quorum.auto.join.enable=true"]
            path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def format(self, node: int = 1) -> None:
        """Format a directory: the first ones as voters, those of wiped nodes as observers."""
        if not self.is_dynamic:
            super().format(node)
            return
        voters = ",".join(
            f"{n}@127.0.0.1:{proxy.port}:{self._directory_ids[n]}" for n, proxy in self.controller_links.items()
        )
        options = ["--no-initial-controllers"] if node in self._voters else ["--initial-controllers", voters]
        self._voters.add(node)
        formatted = run_kt("storage", "format", "-t", CLUSTER_ID, "-c", str(self._properties(node)), *options)
        assert formatted.status == 0, formatted.err

    def start_node(self, node: int = 1, *, wait: bool = True) -> None:
        properties = self._properties(node)
        environment = {**os.environ, "KT_HOME": str(self.home), "KT_SANDBOX": "off"}
        command = [sys.executable, str(FAULTY_NODE), str(self.faults_directory(node)), "server-start", str(properties)]
        with (self.home / f"node{node}" / "server.log").open("ab") as log:
            self.processes[node] = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, preexec_fn=_before_start
            )
        if wait:
            self.wait_for_node(node)
