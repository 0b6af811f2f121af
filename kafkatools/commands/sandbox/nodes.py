"""Subcommands of kt sandbox that act on one node of a cluster, and the status of all nodes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args
from kafkatools.options.confirmation import agrees_to_remove

if TYPE_CHECKING:
    from kafkatools.commands.sandbox.roles import Roles
    from kafkatools.console import Console
    from kafkatools.sandbox.cluster import NodeState, SandboxCluster

_HEADERS = ("NODE", "PID", "ADDRESS", "CONTROLLER", "LEADS", "STATE")


def _cluster(console: Console) -> SandboxCluster:
    from kafkatools.sandbox.single import find_cluster, status

    cluster = find_cluster(console.home, console.clock)
    if cluster is None:
        if status(console.home) is not None:
            raise CommandError(
                "The sandbox has only one node. To start three: kt sandbox stop && kt sandbox start --nodes 3"
            )
        raise CommandError("No sandbox with several nodes is running. To start one: kt sandbox start --nodes 3")
    return cluster


def _node_id(args: Args) -> int:
    if args.operand is None:
        raise UsageError(f"kt sandbox {args.command.name}: error: too few arguments: the node number is missing")
    if re.fullmatch("[0-9]{1,9}", args.operand) is None:
        raise UsageError(
            f"kt sandbox {args.command.name}: error: '{args.operand}' is not a node number; nodes are numbered from 1"
        )
    return int(args.operand)


def signalling(verb: str, signal: Callable[[SandboxCluster, int], int]) -> Callable[[Console, Args], ExitStatus]:
    """Return the `run` of a subcommand that calls `signal` for a node and prints `verb`, node and process id. It raises
    UsageError for an invalid node number, CommandError without a cluster."""

    def run(console: Console, args: Args) -> ExitStatus:
        node_id = _node_id(args)
        cluster = _cluster(console)
        return _show_node(console, cluster, node_id, f"{verb} node {node_id} (pid {signal(cluster, node_id)})")

    return run


run_kill = signalling("Killed", lambda cluster, node_id: cluster.kill(node_id))
run_pause = signalling("Paused", lambda cluster, node_id: cluster.pause(node_id))
run_resume = signalling("Resumed", lambda cluster, node_id: cluster.resume(node_id))
run_stop_node = signalling("Stopped", lambda cluster, node_id: cluster.stop_node(node_id))


def run_restart(console: Console, args: Args) -> ExitStatus:
    """Run kt sandbox restart: stop a node cleanly and start it, or start a dead one.

    Without a majority of running nodes the node cannot join: a note on stderr says so. Raises CommandError when the
    node does not join although a majority runs.
    """
    from kafkatools.sandbox.cluster import RUNNING

    node_id = _node_id(args)
    cluster = _cluster(console)
    has_joined = cluster.restart(node_id)
    cluster.disown()
    node = cluster.node(node_id)
    status = _show_node(console, cluster, node_id, f"Started node {node_id} (pid {node.pid})")
    if has_joined:
        return status
    running = sum(node_state.state == RUNNING for node_state in cluster.nodes)
    if 2 * running > len(cluster.node_ids):
        raise CommandError(f"Node {node_id} runs but has not joined the cluster: see {cluster.log_path(node_id)}")
    console.note(f"Node {node_id} cannot join yet: {running} of {len(cluster.node_ids)} nodes running is no majority")
    return status


def run_wipe(console: Console, args: Args) -> ExitStatus:
    """Run kt sandbox wipe: remove the data directory of a dead node, after a prompt unless --yes.

    Raises CommandError when the node runs (unless --stop) or the prompt is declined.
    """
    from kafkatools.sandbox.cluster import DEAD

    node_id = _node_id(args)
    cluster = _cluster(console)
    if cluster.node(node_id).state != DEAD and not args.stop:
        raise CommandError(f"Node {node_id} is running: stop it first with kt sandbox stop {node_id}, or use --stop")
    directory = cluster.layout.place(node_id).directory
    if not args.yes and not agrees_to_remove(
        console, args, f"Remove all data of node {node_id} in {directory}? (y/n)", "--yes"
    ):
        raise CommandError("Nothing was removed")
    if cluster.node(node_id).state != DEAD:
        cluster.stop_node(node_id)
    cluster.wipe(node_id)
    return _show_node(console, cluster, node_id, f"Wiped node {node_id} ({directory})")


def _show_node(console: Console, cluster: SandboxCluster, node_id: int, line: str) -> ExitStatus:
    console.print(line, _row(cluster.node(node_id), None))
    return ExitStatus.OK


def cluster_row(cluster: SandboxCluster, state: str) -> dict[str, object]:
    """Return the JSON row that describes the sandbox as a whole."""
    from kafkatools.sandbox.security import client_file

    return {
        "state": state,
        "bootstrap": cluster.bootstrap,
        "nodes": len(cluster.node_ids),
        "pid": None,
        "directory": cluster.layout.root,
        "idle_ms": cluster.layout.idle_ms,
        "client_config": client_file(cluster.home),
    }


def _row(node: NodeState, roles: Roles | None) -> dict[str, object]:
    return {
        "node": node.node_id,
        "pid": node.pid,
        "address": node.place.address,
        "controller": node.place.controller_address,
        "role": None if roles is None else roles.role(node),
        "leaders": None if roles is None else roles.leaders(node),
        "state": node.state,
        "directory": node.place.directory,
        "rack": node.place.rack,
    }


def show_cluster(console: Console, args: Args, cluster: SandboxCluster) -> ExitStatus:
    """Print a line about the cluster and one for each node. Returns FAILED when all nodes are dead."""
    from kafkatools.commands.sandbox.roles import fetch_roles
    from kafkatools.output import table

    nodes = cluster.nodes
    roles = fetch_roles(console, cluster, nodes)
    is_running = cluster.is_running
    word = "Running on" if is_running else "Not running: all nodes are dead; last address"
    row = cluster_row(cluster, "running" if is_running else "dead")
    console.print(f"{word} {cluster.bootstrap} ({len(nodes)} nodes, data in {cluster.layout.root})", row)
    if args.json:
        for node in nodes:
            console.print_json(_row(node, roles))
    else:
        cells = [_cells(node, roles) for node in nodes]
        text = table(_HEADERS, cells, terminal=console.is_terminal, width=console.width)
        console.draw(text)
    return ExitStatus.OK if is_running else ExitStatus.FAILED


def _cells(node: NodeState, roles: Roles) -> tuple[object, ...]:
    leaders = roles.leaders(node)
    return (
        node.node_id,
        "-" if node.pid is None else node.pid,
        node.place.address,
        roles.role(node) or "-",
        "-" if leaders is None else leaders,
        node.state,
    )
