"""The clock, the disk and the faults of a process of the sandbox. It reads its faults when it starts and after each
SIGUSR1."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkatools.core import atomic_file
from kafkatools.sandbox.faults.disk_and_clock import FaultyClock, FaultyFiles
from kafkatools.sandbox.run_files import FAULTS_FILE, FAULTS_STATE_FILE

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node
    from kafkatools.sandbox.faults.active import ActiveFault
    from kafkatools.sandbox.faults.spec import Row


class Machine:
    """The faults of one node. `directory` has its faults file and state file."""

    def __init__(self, directory: str, clock: FaultyClock, max_open_files: int) -> None:
        self.clock = clock
        self.files = FaultyFiles(max_open_files)
        self.is_requested = False
        self._directory = directory
        self._node: Node | None = None
        self._faults: dict[int, ActiveFault] = {}
        self.load()

    def request_load(self) -> None:
        """Note that the faults file has changed; safe in a signal handler."""
        self.is_requested = True
        if self._node is not None:
            self._node.listener.wakeup()

    def attach(self, node: Node) -> None:
        """Apply the faults of requests to a node, which was created with this machine's clock and files."""
        self._node = node
        self.load()

    def load(self) -> None:
        """Read the faults file, apply its faults and write the state file. A fault that is already active keeps its
        random generator and its hits. A missing or damaged file has no faults."""
        self.is_requested = False
        content = _read(os.path.join(self._directory, FAULTS_FILE))
        if content is None and not self._faults:
            return
        from kafkatools.sandbox.faults.active import activated
        from kafkatools.sandbox.faults.effects import apply

        self._faults = activated((content or {}).get("faults", ()), self._faults)
        apply(list(self._faults.values()), self.clock, self.files, self._node)
        if self._node is not None:
            ends = [fault.remaining_ms() for fault in self._faults.values()]
            first = min((end for end in ends if end is not None), default=None)
            if first is not None:
                self._node.listener.schedule(first + 1, lambda now_ms: self.load())
        self._write_state((content or {}).get("stamp"))

    def _write_state(self, stamp: object) -> None:
        hits = {str(number): fault.hits for number, fault in self._faults.items()}
        row = {"stamp": stamp if self._node is not None else None, "hits": hits}
        atomic_file.replace(os.path.join(self._directory, FAULTS_STATE_FILE), json.dumps(row).encode(), 0o600)


def _read(path: str) -> Row | None:
    try:
        with open(path, "rb") as file:
            content = json.load(file)
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and isinstance(content.get("faults"), Sequence) else None
