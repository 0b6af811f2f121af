"""Three nodes with everything that their users do; nodes are killed, paused, stopped, restarted and cut off one by one.

Every node listens behind proxies of this process, one for brokers and clients, one for controllers, whose addresses are
what the others know: a link that is severed is severed for all of them, while the node itself still reaches the others.
"""

from __future__ import annotations

import contextlib
import pathlib
import signal
import time
from collections.abc import Callable

from support.chaos import Worker, WorkerChaos
from support.cutting_proxy import CuttingProxy
from support.kt_process import BrokerProcess, kt_process
from support.ports import free_port
from support.rehearsal import Rehearsal
from support.waiting import PATIENCE_S, eventually

from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.admin.topics import describe_topics, list_topics
from kafkatools.core.errors import KafkaError

NODES = (1, 2, 3)
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "min.insync.replicas": "2",
}
HEALED_S = 120


class ClusterNodes:
    """Three `kt server-start` processes of one quorum, behind proxies."""

    def __init__(self, directory: pathlib.Path, settings: dict[str, str]) -> None:
        self.brokers = {node: CuttingProxy() for node in NODES}
        self.controllers = {node: CuttingProxy() for node in NODES}
        voters = ",".join(f"{node}@127.0.0.1:{proxy.port}" for node, proxy in self.controllers.items())
        self.nodes: dict[int, BrokerProcess] = {}
        for node in NODES:
            port, controller = free_port(), free_port()
            self.nodes[node] = BrokerProcess(
                directory / f"node{node}",
                {
                    **settings,
                    "node.id": str(node),
                    "controller.quorum.voters": voters,
                    "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                    "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.brokers[node].port}",
                },
            )
            self.brokers[node].target, self.controllers[node].target = port, controller

    @property
    def bootstrap(self) -> str:
        """The address of every node, by its proxy."""
        return ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.brokers.values())

    def spawn(self) -> None:
        """Starts all of them."""
        for node in self.nodes.values():
            node.spawn()

    def proxies(self) -> list[CuttingProxy]:
        """All of them."""
        return [*self.brokers.values(), *self.controllers.values()]

    def close(self) -> None:
        """Nothing is left behind."""
        for node in self.nodes.values():
            if node._child is not None:
                node.kill()
        for proxy in self.proxies():
            proxy.close()


class ClusterChaos(WorkerChaos):
    """One node at a time: killed, stopped cleanly, paused, or cut off, for a while; and workers besides."""

    def __init__(self, cluster: ClusterNodes, workers: list[Worker], seed: int, *, is_long: bool) -> None:
        super().__init__(workers, seed, is_long=is_long)
        self.cluster = cluster
        self.faults: list[str] = []
        self._longest_fault = 12.0 if is_long else 6.0

    def run(self, seconds: float) -> None:
        """Fault after fault for so long; leaves everything running and connected."""
        faults: list[tuple[str, Callable[[int], None]]] = [
            ("kill", self._kill),
            ("kill", self._kill),
            ("stop", self._stop),
            ("pause", self._pause),
            ("sever broker", self._sever_broker),
            ("sever controller", self._sever_controller),
            ("sever both", self._sever_both),
        ]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.watch(self._source.uniform(0.2, self._longest_gap))
            name, fault = self._source.choice(faults)
            node = self._source.choice(NODES)
            self.faults.append(f"{name} {node}")
            self._check_running()
            fault(node)
            self._strike_worker()
        self.let_all_go_on()

    def _check_running(self) -> None:
        ended = [number for number, node in self.cluster.nodes.items() if node.child.poll() is not None]
        assert not ended, f"nodes {ended} ended by themselves; faults so far: {self.faults}"

    def _fault_time(self) -> float:
        return self._source.choice((0.0, 0.5, 2.0, self._source.uniform(1, self._longest_fault)))

    def _kill(self, node: int) -> None:
        self.measure()
        self.cluster.nodes[node].kill()
        self.watch(self._fault_time())
        self.cluster.nodes[node].spawn()
        self.tally.broker_kills += 1

    def _stop(self, node: int) -> None:
        began = time.monotonic()
        self.cluster.nodes[node].stop()
        self.tally.slowest_start = max(self.tally.slowest_start, time.monotonic() - began)
        self.watch(self._fault_time())
        self.cluster.nodes[node].spawn()
        self.tally.clean_stops += 1

    def _pause(self, node: int) -> None:
        child = self.cluster.nodes[node].child
        child.send_signal(signal.SIGSTOP)
        try:
            self.watch(self._source.uniform(1, self._longest_fault))
        finally:
            child.send_signal(signal.SIGCONT)
        self.tally.stops += 1

    def _sever_broker(self, node: int) -> None:
        self._sever([self.cluster.brokers[node]])

    def _sever_controller(self, node: int) -> None:
        self._sever([self.cluster.controllers[node]])

    def _sever_both(self, node: int) -> None:
        self._sever([self.cluster.brokers[node], self.cluster.controllers[node]])

    def _sever(self, proxies: list[CuttingProxy]) -> None:
        for proxy in proxies:
            proxy.sever()
        self.watch(self._source.uniform(0.5, self._longest_fault))
        for proxy in proxies:
            proxy.mend()
        self.tally.cuts += 1

    def _strike_worker(self) -> None:
        running = self._free_workers()
        chance = self._source.random()
        if running and chance < 0.15:
            self._stop_worker(self._source.choice(running))
        elif running and chance < 0.4:
            self._kill_worker(self._source.choice(running))

    def measure(self) -> None:
        """Notes what each node takes."""
        for node in self.cluster.nodes.values():
            if node.child.poll() is None:
                self.note_process(node.child.pid)

    def close(self) -> None:
        super().close()
        self.cluster.close()


class ClusterRehearsal(Rehearsal):
    """The rehearsal of one broker, on three nodes."""

    def _make_brokers(self, settings: dict[str, str]) -> str:
        self.cluster = ClusterNodes(self.directory, {**settings, **SETTINGS})
        return self.cluster.bootstrap

    def _make_chaos(self, seed: int, is_long: bool) -> ClusterChaos:
        return ClusterChaos(self.cluster, self.writers + self.readers, seed, is_long=is_long)

    def start(self) -> None:
        """The nodes and the topics; the workers come with the chaos."""
        self.cluster.spawn()
        eventually(self._all_are_there, HEALED_S)
        self.create_topics(len(NODES), {"min.insync.replicas": "2"})

    def _all_are_there(self) -> bool:
        with contextlib.suppress(KafkaError), self.admin() as admin:
            return len(describe_cluster(admin).nodes) == len(NODES)
        return False

    def wait_until_in_sync(self) -> None:
        """Every replica of every topic is in sync."""
        eventually(self._is_in_sync, HEALED_S)

    def _is_in_sync(self) -> bool:
        with self.admin() as admin:
            found = describe_topics(admin, [topic.name for topic in list_topics(admin)])
        described = [topic for topic in found.values() if not isinstance(topic, Exception)]
        return all(
            len(partition.isr) == len(partition.replicas) for topic in described for partition in topic.partitions
        )

    def told(self) -> str:
        """What the cluster says of itself, for whoever looks for the reason of a failure."""
        asked = (
            ("topics", "--describe"),
            ("consumer-groups", "--describe", "--all-groups"),
            ("consumer-groups", "--describe", "--all-groups", "--state"),
            ("transactions", "list"),
            *(("transactions", "describe", "--transactional-id", name) for name in self._copier_names()),
            ("metadata-quorum", "describe", "--replication"),
        )
        said = []
        for command, *words in asked:
            ran = kt_process(self.directory, command, "--bootstrap-server", self.bootstrap, *words, timeout=PATIENCE_S)
            said.append(f"$ kt {command} {' '.join(words)}\n{ran.stdout.decode()}{ran.stderr.decode()[-2000:]}")
        return "\n".join(said)

    def _copier_names(self) -> list[str]:
        return [worker.name.removeprefix("copier-") for worker in self.readers if worker.name.startswith("copier-")]

    def differing_replicas(self) -> list[str]:
        """Replicas of uncompacted topics that are not the same bytes on every node; all are in sync and at rest."""
        problems = []
        for topic in (name for name in self.topics if name != "keys"):
            for partition in range(self.topics[topic]):
                copies = {number: self._bytes(number, topic, partition) for number in NODES}
                if len(set(copies.values())) != 1:
                    sizes = {number: len(data) for number, data in copies.items()}
                    at = next(
                        (i for i, three in enumerate(zip(*copies.values(), strict=False)) if len(set(three)) > 1), None
                    )
                    problems.append(f"{topic}-{partition} differs between the nodes at byte {at}: {sizes}")
        return problems

    def _bytes(self, node: int, topic: str, partition: int) -> bytes:
        directory = self.cluster.nodes[node].directory / f"{topic}-{partition}"
        return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))

    def damage(self) -> list[str]:
        """What `kt dump-log` says of the directories of every node after a clean stop."""
        problems = []
        for number, node in self.cluster.nodes.items():
            node.stop()
            for directory in sorted(path for path in node.directory.iterdir() if path.is_dir()):
                ran = kt_process(self.directory, "dump-log", "--files", str(directory))
                if ran.returncode:
                    problems.append(f"node {number} {directory.name}: {ran.returncode} {ran.stderr.decode()[-500:]}")
        return problems
