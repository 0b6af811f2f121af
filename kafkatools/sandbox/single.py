"""The sandbox: a broker, or several, in the background of this machine, started on first use and stopped when idle.

Rules: it listens on loopback. All its files are below `<home>/sandbox`, with directories 0700 and files 0600. A home
has one sandbox. Two starts at once wait for each other at `start.lock`, and the second finds the first one's broker. A
sandbox of one has `run.json` (locked while it is running), `sandbox.log` and `data`; `cluster.py` is the sandbox of
several.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkatools.sandbox.run_files import forget_faults, read_run_file
from kafkatools.sandbox.spawn import DEFAULT_IDLE_MS, Child, folder, start_lock
from kafkatools.sandbox.spawn import SandboxError as SandboxError

if TYPE_CHECKING:
    import subprocess

    from kafkatools.core.clock import Clock
    from kafkatools.sandbox.cluster import ClusterOptions, SandboxCluster
    from kafkatools.sandbox.faults.control import Faults
    from kafkatools.sandbox.messages import NodeRequest, RunInfo
    from kafkatools.sandbox.security import Security

STOP_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """A running sandbox; `pid` is that of its first node that is not dead, `directory` has the data. `started` says
    that this call started it."""

    bootstrap: str
    pid: int
    started: bool
    directory: str
    idle_ms: int
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """The options of starting a sandbox of one node. Port 0 means a free port; None the default port, or a free one if
    that is in use. Without `directory` the data is below the home.

    The sandbox ends after `idle_ms` without clients (0: never) and with the process `parent`, and removes the directory
    `remove` at its end. `security` has the TLS, SASL and ACLs of its listener.
    """

    port: int | None = None
    directory: str | None = None
    settings: Mapping[str, str] | None = None
    idle_ms: int = DEFAULT_IDLE_MS
    parent: int | None = None
    remove: str | None = None
    security: Security | None = None


def _run_path(home: str) -> str:
    return os.path.join(folder(home), "run.json")


def status(home: str) -> SandboxInfo | None:
    """The sandbox of a home, of one node or several; None when there is none or all its nodes are dead."""
    run_info = read_run_file(_run_path(home))
    if run_info is not None:
        return _info(run_info, started=False)
    cluster = find_cluster(home)
    return None if cluster is None else _cluster_info(cluster)


def _info(run_info: RunInfo, *, started: bool) -> SandboxInfo:
    return SandboxInfo(run_info["bootstrap"], run_info["pid"], started, run_info["directory"], run_info["idle_ms"])


def _cluster_info(cluster: SandboxCluster) -> SandboxInfo | None:
    nodes = cluster.nodes
    pid = next((node.pid for node in nodes if node.pid is not None), None)
    if pid is None:
        return None
    return SandboxInfo(cluster.bootstrap, pid, False, cluster.layout.root, cluster.layout.idle_ms, len(nodes))


def single_faults(home: str) -> Faults | None:
    """The faults of the sandbox of one node of a home; None when it is not running."""
    from kafkatools.sandbox.faults.control import Faults, NodeProcess

    def processes() -> dict[int, NodeProcess]:
        run_info = read_run_file(_run_path(home))
        return {1: NodeProcess(folder(home), None if run_info is None else run_info["pid"])}

    return None if read_run_file(_run_path(home)) is None else Faults(processes)


def find_cluster(home: str, clock: Clock | None = None) -> SandboxCluster | None:
    """The sandbox of several nodes in a home, whether its nodes are running or not; None when there is none or its
    `cluster.json` is damaged."""
    if not os.path.exists(os.path.join(folder(home), "cluster.json")):
        return None
    from kafkatools.core.clock import SystemClock
    from kafkatools.sandbox.cluster import open_cluster

    return open_cluster(os.fspath(home), clock or SystemClock())


def ensure_started(
    home: str, announce: Callable[[str], None] | None = None, options: SandboxOptions | None = None
) -> SandboxInfo:
    """Return the running sandbox of a home, of any size; or start one of one node with `options`, and call `announce`
    with a line about it.

    Raises SandboxError if it does not start, or if all nodes of a sandbox of several are dead.
    """
    home = os.fspath(home)
    running = status(home)
    if running is not None:
        return running
    with start_lock(home):
        running = status(home)
        if running is not None:
            return running
        cluster = find_cluster(home)
        if cluster is not None:
            raise SandboxError(
                f"All {len(cluster.node_ids)} nodes of the sandbox are dead: kt sandbox restart 1 brings one back, "
                "kt sandbox stop gives it up"
            )
        forget_faults(folder(home))
        process, started = spawn(home, options or SandboxOptions())
        process.returncode = 0  # the sandbox outlives this process, which must not wait for its end
    if announce is not None:
        announce(f"kt: started a sandbox broker on {started.bootstrap} (stop it with: kt sandbox stop)")
    return started


def ensure_cluster(home: str, options: ClusterOptions, clock: Clock) -> tuple[SandboxCluster, bool]:
    """Return the sandbox of several nodes of a home, started with `options` if no node is running, and whether this
    call started it. Raises SandboxError if it does not start, or a sandbox of another size is running."""
    from kafkatools.sandbox.cluster import start_cluster

    home = os.fspath(home)
    with start_lock(home):
        running = status(home)
        if running is None:
            return start_cluster(home, options, clock), True
        cluster = find_cluster(home, clock)
        if cluster is None or running.nodes != options.nodes:
            nodes = "one node" if running.nodes == 1 else f"{running.nodes} nodes"
            raise SandboxError(
                f"A sandbox of {nodes} is running on {running.bootstrap}; stop it first: kt sandbox stop"
            )
        return cluster, False


def spawn(home: str, options: SandboxOptions) -> tuple[subprocess.Popen[bytes], SandboxInfo]:
    """Start the process of a sandbox of one and wait until it listens; returns the process and the sandbox. Raises
    SandboxError with the reason."""
    request: NodeRequest = {
        "run_file": _run_path(home),
        "port": options.port,
        "directory": os.path.abspath(options.directory or os.path.join(folder(home), "data")),
        "settings": dict(options.settings or {}),
        "idle_ms": options.idle_ms,
        "parent": options.parent,
        "remove": options.remove,
    }
    if options.security is not None:
        request["settings"] = {**options.security.settings, **request["settings"]}
        request["protocol"], request["scram"] = options.security.protocol, options.security.scram
    child = Child(request, os.path.join(folder(home), "sandbox.log"))
    try:
        run_info = child.answer()
    finally:
        child.leave()
    assert run_info is not None
    return child.process, _info(run_info, started=True)


def stop(home: str, sleep_ms: Callable[[int], None]) -> SandboxInfo | None:
    """Stop the sandbox of a home, with all its nodes, and wait for the end. Returns what was running, None when nothing
    was; a sandbox whose nodes are all dead is given up.

    Raises SandboxError when it does not stop within STOP_TIMEOUT_MS.
    """
    if find_cluster(home) is not None:
        with start_lock(home):  # nodes that another process starts would not be seen, and run on
            cluster = find_cluster(home)
            if cluster is not None:
                info = _cluster_info(cluster)
                cluster.stop()
                return info
    running = status(home)
    if running is None:
        return None
    with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
        os.kill(running.pid, signal.SIGTERM)
    for _ in range(STOP_TIMEOUT_MS // 20):
        if status(home) is None:
            return running
        sleep_ms(20)
    raise SandboxError(f"The sandbox (pid {running.pid}) did not stop within {STOP_TIMEOUT_MS // 1000} s")
