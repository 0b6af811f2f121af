"""The embedded broker inside a test's process, on a thread of its own."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import threading
from collections.abc import Iterator

from kafkatools.core.broker.node import single_node_config, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.clock import SystemClock

from .waiting import PATIENCE_S

WITHOUT_RETENTION = {"log.initial.task.delay.ms": "86400000"}
"""For a broker that outlives a test: records of the tests carry old timestamps."""

QUICK_HEARTBEATS = {
    f"group.{kind}.{bound}heartbeat.interval.ms": "100" for kind in ("consumer", "share") for bound in ("min.", "")
}
"""Settings of a broker: members of groups get their partitions with the next heartbeat, by default after 5 s."""


@contextlib.contextmanager
def embedded_broker(directory: pathlib.Path, at_port: int = 0, **settings: str) -> Iterator[str]:
    """Runs a node on a free loopback port, or on one that was free before; gives its address. Settings: dots as
    underscores."""
    with socket.create_server(("127.0.0.1", at_port)) as probe:
        port: int = probe.getsockname()[1]
    overrides = {**WITHOUT_RETENTION, **{as_dotted(name): value for name, value in settings.items()}}
    setup = NodeSetup(single_node_config(str(directory), "127.0.0.1", port, overrides), SystemClock())
    node = start_node(setup, format_if_needed=True)
    thread = threading.Thread(target=node.run, name="embedded-broker")
    thread.start()
    try:
        yield node.bootstrap
    finally:
        node.request_stop()
        thread.join(PATIENCE_S)
        node.close()


def as_dotted(name: str) -> str:
    """Kafka's name of a setting that was written with underscores; one with dots, and the name of a listener, stay."""
    return name if "." in name else name.replace("_", ".")
