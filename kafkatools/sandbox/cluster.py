"""A sandbox of several nodes: processes that are killed, paused, restarted and wiped one by one.

Rules: everything it keeps is below `<home>/sandbox/nodes`, `<id>` for each node: its run file (`run.json`, locked by
the node while it lives), its messages (`node.log`) and, unless a directory was named, its data. `<home>/sandbox/
cluster.json` says what the nodes are for as long as the sandbox is meant to run: it is written before the first
process and removed by the stop, so nodes that are down can be started again. Starting and wiping hold `start.lock`.
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
from kafkatools.sandbox.run_files import read_run_file
from kafkatools.sandbox.spawn import DEFAULT_IDLE_MS, Child, SandboxError, folder, start_lock, write_json

if TYPE_CHECKING:
    import subprocess

    from kafkatools.core.clock import Clock
    from kafkatools.sandbox.messages import NodeRequest

RUNNING, PAUSED, DEAD = "running", "paused", "dead"
START_TIMEOUT_MS = 60_000
STOP_TIMEOUT_MS = 30_000
RESTART_TIMEOUT_MS = 30_000
_POLL_MS = 20
_MOST_PORT_TRIES = 3


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How to start one. Port 0 takes free ones; None the usual ones, or free ones when one of them is taken. `racks`:
    one for each node, or as many as there are, again and again. `parent`: the process without which it is not to
    live; `remove_home`: whether it then takes its home with it."""

    nodes: int = 3
    port: int | None = None
    directory: str | None = None
    settings: Mapping[str, str] | None = None
    racks: Sequence[str] = ()
    idle_ms: int = DEFAULT_IDLE_MS
    parent: int | None = None
    remove_home: bool = False


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as it is now; `pid` is None when it is dead."""

    node_id: int
    pid: int | None
    state: str
    place: NodePlace


class SandboxCluster:
    """The nodes of a sandbox. Processes that this object started are waited for when they end; others are watched by
    their run files."""

    def __init__(self, home: str, layout: ClusterLayout, clock: Clock) -> None:
        self.home = home
        self.layout = layout
        self._clock = clock
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    # -- what there is -----------------------------------------------------------------------------------------------
    @property
    def node_ids(self) -> list[int]:
        """1 to the number of nodes."""
        return [place.node_id for place in self.layout.places]

    @property
    def nodes(self) -> list[NodeState]:
        """All nodes as they are now."""
        return [self.node(node_id) for node_id in self.node_ids]

    def node(self, node_id: int) -> NodeState:
        """A node as it is now. Raises SandboxError for an unknown one."""
        place = self.layout.place(node_id)
        found = read_run_file(_run_path(self.home, node_id))
        if found is None:
            return NodeState(node_id, None, DEAD, place)
        return NodeState(node_id, found["pid"], PAUSED if _is_stopped(found["pid"]) else RUNNING, place)

    @property
    def is_running(self) -> bool:
        """Whether any of its nodes lives."""
        return any(node.state != DEAD for node in self.nodes)

    @property
    def bootstrap(self) -> str:
        """What clients start from: the nodes that run, all of them when none does."""
        nodes = self.nodes
        running = [node.place.address for node in nodes if node.state == RUNNING]
        return ",".join(running or [node.place.address for node in nodes])

    @property
    def addresses(self) -> list[str]:
        """Where the nodes listen, whether they run or not."""
        return [place.address for place in self.layout.places]

    def log_path(self, node_id: int) -> str:
        """Where a node writes its messages."""
        return _log_path(self.home, node_id)

    # -- what can happen to a node -----------------------------------------------------------------------------------
    def kill(self, node_id: int) -> int:
        """Ends a node as kill -9 does; gives its pid. Raises SandboxError when it is dead."""
        pid = self._living(node_id)
        self._end(node_id, pid, signal.SIGKILL)
        return pid

    def pause(self, node_id: int) -> int:
        """Stops a node in the middle of what it does (SIGSTOP): it keeps its connections and answers nothing."""
        pid = self._living_unless(node_id, PAUSED, "is paused already")
        os.kill(pid, signal.SIGSTOP)
        self._await(lambda: self.node(node_id).state != RUNNING, f"node {node_id} was not paused")
        return pid

    def resume(self, node_id: int) -> int:
        """Lets a paused node go on (SIGCONT)."""
        pid = self._living_unless(node_id, RUNNING, "is not paused")
        os.kill(pid, signal.SIGCONT)
        return pid

    def stop_node(self, node_id: int) -> int:
        """Stops a node cleanly: first it hands over what it leads. Raises SandboxError when it is dead or paused."""
        pid = self._living_unless(node_id, PAUSED, "is paused: resume it first, or kill it")
        self._end(node_id, pid, signal.SIGTERM)
        return pid

    def start_node(self, node_id: int) -> bool:
        """Starts a node that is dead, formatting its directory when that was wiped; gives whether the cluster has taken
        it in by now, which takes a majority of the nodes. Raises SandboxError when it lives or does not start."""
        if self.node(node_id).state != DEAD:
            raise SandboxError(f"Node {node_id} runs already")
        with start_lock(self.home):
            child = self._spawn(self.layout.place(node_id), [node_id])
        self._adopt(node_id, child)
        try:
            child.answer()
            others = sum(node.state == RUNNING for node in self.nodes)
            has_majority = 2 * others > len(self.node_ids)
            return child.answer(self._clock, RESTART_TIMEOUT_MS if has_majority else 0) is not None
        except BaseException:
            child.kill()
            del self._children[node_id]
            raise
        finally:
            child.leave()

    def restart(self, node_id: int) -> bool:
        """Stops a node cleanly if it runs, and starts it; as `start_node`."""
        if self.node(node_id).state != DEAD:
            self.stop_node(node_id)
        return self.start_node(node_id)

    def wipe(self, node_id: int) -> str:
        """Removes the data of a node that is dead, as if its disk had been replaced; gives the directory. The node gets
        an empty one when it is started. Raises SandboxError when it is not dead."""
        if self.node(node_id).state != DEAD:
            raise SandboxError(f"Node {node_id} runs: stop it or kill it first")
        place = self.layout.place(node_id)
        with start_lock(self.home):
            if layouts.is_formatted(place):
                shutil.rmtree(place.directory)
        return place.directory

    # -- the whole ---------------------------------------------------------------------------------------------------
    def stop(self) -> list[int]:
        """Stops all nodes, also paused ones; gives their pids. Raises SandboxError when one does not stop."""
        living = [(node.node_id, node.pid) for node in self.nodes if node.pid is not None]
        for _, pid in living:
            _signal(pid, signal.SIGINT)
            _signal(pid, signal.SIGCONT)
        for node_id, pid in living:
            self._await_end(node_id, pid)
        self._forget()
        return [pid for _, pid in living]

    def close(self) -> None:
        """The same; what does not stop is killed. Raises SandboxError then."""
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
            _remove(path)

    def start_all(self) -> None:
        """Starts every node and waits until all brokers are there. When one does not start nothing is left running."""
        children: list[Child] = []
        fresh = [place for place in self.layout.places if not layouts.is_formatted(place)]
        layouts.mark(self.layout)
        write_json(_cluster_path(self.home), self.layout.to_json())
        write_json(_used_path(self.home), {})
        try:
            for place in self.layout.places:
                children.append(self._spawn(place, self.node_ids))
            for child in children:
                child.answer()
            for child in children:
                self._await_ready(child)
        except BaseException:
            for place, child in zip(self.layout.places, children, strict=False):
                child.kill()
                _remove(_run_path(self.home, place.node_id))
            self._forget()
            self._unformat(fresh)
            raise
        for place, child in zip(self.layout.places, children, strict=True):
            child.leave()
            self._adopt(place.node_id, child)

    def _unformat(self, places: Sequence[NodePlace]) -> None:
        """Directories that were formatted for nothing are as they were before."""
        for place in places:
            shutil.rmtree(place.directory, ignore_errors=True)
        if len(places) == len(self.layout.places):
            layouts.forget_cluster(self.layout.root)

    def _adopt(self, node_id: int, child: Child) -> None:
        before = self._children.pop(node_id, None)
        if before is not None:
            before.wait()  # it was killed by somebody else
        self._children[node_id] = child.process

    def _await_ready(self, child: Child) -> None:
        if child.answer(self._clock, START_TIMEOUT_MS) is None:
            raise SandboxError(f"{child.name} did not join the others within {START_TIMEOUT_MS // 1000} s")

    def disown(self) -> None:
        """The processes live on without the one that started them."""
        for process in self._children.values():
            process.returncode = 0
        self._children.clear()

    # -- how ---------------------------------------------------------------------------------------------------------
    def _spawn(self, place: NodePlace, wait_for: Sequence[int]) -> Child:
        request: NodeRequest = {
            "run_file": _run_path(self.home, place.node_id),
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
        return Child(request, _log_path(self.home, place.node_id), f"node {place.node_id}")

    def _living_unless(self, node_id: int, state: str, problem: str) -> int:
        """The pid of a node that lives. Raises SandboxError when it is dead or in that state."""
        if self.node(node_id).state == state:
            raise SandboxError(f"Node {node_id} {problem}")
        return self._living(node_id)

    def _living(self, node_id: int) -> int:
        pid = self.node(node_id).pid
        if pid is None:
            raise SandboxError(f"Node {node_id} is dead")
        return pid

    def _end(self, node_id: int, pid: int, number: signal.Signals) -> None:
        _signal(pid, number)
        self._await_end(node_id, pid)

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
    """Where the nodes keep their files."""
    return os.path.join(folder(home), "nodes")


def _run_path(home: str, node_id: int) -> str:
    return os.path.join(nodes_folder(home), str(node_id), "run.json")


def _log_path(home: str, node_id: int) -> str:
    return os.path.join(nodes_folder(home), str(node_id), "node.log")


def _cluster_path(home: str) -> str:
    return os.path.join(folder(home), "cluster.json")


def _used_path(home: str) -> str:
    return os.path.join(folder(home), "used")


def _shared_files(home: str) -> list[str]:
    return [_cluster_path(home), _used_path(home)]


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_stopped(pid: int) -> bool:
    """Whether a process is paused."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except FileNotFoundError:
        return False


# -- start -----------------------------------------------------------------------------------------------------------
def open_cluster(home: str, clock: Clock) -> SandboxCluster | None:
    """The sandbox of several nodes that a home has, whether its nodes live or not; None when it has none."""
    try:
        with open(_cluster_path(home), encoding="utf-8") as file:
            found = json.load(file)
        return SandboxCluster(home, ClusterLayout.from_json(found), clock)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def start_cluster(home: str, options: ClusterOptions, clock: Clock) -> SandboxCluster:
    """Starts one where none runs; the caller holds the start lock. Raises SandboxError."""
    for attempt in range(_MOST_PORT_TRIES):
        cluster = SandboxCluster(home, plan_cluster(home, options), clock)
        try:
            cluster.start_all()
        except SandboxError as error:
            if options.port or attempt + 1 == _MOST_PORT_TRIES or "in use" not in str(error):
                raise
        else:
            return cluster
    raise AssertionError


def plan_cluster(home: str, options: ClusterOptions) -> ClusterLayout:
    """Where everything is to be. Raises SandboxError for what cannot be; nothing is written."""
    size = options.nodes
    if not 1 <= size <= layouts.MOST_NODES:
        raise SandboxError(f"A sandbox has 1 to {layouts.MOST_NODES} nodes, not {size}")
    if len(options.racks) > size:
        raise SandboxError(f"{len(options.racks)} racks for {size} nodes")
    settings = dict(options.settings or {})
    layouts.refuse_own_settings(settings)
    root = nodes_folder(home) if options.directory is None else os.path.abspath(options.directory)
    directories = {
        node_id: layouts.data_directory(root, node_id, is_own=options.directory is None)
        for node_id in range(1, size + 1)
    }
    cluster_id = layouts.cluster_of(root, directories) or layouts.new_cluster_id()
    ports = layouts.choose_ports(options.port, size)
    places = [
        NodePlace(node_id, *ports[node_id - 1], directory, _rack(options.racks, node_id))
        for node_id, directory in directories.items()
    ]
    return ClusterLayout(
        cluster_id, root, tuple(places), settings, options.idle_ms, options.parent, options.remove_home
    )


def _rack(racks: Sequence[str], node_id: int) -> str | None:
    return racks[(node_id - 1) % len(racks)] if racks else None
