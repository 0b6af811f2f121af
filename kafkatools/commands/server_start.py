"""kt server-start: run a broker with its controller in the foreground (kafka-server-start.sh).

With several nodes in controller.quorum.voters the node joins their cluster. Settings without an effect are named in a
warning. A listener without TLS and SASL that other machines can reach needs --insecure.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import DURABILITY, Args, Command, Option, read_properties, with_plain_numbers

if TYPE_CHECKING:
    from types import FrameType

    from kafkatools.console import Console
    from kafkatools.core.broker.node import Node
    from kafkatools.core.broker.node_setup import NodeSetup


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt server-start until SIGTERM or Ctrl-C, then shut down cleanly. Raises UsageError or CommandError."""
    if args.operand is None:
        raise UsageError("USAGE: kt server-start [--override property=value]* server.properties")
    values = args.indirect.resolved(read_properties(args.operand), args.operand)
    for text in args.override:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--override takes PROPERTY=VALUE, not {text}")
        values |= with_plain_numbers({key: value})
    if args.durability is not None:
        values["log.durability"] = args.durability
    _serve(console, _setup(console, args, values))
    return ExitStatus.OK


def _setup(console: Console, args: Args, values: dict[str, str]) -> NodeSetup:
    from kafkatools.core import config as tables
    from kafkatools.core.broker.node_setup import NodeSetup
    from kafkatools.core.broker.security.listener_security import ignored_prefixed
    from kafkatools.core.broker.server.connection_limits import raise_descriptor_limit
    from kafkatools.core.broker.server.node_settings import meaningless
    from kafkatools.core.config import Config
    from kafkatools.core.net.addresses import is_loopback

    os.umask(0o077)
    raise_descriptor_limit()
    config = Config(tables.BROKER, values, allow_unknown=True)
    setup = NodeSetup(config, console.clock, report=lambda line: _report(console, line))
    for name in sorted(meaningless(config) + ignored_prefixed(config, setup.cluster.listeners)):
        console.note(f"WARN {name} has no effect in kt and is ignored")
    for point in setup.cluster.listeners:
        if point.protocol == "PLAINTEXT" and not is_loopback(point.host) and not args.insecure:
            raise CommandError(
                f"Refusing to listen on {point.host or 'all addresses'} without authentication or encryption: "
                "use 127.0.0.1, TLS or SASL (listener.security.protocol.map), or --insecure"
            )
    return setup


def _report(console: Console, line: str) -> None:
    if line.startswith(("INFO ", "WARN ")):
        console.note(line)
    else:
        console.error(f"ERROR {line}")


class _StopSignals:
    """Handlers of SIGTERM, SIGHUP and Ctrl-C that stop the node. A signal before its start stops it after the start."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._is_requested = False
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._request_stop)

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self._is_requested = True
        for node in self._nodes:
            node.request_stop()

    def stop(self, node: Node) -> None:
        """Stop a started node at once if a signal has arrived; from now on signals stop it directly."""
        self._nodes.append(node)
        if self._is_requested:
            node.request_stop()


def _serve(console: Console, setup: NodeSetup) -> None:
    from kafkatools.core.broker.node import start_node
    from kafkatools.core.errors import ConfigError, KafkaStorageError
    from kafkatools.sandbox.run_files import RunFile

    signals = _StopSignals()
    try:
        node = start_node(setup)
    except ConfigError as error:  # the settings are valid but do not match the data directory
        raise CommandError(str(error), hint=error.hint) from None
    run_file = RunFile(os.path.join(console.home, "servers", f"{os.getpid()}.json"))
    try:
        run_file.write(
            {
                "pid": os.getpid(),
                "node_id": node.node_id,
                "bootstrap": node.bootstrap,
                "directory": node.log_directory,
                "process_roles": ",".join(setup.config.process_roles),
            }
        )
        signals.stop(node)
        if not node.is_ready:
            console.note(
                f"INFO node {node.node_id} of cluster {node.cluster_id} has started and is joining the cluster"
            )
        while not (node.is_ready or node.is_stopping):
            node.run_once()
        if node.is_ready:
            console.note(f"INFO node {node.node_id} of cluster {node.cluster_id} is ready on {node.bootstrap}")
            gc.freeze()  # exclude the objects of the start from garbage collection
        node.run()
        node.close()
    except (ConfigError, KafkaStorageError) as error:  # the cluster refused this node, or a disk failed
        raise CommandError(str(error)) from None
    finally:
        with contextlib.suppress(KafkaStorageError):  # the first error is reported
            node.close()
        run_file.remove()
    console.note(f"INFO node {node.node_id} has stopped")


COMMAND = Command(
    "server-start",
    "Run a broker in the foreground.",
    (
        Option("--override", "A setting that overrides the one in the file.", value="PROPERTY=VALUE", repeatable=True),
        DURABILITY._replace(ours=True),
        Option(
            "--insecure",
            "Allow addresses that other machines can reach, although there is no authentication or encryption.",
            ours=True,
        ),
    ),
    run,
    operand="FILE",
    examples=("kt server-start server.properties --override log.dirs=/var/lib/kt",),
)
