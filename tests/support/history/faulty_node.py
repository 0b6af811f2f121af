"""`kt` with the clock, the disk and the faults of a sandbox's node. argv: the directory of the faults file, arguments
of kt. `HistoryNodes.set_faults` changes the faults, as `kt sandbox fault` does."""

from __future__ import annotations

import functools
import pathlib
import signal
import sys

from kafkatools.__main__ import main
from kafkatools.core import clock as clocks
from kafkatools.core.broker import node as nodes
from kafkatools.core.broker import node_setup
from kafkatools.core.broker.server.connection_limits import descriptor_limit, max_log_files
from kafkatools.sandbox.faults.disk_and_clock import FaultyClock
from kafkatools.sandbox.faults.machine import Machine


def install(machine: Machine) -> None:
    """Give the node of this process the machine's clock and files, and let it read its faults after SIGUSR1."""
    start_node = nodes.start_node

    @functools.wraps(start_node)
    def start(*arguments: object, **options: object) -> nodes.Node:
        node = start_node(*arguments, **options)  # type: ignore[arg-type]
        run_once = node.run_once

        def turn(*waits: int) -> int:
            events = run_once(*waits)
            if machine.is_requested:
                machine.load()
            return events

        node.run_once = turn  # type: ignore[method-assign]
        machine.attach(node)
        return node

    clocks.SystemClock = lambda: machine.clock  # type: ignore[misc, assignment]
    node_setup.RealFileSystem = lambda limit: machine.files  # type: ignore[misc, assignment]
    nodes.start_node = start
    signal.signal(signal.SIGUSR1, lambda *_: machine.request_load())


if __name__ == "__main__":
    directory = pathlib.Path(sys.argv.pop(1))
    install(Machine(str(directory), FaultyClock(), max_log_files(descriptor_limit())))
    main()
