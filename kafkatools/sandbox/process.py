"""The process of a sandbox, or of one of its nodes: `python -m kafkatools.sandbox.process`, started by `single.py` and
`cluster.py` only. It reads its request from stdin as one JSON document.

On stdout it reports in a line of JSON that it listens, or why it cannot. A node of several reports in a second line
that the brokers it waits for are registered. It ends on SIGTERM, when it was idle for the idle time, or within a second
after its parent if it has one. SIGINT ends a node of several without handing over its leaderships, because all nodes
are ending.

A cluster is idle when none of its nodes is used: a node that serves a client touches a file that all nodes check.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import hashlib
import json
import os
import signal
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from kafkatools.core.broker.server.connection_limits import (
    descriptor_limit,
    max_log_files,
    raise_descriptor_limit,
)
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import KafkaStorageError
from kafkatools.sandbox.faults.disk_and_clock import FaultyClock
from kafkatools.sandbox.faults.machine import Machine
from kafkatools.sandbox.run_files import RunFile, read_run_file
from kafkatools.sandbox.spawn import DEFAULT_PORT, HOST, remove_file

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node
    from kafkatools.core.clock import Clock
    from kafkatools.sandbox.messages import NodeRequest

STDIN, STDOUT, STDERR = 0, 1, 2
STOPPED, FAILED = 0, 1
IDLE_CHECK_MS = 1000
_LOCK_TRIES, _LOCK_PAUSE_MS = 25, 20


def main(request: NodeRequest, clock: FaultyClock) -> int:
    """Run a node until it is stopped. Returns the exit status: 0, or 1 if it did not start, failed or stopped
    uncleanly. Why it did not start is reported on stdout."""
    gc.disable()  # until `serve`: what a start allocates lives until the end
    os.umask(0o077)
    raise_descriptor_limit()
    run_file = _run_file(request["run_file"], clock)
    if run_file is None:
        _answer({"error": "another process of it is running"})
        return FAILED
    try:
        machine = Machine(os.path.dirname(request["run_file"]), clock, max_log_files(descriptor_limit()))
        signal.signal(signal.SIGUSR1, lambda *_: machine.request_load())
        node = _start_one(request, machine) if request.get("wait_for") is None else _start_node(request, machine)
        machine.attach(node)
    except Exception as error:  # noqa: BLE001 - boundary of the process: whatever it is, the starter gets it as one line
        _answer({"error": str(error)})
        run_file.remove()
        return FAILED
    info = {
        "bootstrap": node.bootstrap,
        "pid": os.getpid(),
        "directory": node.log_directory,
        "idle_ms": request["idle_ms"],
        "started_ms": clock.wall_ms(),
    }
    run_file.write(info)
    watch = Watch(request, SystemClock())  # a wrong clock must not end the sandbox
    signal.signal(signal.SIGTERM, lambda *_: node.request_stop())
    signal.signal(signal.SIGINT, lambda *_: watch.hurry(node))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    wait_for = request.get("wait_for")
    _answer(info, is_last=wait_for is None)
    serve(node, watch, machine, wait_for)
    if watch.is_deserted:
        watch.stop_others()
    elif wait_for is not None:
        node.member.begin_leaving()
        while not (watch.is_hurried or node.member.has_left):
            node.run_once(IDLE_CHECK_MS)
    status = _close(node)
    run_file.remove()
    watch.remove_what_is_left()
    return status


def _close(node: Node) -> int:
    """Stop the node and return the exit status. Reports a disk error, unless a failure ended the node already."""
    failure = node.failure
    try:
        node.close()
    except KafkaStorageError as error:
        if failure is None:
            log_line(node.clock, f"ERROR {error}")
        return FAILED
    return STOPPED if failure is None else FAILED


def _run_file(path: str, clock: Clock) -> RunFile | None:
    """Create and lock the run file; None when another process holds it. Retries, since readers lock it for a moment."""
    for _ in range(_LOCK_TRIES):
        try:
            return RunFile(path)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        clock.sleep_ms(_LOCK_PAUSE_MS)
    return None


class Watch:
    """Checks once a second whether a node is still in use and whether the process `parent` still runs."""

    def __init__(self, request: NodeRequest, clock: Clock) -> None:
        self._clock = clock
        self._idle_ms: int = request["idle_ms"]
        self._parent: int | None = request.get("parent")
        self._used_file: str | None = request.get("used_file")
        self._others: list[str] = request.get("others", [])
        self._files: list[str] = request.get("files", [])
        self._remove: str | None = request.get("remove")
        self._checked_ms = self._start_ms = clock.now_ms()
        self.is_deserted = False
        """Whether the node ends because nobody wants it, and with it the others."""
        self.is_hurried = False
        """Whether it ends without handing over what it leads."""

    def hurry(self, node: Node) -> None:
        """Stop the node without handing over its leaderships."""
        self.is_hurried = True
        node.request_stop()

    def check(self, node: Node) -> None:
        """Stop the node if the whole sandbox is idle or the parent process is gone; checks at most once a second. A
        node in use touches the file by which the other nodes see it."""
        now_ms = self._clock.now_ms()
        if now_ms - self._checked_ms < IDLE_CHECK_MS:
            return
        used_ms = max(node.listener.last_request_ms, self._start_ms)
        if self._used_file is not None and used_ms >= self._checked_ms:
            wall_ns = self._clock.wall_ms() * 1_000_000
            with contextlib.suppress(FileNotFoundError):
                os.utime(self._used_file, ns=(wall_ns, wall_ns))
        self._checked_ms = now_ms
        if self._has_lost_parent() or (self._idle_ms and now_ms - used_ms > self._idle_ms and self._is_all_idle()):
            self.is_deserted = True
            node.request_stop()

    def _is_all_idle(self) -> bool:
        """Return whether the other nodes are idle too: no node has touched the common file within the idle time. True
        without other nodes or without the file."""
        if self._used_file is None:
            return True
        try:
            used_ms = os.stat(self._used_file).st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return True
        return self._clock.wall_ms() - used_ms > self._idle_ms

    def stop_others(self) -> None:
        """Stop the other nodes of the sandbox, paused ones too, and remove the files that describe it."""
        for path in self._files:
            remove_file(path)
        for path in self._others:
            run_info = read_run_file(path)
            if run_info is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(run_info["pid"], signal.SIGINT)
                    os.kill(run_info["pid"], signal.SIGCONT)

    def remove_what_is_left(self) -> None:
        """Remove the directory that the request names, if any: at the end of a sandbox of one, or after the last node
        of several that lost its parent."""
        if self._remove is None or any(read_run_file(path) for path in self._others):
            return
        if self._used_file is None or self._has_lost_parent():
            import shutil

            shutil.rmtree(self._remove, ignore_errors=True)

    def _has_lost_parent(self) -> bool:
        return self._parent is not None and os.getppid() != self._parent


def serve(node: Node, watch: Watch, machine: Machine, wait_for: list[int] | None = None) -> None:
    """Serve until the node is stopped. Reports on stdout when all brokers of `wait_for` are registered, or a failure
    before that; a later failure is written to node.log."""
    gc.freeze()  # the garbage collector need not traverse the loaded modules again
    gc.enable()
    while not node.is_stopping:
        if wait_for is not None and _are_there(node, wait_for):
            _answer({"ready": True})
            wait_for = None
        node.run_once(IDLE_CHECK_MS)
        if machine.is_requested:
            machine.load()
        watch.check(node)
    if node.failure is not None:
        if wait_for is None:
            log_line(node.clock, f"ERROR {node.failure}")
        else:
            _answer({"error": str(node.failure)})


def _are_there(node: Node, broker_ids: list[int]) -> bool:
    """Return whether this broker serves clients and all these brokers are registered and unfenced."""
    brokers = [node.image.brokers.get(broker_id) for broker_id in broker_ids]
    return node.is_ready and all(broker is not None and not broker.is_fenced for broker in brokers)


_DEFAULTS = {"group.initial.rebalance.delay.ms": "0"}
"""As in the server.properties that Apache Kafka ships for development: the first member of a group does not wait."""


def _start_node(request: NodeRequest, machine: Machine) -> Node:
    from kafkatools.core import config as tables
    from kafkatools.core.broker.node import start_node
    from kafkatools.core.broker.node_setup import NodeSetup
    from kafkatools.core.config import Config
    from kafkatools.sandbox import layout as layouts

    layout = layouts.ClusterLayout.from_json(request["layout"])
    place = layout.place(request["node"])
    config = Config(tables.BROKER, layouts.node_settings(layout, place))
    if not layouts.is_formatted(place):
        layouts.format_node(layout, place, machine.clock.wall_ms())
    try:
        return start_node(NodeSetup(config, machine.clock, machine.files, partial(log_line, machine.clock)))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise OSError(f"port {place.port} or {place.controller_port} is in use") from error
        raise


def _start_one(request: NodeRequest, machine: Machine) -> Node:
    from kafkatools.core.broker.node import single_node_config, start_node
    from kafkatools.core.broker.node_setup import NodeSetup

    os.makedirs(request["directory"], mode=0o700, exist_ok=True)
    ports = (DEFAULT_PORT, 0) if request["port"] is None else (request["port"],)
    for port in ports:
        settings = {**_DEFAULTS, **request["settings"]}
        protocol = request.get("protocol")
        if protocol is not None:
            settings["listeners"] = f"{protocol}://{HOST}:{port}"
        config = single_node_config(request["directory"], HOST, port, settings)
        setup = NodeSetup(config, machine.clock, machine.files, partial(log_line, machine.clock))
        if not setup.settings.is_loopback:
            raise ValueError("a sandbox listens on loopback only")
        try:
            return _with_users(start_node(setup, format_if_needed=True), request.get("scram") or {})
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            if port == ports[-1]:
                raise OSError(f"port {port} is in use") from error
    raise OSError("no port to listen on")


def _with_users(node: Node, passwords: Mapping[str, str]) -> Node:
    """Set the SCRAM passwords of users on a node alone; returns the node. Raises KafkaError."""
    if passwords:
        from kafkatools.core.broker.metadata.controller.scram import MECHANISMS, MIN_ITERATIONS, Upsertion

        upsertions = []
        for user, password in passwords.items():
            for mechanism, digest in MECHANISMS.items():
                salt = os.urandom(20)
                salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, MIN_ITERATIONS)
                upsertions.append(Upsertion(user, mechanism, MIN_ITERATIONS, salt, salted))
        for half in (upsertions[::2], upsertions[1::2]):  # a request names a user once
            for error in node.controller.alter_scram_credentials([], half).values():
                if error is not None:
                    raise error
    return node


def log_line(clock: Clock, line: str) -> None:
    """Write a line with its time to node.log, so that the logs of nodes can be compared. A full disk is ignored."""
    from datetime import datetime

    seconds, milliseconds = divmod(clock.wall_ms(), 1000)
    with contextlib.suppress(OSError):
        os.write(STDERR, f"[{datetime.fromtimestamp(seconds)},{milliseconds:03d}] {line}\n".encode())


def _answer(content: Mapping[str, object], *, is_last: bool = True) -> None:
    """Write a line of JSON to the process that started this one; after the last one stdout becomes /dev/null."""
    try:
        os.write(STDOUT, json.dumps(content).encode() + b"\n")
    except BrokenPipeError:
        is_last = True
    if is_last:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, STDOUT)
        os.close(null)


def _request() -> NodeRequest:
    """Read the request from stdin, then replace stdin by /dev/null."""
    with open(STDIN, "rb", closefd=False) as stdin:
        request: NodeRequest = json.load(stdin)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, STDIN)
    os.close(null)
    return request


if __name__ == "__main__":
    raise SystemExit(main(_request(), FaultyClock()))
