"""kt server-stop: stop brokers that kt server-start started (kafka-server-stop.sh)."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import Args, Command, Option

if TYPE_CHECKING:
    from kafkatools.console import Console


def run(console: Console, args: Args) -> ExitStatus:
    """Send SIGTERM to the running brokers, with --node-id or --process-role only to those. Does not wait, like Kafka's
    script. Raises CommandError if none of them runs."""
    from kafkatools.sandbox.run_files import read_run_file

    folder = os.path.join(console.home, "servers")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    run_infos = (read_run_file(os.path.join(folder, name)) for name in names)
    role = args.process_role
    if role is not None and args.node_id is not None:
        console.note("When both node-id and process-role are provided, the value for node-id will take precedence")
        role = None
    servers = [
        server
        for server in run_infos
        if server is not None
        and args.node_id in (None, server["node_id"])
        and role in (None, server.get("process_roles", _ROLES))
    ]
    if not servers:
        raise CommandError("No kafka server to stop")
    for server in servers:
        with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(server["pid"], signal.SIGTERM)
        if args.json:
            console.print_json(server)
    return ExitStatus.OK


_ROLES = "broker,controller"  # those of a server that was started by a kt without process_roles in its run file

COMMAND = Command(
    "server-stop",
    "Stop brokers that were started by kt server-start.",
    (
        Option("--node-id", "Stop only the broker with this node id.", value="ID", type=int),
        Option(
            "--process-role",
            "Stop only brokers with this value of process.roles, such as broker,controller.",
            value="ROLES",
        ),
    ),
    run,
    needs_arguments=False,
)
