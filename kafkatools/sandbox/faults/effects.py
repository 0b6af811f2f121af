"""Let faults take effect on the clock, the disk and the requests of a node."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkatools.sandbox.faults.active import ActiveFault
from kafkatools.sandbox.faults.disk_and_clock import FaultyClock, FaultyFiles, no_space
from kafkatools.sandbox.faults.spec import CLOCK_SKEW, FULL_DISK, REQUEST_KINDS, SLOW_DISK

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def apply(faults: Sequence[ActiveFault], clock: FaultyClock, files: FaultyFiles, node: Node | None) -> None:
    """Let these faults take effect, and no others."""
    skews = [fault for fault in faults if fault.spec.kind == CLOCK_SKEW]
    clock.skew_ms = sum(fault.spec.skew_ms for fault in skews)
    slow = [fault for fault in faults if fault.spec.kind == SLOW_DISK]
    full = [fault for fault in faults if fault.spec.kind == FULL_DISK]

    def wait(path: str) -> None:
        for fault in slow:
            if fault.spec.has_topic(_topic_of(path)) and fault.chooses():
                fault.hits += 1
                clock.sleep_ms(fault.spec.delay_ms)

    def before_write(path: str) -> None:
        for fault in full:
            if fault.spec.has_topic(_topic_of(path)) and fault.chooses():
                fault.hits += 1
                raise no_space(path)
        wait(path)

    files.set_faults(before_write if slow or full else None, wait if slow else None)
    if node is not None:
        of_requests = [fault for fault in faults if fault.spec.kind in REQUEST_KINDS]
        if not of_requests:
            node.listener.intercept(None)
            return
        from kafkatools.sandbox.faults.requests import RequestFaults

        node.listener.intercept(RequestFaults(of_requests, node))


def _topic_of(path: str) -> str | None:
    """The topic of a file in the directory of a partition, None for another file."""
    topic, dash, number = os.path.basename(os.path.dirname(path)).rpartition("-")
    return topic if dash and number.isdigit() else None
