"""EmbeddedCluster: the sandbox of several nodes for one program; for tests of what happens when brokers go.

Rules: as for EmbeddedBroker. Every node is a process of its own; they end with the program that started them, also
when that is killed, and the last one then removes the directory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence

from kafkatools.core.config.given import settings_text
from kafkatools.core.errors import IllegalState
from kafkatools.sandbox.cluster import ClusterOptions, SandboxCluster, start_cluster


class EmbeddedCluster:
    """A Kafka cluster for tests, without Docker or a JVM: `with EmbeddedCluster(nodes=3) as cluster: ...`.

    Nodes are numbered from 1, each is broker and controller. `settings`: settings of all brokers by Kafka's names
    (docs/config/broker.md), or as keyword arguments with underscores; `racks`: one for each node, or fewer, again and
    again; `port`: 0 takes free ones, else node i listens on port + 10 (i - 1) and its controller on the next one;
    `directory`: where to keep the data, which then stays; without one it lies in a temporary directory and is removed
    with the cluster. Nothing is started before `start` or `with`.
    """

    def __init__(
        self,
        nodes: int = 3,
        settings: Mapping[str, object] | None = None,
        *,
        racks: Sequence[str] = (),
        port: int = 0,
        directory: str | os.PathLike[str] | None = None,
        **named: object,
    ) -> None:
        self._size = nodes
        self._settings = settings_text("broker", settings, named)
        self._racks = tuple(racks)
        self._port = port
        self._directory = None if directory is None else os.path.abspath(directory)
        self._home: str | None = None
        self._started: SandboxCluster | None = None

    def __enter__(self) -> EmbeddedCluster:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def _cluster(self) -> SandboxCluster:
        if self._started is None:
            raise IllegalState("The embedded cluster was not started: use it in a with statement, or call start()")
        return self._started

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, `127.0.0.1:port,...`. Raises IllegalState when it was not started."""
        return ",".join(self._cluster.addresses)

    @property
    def node_ids(self) -> list[int]:
        """1 to the number of nodes."""
        return list(range(1, self._size + 1))

    def address(self, node: int) -> str:
        """Where a node listens, whether it runs or not. Raises SandboxError for an unknown one."""
        return self._cluster.layout.place(node).address

    def directory(self, node: int) -> str:
        """Where a node keeps its data."""
        return self._cluster.layout.place(node).directory

    def state(self, node: int) -> str:
        """`running`, `paused` or `dead`."""
        return self._cluster.node(node).state

    def pid(self, node: int) -> int:
        """The process of a node. Raises IllegalState when it is dead."""
        pid = self._cluster.node(node).pid
        if pid is None:
            raise IllegalState(f"Node {node} of the embedded cluster does not run")
        return pid

    def start(self) -> None:
        """Starts all nodes and returns when every broker is registered and takes requests, in a second or two. Raises
        SandboxError, with the reason, and ConfigError; nothing is left running then."""
        from kafkatools.core.clock import SystemClock

        if self._started is not None:
            return
        home = tempfile.mkdtemp(prefix="kafkatools-cluster-")
        directory = self._directory or os.path.join(home, "data")
        options = ClusterOptions(
            self._size, self._port, directory, self._settings, self._racks, 0, os.getpid(), remove_home=True
        )
        try:
            self._started = start_cluster(home, options, SystemClock())
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            raise
        self._home = home

    def kill(self, node: int) -> None:
        """Ends a node as kill -9 does: nothing is flushed, closed or handed over."""
        self._cluster.kill(node)

    def pause(self, node: int) -> None:
        """Stops a node in the middle of what it does: it keeps its connections and answers nothing."""
        self._cluster.pause(node)

    def resume(self, node: int) -> None:
        """Lets a paused node go on."""
        self._cluster.resume(node)

    def stop(self, node: int) -> None:
        """Stops a node cleanly: it hands over what it leads first."""
        self._cluster.stop_node(node)

    def restart(self, node: int) -> bool:
        """Stops a node cleanly if it runs, and starts it; gives whether the cluster has taken it in, which takes a
        majority of nodes that run."""
        return self._cluster.restart(node)

    def wipe(self, node: int) -> None:
        """Removes the data of a node that is down; `restart` brings it back with an empty disk."""
        self._cluster.wipe(node)

    def close(self) -> None:
        """Stops all nodes, paused ones too, and removes the temporary directory. Safe to call again."""
        cluster, self._started = self._started, None
        try:
            if cluster is not None:
                cluster.close()
        finally:
            if self._home is not None:
                shutil.rmtree(self._home, ignore_errors=True)
                self._home = None
