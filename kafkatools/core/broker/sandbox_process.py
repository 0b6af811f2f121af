"""The process of the sandbox: `python -m kafkatools.core.broker.sandbox_process '<json>'`, started by sandbox.py only.

It says on stdout, in one line of JSON, where it listens or why it does not, and then nothing more there. It ends on
SIGTERM, when no request came for the idle time, or within a second of its parent, if it is to.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import shutil
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.run_files import RunFile
from kafkatools.core.broker.sandbox import HOST, bind_ports, folder

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node
    from kafkatools.core.clock import Clock

STDOUT, STDERR = 1, 2
IDLE_CHECK_MS = 1000


def main(request: Mapping[str, Any], clock: Clock) -> None:
    """Run the sandbox that the request describes until it is to stop."""
    os.umask(0o077)
    try:
        run_file = RunFile(os.path.join(folder(request["home"]), "run.json"))
    except OSError as error:
        _answer({"error": f"another one is running ({error.strerror})"})
        return
    try:
        node = _start(request, clock)
    except Exception as error:  # noqa: BLE001 - boundary of the process: whatever it is, the starter gets it as one line
        _answer({"error": str(error)})
        run_file.remove()
        return
    info = {
        "bootstrap": node.bootstrap,
        "pid": os.getpid(),
        "directory": node.log_directory,
        "idle_ms": request["idle_ms"],
        "started_ms": clock.wall_ms(),
    }
    run_file.write(info)
    signal.signal(signal.SIGTERM, lambda *_: node.request_stop())
    signal.signal(signal.SIGINT, lambda *_: node.request_stop())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _answer(info)
    serve(node, clock, request["idle_ms"], request.get("parent"))
    node.close()
    run_file.remove()
    if request.get("remove") is not None:
        shutil.rmtree(request["remove"], ignore_errors=True)


def serve(node: Node, clock: Clock, idle_ms: int, parent: int | None = None) -> None:
    """Serve until stopped, idle for so long (0 never is), or left by the parent: whoever loses it gets another one."""
    gc.freeze()  # what is loaded by now stays: the collector need not look at it again
    node.listener.last_request_ms = clock.now_ms()
    while not node.is_stopping:
        node.run_once(IDLE_CHECK_MS)
        if idle_ms and clock.now_ms() - node.listener.last_request_ms > idle_ms:
            node.request_stop()
        if parent is not None and os.getppid() != parent:
            node.request_stop()


_DEFAULTS = {"group.initial.rebalance.delay.ms": "0"}
"""As in the server.properties that Apache Kafka ships for development: the first member of a group does not wait."""


def _start(request: Mapping[str, Any], clock: Clock) -> Node:
    from kafkatools.core.broker.node import Node, single_node_config

    os.makedirs(request["directory"], mode=0o700, exist_ok=True)
    ports = bind_ports(request["port"])
    for port in ports:
        settings = {**_DEFAULTS, **request["settings"]}
        node = Node(single_node_config(request["directory"], HOST, port, settings), clock, report=_log)
        if not node.settings.is_loopback:
            raise ValueError("a sandbox listens on loopback only")
        try:
            node.start(format_if_needed=True)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            if port == ports[-1]:
                raise OSError(f"port {port} is in use") from error
            continue
        return node
    raise OSError("no port to listen on")


def _log(line: str) -> None:
    os.write(STDERR, line.encode() + b"\n")


def _answer(content: Mapping[str, Any]) -> None:
    """One line to whoever started this process; stdout goes nowhere afterwards."""
    try:
        os.write(STDOUT, json.dumps(content).encode() + b"\n")
    except BrokenPipeError:
        return
    finally:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, STDOUT)
        os.close(null)


if __name__ == "__main__":
    import sys

    from kafkatools.core.clock import SystemClock

    main(json.loads(sys.argv[1]), SystemClock())
