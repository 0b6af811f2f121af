"""A sandbox of several nodes: processes that can be killed, paused, restarted and wiped one by one.

Rules: all files are below `<home>/sandbox/nodes/<id>`: the run file (`run.json`, locked while the node runs), messages
(`node.log`) and, unless a directory was named, the data. `<home>/sandbox/cluster.json` describes the nodes from before
the first process starts until the sandbox is stopped, so nodes that are down can be started again. Starting and wiping
hold `start.lock`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkatools.sandbox import layout as layouts
from kafkatools.sandbox.layout import ClusterLayout, NodePlace
from kafkatools.sandbox.run_files import forget_faults, read_run_file
from kafkatools.sandbox.spawn import (
    DEFAULT_IDLE_MS,
    HOST,
    Child,
    SandboxError,
    folder,
    remove_file,
    start_lock,
    write_json,
)

if TYPE_CHECKING:
    import subprocess

    from kafkatools.core.clock import Clock
    from kafkatools.sandbox.faults.control import Faults
    from kafkatools.sandbox.messages import NodeRequest
    from kafkatools.sandbox.security import Security

RUNNING, PAUSED, DEAD = "running", "paused", "dead"
START_TIMEOUT_MS = 60_000
STOP_TIMEOUT_MS = 30_000
RESTART_TIMEOUT_MS = 30_000
_POLL_MS = 20
_MOST_PORT_TRIES = 3


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options of starting a sandbox of several nodes. Port 0: free ports; None: the default ports, or free ones if
    one is in use. Without `directory` the data is below the home.

    `racks` are assigned to the nodes in turn. The nodes end after `idle_ms` without clients (0: never), and with the
    process `parent`; with `remove_home` the last one removes the home. `security` has TLS, SASL and ACLs of their
    listeners.
    """

    nodes: int = 3
    port: int | None = None
    directory: str | None = None
    settings: Mapping[str, str] | None = None
    racks: Sequence[str] = ()
    idle_ms: int = DEFAULT_IDLE_MS
    parent: int | None = None
    remove_home: bool = False
    security: Security | None = None


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state of a node: `running`, `paused` or `dead`; `pid` is None for a dead node."""

    node_id: int
    pid: int | None
    state: str
    place: NodePlace


class SandboxCluster:
    """The nodes of a sandbox: child processes if this object started them, else watched by their run files."""

    def __init__(self, home: str, layout: ClusterLayout, clock: Clock) -> None:
        self.home = home
        self.layout = layout
        self._clock = clock
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    # -- what there is -----------------------------------------------------------------------------------------------
    @property
    def node_ids(self) -> list[int]:
        """The ids of all nodes, from 1 on."""
        return [place.node_id for place in self.layout.places]

    @property
    def nodes(self) -> list[NodeState]:
        """The current state of all nodes."""
        return [self.node(node_id) for node_id in self.node_ids]

    def node(self, node_id: int) -> NodeState:
        """The current state of a node. Raises SandboxError for an unknown id."""
        place = self.layout.place(node_id)
        run_info = read_run_file(_run_path(self.home, node_id))
        if run_info is None:
            return NodeState(node_id, None, DEAD, place)
        return NodeState(node_id, run_info["pid"], PAUSED if _is_stopped(run_info["pid"]) else RUNNING, place)

    @property
    def is_running(self) -> bool:
        """Return whether at least one node is running or paused."""
        return any(node.state != DEAD for node in self.nodes)

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers: the addresses of the running nodes, without paused ones, or of all nodes when none is
        running."""
        return ",".join([node.place.address for node in self.nodes if node.state == RUNNING] or self.addresses)

    @property
    def addresses(self) -> list[str]:
        """The addresses of all nodes, running or not."""
        return [place.address for place in self.layout.places]

    def log_path(self, node_id: int) -> str:
        """The path of a node's message file, `node.log`."""
        return os.path.join(nodes_folder(self.home), str(node_id), "node.log")

    @property
    def faults(self) -> Faults:
        """The faults of the nodes. A paused node gets those that are added when it goes on."""
        from kafkatools.sandbox.faults.control import Faults, NodeProcess

        def processes() -> dict[int, NodeProcess]:
            return {
                node.node_id: NodeProcess(
                    os.path.dirname(_run_path(self.home, node.node_id)), node.pid if node.state == RUNNING else None
                )
                for node in self.nodes
            }

        return Faults(processes)

    # -- what can happen to a node -----------------------------------------------------------------------------------
    def kill(self, node_id: int) -> int:
        """Kill a node, paused or not, as kill -9 does, and wait for its end; returns its pid. Raises SandboxError for a
        dead node or an unknown id."""
        return self._end(node_id, self._pid(node_id), signal.SIGKILL)

    def pause(self, node_id: int) -> int:
        """Pause a running node (SIGSTOP): its connections stay open without responses. Returns its pid; raises
        SandboxError for a paused or dead node."""
        pid = self._pid(node_id, PAUSED, "is paused already")
        os.kill(pid, signal.SIGSTOP)
        self._await(lambda: self.node(node_id).state != RUNNING, f"node {node_id} was not paused")
        return pid

    def resume(self, node_id: int) -> int:
        """Resume a paused node (SIGCONT); returns its pid. Raises SandboxError for a node that is not paused."""
        pid = self._pid(node_id, RUNNING, "is not paused")
        os.kill(pid, signal.SIGCONT)
        return pid

    def stop_node(self, node_id: int) -> int:
        """Stop a running node after it has handed over its leaderships; returns its pid. Raises SandboxError if it is
        paused or dead, or does not end within STOP_TIMEOUT_MS."""
        pid = self._pid(node_id, PAUSED, "is paused: resume it first, or kill it")
        return self._end(node_id, pid, signal.SIGTERM)

    def start_node(self, node_id: int) -> bool:
        """Start a dead node, formatted again if it was wiped. Raises SandboxError if it is not dead or does not start.

        Returns whether it has registered and serves clients within RESTART_TIMEOUT_MS. Unless a majority of the nodes
        is running it does not wait for that and usually returns False.
        """
        if self.node(node_id).state != DEAD:
            raise SandboxError(f"Node {node_id} is already running")
        with start_lock(self.home):
            child = self._spawn(self.layout.place(node_id), [node_id])
        self._adopt(node_id, child)
        try:
            child.answer()
            running_count = sum(node.state == RUNNING for node in self.nodes)
            has_majority = 2 * running_count > len(self.node_ids)
            return child.answer(self._clock, RESTART_TIMEOUT_MS if has_majority else 0) is not None
        except BaseException:
            child.kill()
            del self._children[node_id]
            raise
        finally:
            child.leave()

    def restart(self, node_id: int) -> bool:
        """Stop a node cleanly unless it is dead, then start it. Raises SandboxError, also for a paused node. Returns
        whether it serves clients within RESTART_TIMEOUT_MS, as `start_node` does."""
        if self.node(node_id).state != DEAD:
            self.stop_node(node_id)
        return self.start_node(node_id)

    def wipe(self, node_id: int) -> str:
        """Remove the data of a dead node, like a replaced disk; returns its directory. An unformatted directory is left
        as it is. Raises SandboxError if the node is not dead."""
        if self.node(node_id).state != DEAD:
            raise SandboxError(f"Node {node_id} is running: stop it or kill it first")
        place = self.layout.place(node_id)
        with start_lock(self.home):
            if layouts.is_formatted(place):
                shutil.rmtree(place.directory)
        return place.directory

    # -- the whole ---------------------------------------------------------------------------------------------------
    def stop(self) -> list[int]:
        """Stop all nodes, paused ones too, without handing over leaderships, and remove `cluster.json`; the data stays.
        Returns the pids of nodes that were running or paused. Raises SandboxError if one does not stop in time."""
        processes = [(node.node_id, node.pid) for node in self.nodes if node.pid is not None]
        for _, pid in processes:
            _signal(pid, signal.SIGINT)
            _signal(pid, signal.SIGCONT)
        for node_id, pid in processes:
            self._await_end(node_id, pid)
        self._forget()
        return [pid for _, pid in processes]

    def close(self) -> None:
        """Stop all nodes; if that fails, kill those that this object started and raise the error, such as
        SandboxError."""
        try:
            self.stop()
        except BaseException:
            for process in self._children.values():
                process.kill()
                process.wait()
            raise
        for process in self._children.values():
            process.wait()

    def _forget(self) -> None:
        for path in _shared_files(self.home):
            remove_file(path)

    def start_all(self) -> None:
        """Start all nodes and wait until every broker is registered. Raises SandboxError; then no node is left running,
        and directories that were formatted here are removed."""
        children: list[Child] = []
        fresh = [place for place in self.layout.places if not layouts.is_formatted(place)]
        self._describe()
        try:
            for place in self.layout.places:
                children.append(self._spawn(place, self.node_ids))
            for child in children:
                child.answer()
            for child in children:
                if child.answer(self._clock, START_TIMEOUT_MS) is None:
                    raise SandboxError(f"{child.name} did not join the cluster within {START_TIMEOUT_MS // 1000} s")
        except BaseException:
            for place, child in zip(self.layout.places, children, strict=False):
                child.kill()
                remove_file(_run_path(self.home, place.node_id))
            self._forget()
            for place in fresh:
                shutil.rmtree(place.directory, ignore_errors=True)
            if len(fresh) == len(self.layout.places):
                layouts.forget_cluster(self.layout.root)
            raise
        for place, child in zip(self.layout.places, children, strict=True):
            child.leave()
            self._adopt(place.node_id, child)

    def _describe(self) -> None:
        """Write the files that describe a sandbox whose nodes will start, without faults of an earlier one."""
        layouts.mark(self.layout)
        write_json(_cluster_path(self.home), self.layout.to_json())
        write_json(_used_path(self.home), {})
        for node_id in self.node_ids:
            forget_faults(os.path.dirname(_run_path(self.home, node_id)))

    def _adopt(self, node_id: int, child: Child) -> None:
        before = self._children.pop(node_id, None)
        if before is not None:
            before.wait()  # reap a process that something else killed
        self._children[node_id] = child.process

    def disown(self) -> None:
        """Let the nodes outlive this process: their ends are not waited for."""
        for process in self._children.values():
            process.returncode = 0
        self._children.clear()

    # -- how ---------------------------------------------------------------------------------------------------------
    def _spawn(self, place: NodePlace, wait_for: Sequence[int]) -> Child:
        request: NodeRequest = {
            "run_file": _run_path(self.home, place.node_id),
            "settings": self.layout.settings,
            "layout": self.layout.to_json(),
            "node": place.node_id,
            "wait_for": list(wait_for),
            "idle_ms": self.layout.idle_ms,
            "used_file": _used_path(self.home),
            "others": [_run_path(self.home, other) for other in self.node_ids if other != place.node_id],
            "files": _shared_files(self.home),
            "parent": self.layout.parent,
            "remove": self.home if self.layout.removes_home else None,
        }
        return Child(request, self.log_path(place.node_id), f"node {place.node_id}")

    def _pid(self, node_id: int, unless: str | None = None, problem: str = "is dead") -> int:
        """The pid of a node. Raises SandboxError when it is dead, or with `problem` when its state is `unless`."""
        node = self.node(node_id)
        if node.state == unless:
            raise SandboxError(f"Node {node_id} {problem}")
        if node.pid is None:
            raise SandboxError(f"Node {node_id} does not run; start it with kt sandbox restart {node_id}")
        return node.pid

    def _end(self, node_id: int, pid: int, number: signal.Signals) -> int:
        """Send a signal to a node and wait for its end; returns its pid."""
        _signal(pid, number)
        self._await_end(node_id, pid)
        return pid

    def _await_end(self, node_id: int, pid: int) -> None:
        self._await(
            lambda: self.node(node_id).state == DEAD,
            f"node {node_id} (pid {pid}) did not stop within {STOP_TIMEOUT_MS // 1000} s",
        )
        child = self._children.pop(node_id, None)
        if child is not None:
            child.wait()

    def _await(self, is_so: Callable[[], bool], otherwise: str) -> None:
        deadline = self._clock.now_ms() + STOP_TIMEOUT_MS
        while not is_so():
            if self._clock.now_ms() >= deadline:
                raise SandboxError(otherwise)
            self._clock.sleep_ms(_POLL_MS)


# -- files ---------------------------------------------------------------------------------------------------------
def nodes_folder(home: str) -> str:
    """The folder below a home that has the files of the nodes."""
    return os.path.join(folder(home), "nodes")


def _run_path(home: str, node_id: int) -> str:
    return os.path.join(nodes_folder(home), str(node_id), "run.json")


def _cluster_path(home: str) -> str:
    return os.path.join(folder(home), "cluster.json")


def _used_path(home: str) -> str:
    return os.path.join(folder(home), "used")


def _shared_files(home: str) -> list[str]:
    return [_cluster_path(home), _used_path(home)]


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by a signal (SIGSTOP)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except FileNotFoundError:
        return False


# -- start -----------------------------------------------------------------------------------------------------------
def open_cluster(home: str, clock: Clock) -> SandboxCluster | None:
    """The sandbox of several nodes in a home, whether its nodes are running or not; None when there is none or its
    `cluster.json` is damaged."""
    try:
        with open(_cluster_path(home), encoding="utf-8") as file:
            content = json.load(file)
        return SandboxCluster(home, ClusterLayout.from_json(content), clock)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def start_cluster(home: str, options: ClusterOptions, clock: Clock) -> SandboxCluster:
    """Start a sandbox of several nodes; the caller holds the start lock. Without a fixed port other ports are tried if
    one is in use. Raises SandboxError."""
    for attempt in range(_MOST_PORT_TRIES):
        cluster = SandboxCluster(home, plan_cluster(home, options), clock)
        try:
            cluster.start_all()
            if options.security is not None and options.security.scram:
                _set_passwords(cluster, options.security, clock)
        except SandboxError as error:
            if options.port or attempt + 1 == _MOST_PORT_TRIES or "in use" not in str(error):
                raise
        else:
            return cluster
    raise AssertionError


def _set_passwords(cluster: SandboxCluster, security: Security, clock: Clock) -> None:
    """Set the SCRAM passwords of users, through the listener between nodes. Raises KafkaError; then all nodes are
    stopped."""
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.scram import MECHANISMS, ScramUpsertion, alter_user_scram_credentials

    first = cluster.layout.places[0]
    try:
        with AdminClient(f"{HOST}:{first.controller_port + 1}", dict(security.internal), clock) as admin:
            for user, password in security.scram.items():
                new = [ScramUpsertion(mechanism, 4096, password) for mechanism in MECHANISMS]
                alter_user_scram_credentials(admin, user, new, [])
    except BaseException:
        cluster.close()
        raise


def plan_cluster(home: str, options: ClusterOptions) -> ClusterLayout:
    """Choose the layout of a new sandbox without writing anything. Raises SandboxError for impossible options."""
    from kafkatools.core.broker.metadata.formatter import random_uuid

    size = options.nodes
    if not 1 <= size <= layouts.MOST_NODES:
        raise SandboxError(f"A sandbox has 1 to {layouts.MOST_NODES} nodes, not {size}")
    if len(options.racks) > size:
        raise SandboxError(f"{len(options.racks)} racks for {size} nodes")
    settings = dict(options.settings or {})
    layouts.refuse_own_settings(settings)
    protocol = layouts.BROKER_LISTENER
    if options.security is not None:
        protocol, settings = options.security.protocol, {**options.security.settings, **settings}
    root = nodes_folder(home) if options.directory is None else os.path.abspath(options.directory)
    directories = {
        node_id: layouts.data_directory(root, node_id, is_own=options.directory is None)
        for node_id in range(1, size + 1)
    }
    cluster_id = layouts.cluster_of(root, directories) or random_uuid()
    ports = layouts.choose_ports(options.port, size)
    racks = options.racks or (None,)
    places = [
        NodePlace(node_id, *ports[node_id - 1], directory, racks[(node_id - 1) % len(racks)])
        for node_id, directory in directories.items()
    ]
    return ClusterLayout(
        cluster_id, root, tuple(places), settings, options.idle_ms, options.parent, options.remove_home, protocol
    )
