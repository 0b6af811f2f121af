"""EmbeddedCluster: a cluster for the tests of one program, such as tests of broker failures.

Rules: as for EmbeddedBroker. Every node is a process of its own. When the program that started them has ended, even by
kill -9, the nodes end and the last one removes the temporary directory; a directory that the program gave stays.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from kafkatools.core.closing import Closing
from kafkatools.core.config.client_settings import settings_text
from kafkatools.core.errors import IllegalState
from kafkatools.sandbox.cluster import ClusterOptions, SandboxCluster, start_cluster
from kafkatools.sandbox.security import Security, SecurityOptions, prepare, settings_of, write_client_files

if TYPE_CHECKING:
    from kafkatools.sandbox.faults.control import Faults


class EmbeddedCluster(Closing):
    """A Kafka cluster for tests, without Docker or a JVM: `with EmbeddedCluster(nodes=3) as cluster: ...`.

    Nodes are numbered from 1; each is broker and controller. `settings` are settings of all brokers by Kafka's names
    (docs/config/broker.md), or keyword arguments with underscores; a wrong one raises ConfigError. `racks` are assigned
    to the nodes in turn. Port 0 chooses free ports; else node i listens on port + 10 (i - 1), its controller on the
    next one. `directory` keeps the data; without it the data is in a temporary directory, which is removed with the
    cluster. `security` gives the listeners TLS, SASL and ACLs (`SecurityOptions`). Nothing starts before `start`
    or `with`.
    """

    def __init__(
        self,
        nodes: int = 3,
        settings: Mapping[str, object] | None = None,
        *,
        racks: Sequence[str] = (),
        port: int = 0,
        directory: str | os.PathLike[str] | None = None,
        security: SecurityOptions | None = None,
        **keyword_settings: object,
    ) -> None:
        self._size = nodes
        self._settings = settings_text("broker", settings, keyword_settings)
        self._racks = tuple(racks)
        self._port = port
        self._directory = None if directory is None else os.path.abspath(directory)
        self._requested = security or SecurityOptions()
        self._security: Security | None = None
        self._home: str | None = None
        self._started: SandboxCluster | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    @property
    def _cluster(self) -> SandboxCluster:
        if self._started is None:
            raise IllegalState("The embedded cluster was not started: use it in a with statement, or call start()")
        return self._started

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, running or not, `127.0.0.1:port,...`. Raises IllegalState when the cluster is not
        started."""
        return ",".join(self._cluster.addresses)

    @property
    def node_ids(self) -> list[int]:
        """The ids of all nodes, from 1 on."""
        return list(range(1, self._size + 1))

    def address(self, node: int) -> str:
        """The address of a node, running or not. Raises SandboxError for an unknown id, IllegalState when the cluster
        is not started."""
        return self._cluster.layout.place(node).address

    def directory(self, node: int) -> str:
        """The data directory of a node. Raises SandboxError for an unknown id, IllegalState when the cluster is not
        started."""
        return self._cluster.layout.place(node).directory

    def state(self, node: int) -> str:
        """The state of a node: `running`, `paused` or `dead`. Raises SandboxError for an unknown id, IllegalState when
        the cluster is not started."""
        return self._cluster.node(node).state

    def pid(self, node: int) -> int:
        """The process id of a running or paused node. Raises IllegalState for a dead node or a cluster that is not
        started, SandboxError for an unknown id."""
        pid = self._cluster.node(node).pid
        if pid is None:
            raise IllegalState(f"Node {node} of the embedded cluster does not run")
        return pid

    def start(self) -> None:
        """Start all nodes and return when every broker is registered and accepts requests, usually in a second or two;
        does nothing when called again. Raises SandboxError, with the reason; then no node is left running."""
        from kafkatools.core.clock import SystemClock

        if self._started is not None:
            return
        home = tempfile.mkdtemp(prefix="kafkatools-cluster-")
        directory = self._directory or os.path.join(home, "data")
        try:
            self._security = prepare(home, self._requested, is_cluster=True)
            options = ClusterOptions(
                self._size,
                self._port,
                directory,
                self._settings,
                self._racks,
                0,
                os.getpid(),
                remove_home=True,
                security=self._security,
            )
            self._started = start_cluster(home, options, SystemClock())
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            raise
        self._home = home
        if self._security is not None:
            write_client_files(self._security, self.bootstrap)

    def client_settings(self, user: str | None = None) -> dict[str, str]:
        """The settings of a client, with bootstrap.servers, and with `security` those of TLS and SASL for a user,
        by default the first one. Raises IllegalState when the cluster is not started, ValueError for an unknown
        user."""
        return {"bootstrap.servers": self.bootstrap, **settings_of(self._security, user)}

    @property
    def faults(self) -> Faults:
        """The faults of the nodes: `with cluster.faults.add("drop", node=2, api="Fetch"): ...`. Raises IllegalState
        when the cluster is not started."""
        return self._cluster.faults

    def kill(self, node: int) -> None:
        """Kill a running or paused node as kill -9 does: nothing is flushed or handed over. Raises SandboxError for a
        dead node, IllegalState when the cluster is not started."""
        self._cluster.kill(node)

    def pause(self, node: int) -> None:
        """Pause a running node (SIGSTOP): its connections stay open without responses. Raises SandboxError for any
        other node, IllegalState when the cluster is not started."""
        self._cluster.pause(node)

    def resume(self, node: int) -> None:
        """Resume a paused node (SIGCONT). Raises SandboxError for a node that is not paused, IllegalState when the
        cluster is not started."""
        self._cluster.resume(node)

    def stop(self, node: int) -> None:
        """Stop a running node after it has handed over its leaderships. Raises SandboxError for any other node or after
        30 s, IllegalState when the cluster is not started."""
        self._cluster.stop_node(node)

    def restart(self, node: int) -> bool:
        """Stop a node unless it is dead, then start it. Returns whether it serves clients within 30 s; it is usually
        False at once unless a majority of the nodes is running.

        Raises SandboxError, also for a paused node, and IllegalState when the cluster is not started.
        """
        return self._cluster.restart(node)

    def wipe(self, node: int) -> None:
        """Remove the data of a dead node; `restart` starts it with an empty directory. Raises SandboxError if it is not
        dead, IllegalState when the cluster is not started."""
        self._cluster.wipe(node)

    def close(self) -> None:
        """Stop all nodes, paused ones too, and remove the temporary directory; does nothing when called again. If a
        node does not stop within 30 s, all are killed and SandboxError is raised."""
        cluster, self._started = self._started, None
        try:
            if cluster is not None:
                cluster.close()
        finally:
            if self._home is not None:
                shutil.rmtree(self._home, ignore_errors=True)
                self._home = None
