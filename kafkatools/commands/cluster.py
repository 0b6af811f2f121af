"""kt cluster: show the cluster id and the nodes, or unregister a broker (kafka-cluster.sh, ClusterTool)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_int, rules
from kafkatools.options.connection import BOOTSTRAP_CONTROLLER, with_admin
from kafkatools.options.table import ARGPARSE4J

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient

_PROGRAM = "kafka-cluster"
_NO_RACK_WIDTH = 10


_with_admin = partial(with_admin, older_config="config")


def _cluster_id(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    from kafkatools.core.admin.cluster import describe_cluster

    cluster_id = describe_cluster(admin).cluster_id
    missing = "No cluster ID found. The Kafka version is probably too old."
    console.print(missing if cluster_id is None else f"Cluster ID: {cluster_id}", {"cluster_id": cluster_id})
    return ExitStatus.OK


def _unregister(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    from kafkatools.core.admin.cluster import unregister_broker

    if args.dry_run:
        return _dry_run(console, args, admin)
    unregister_broker(admin, args.id)
    console.print(f"Broker {args.id} is no longer registered.", {"broker": args.id, "unregistered": True})
    return ExitStatus.OK


def _dry_run(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    """Print what unregistering would do: whether the broker is registered and fenced. Raises BrokerIdNotRegistered, and
    UsageError with --bootstrap-controller."""
    from kafkatools.core.admin.cluster import describe_cluster
    from kafkatools.core.errors import BrokerIdNotRegistered

    if admin.through_controllers:
        raise UsageError("--dry-run needs --bootstrap-server: controllers do not list the registered brokers")
    cluster = describe_cluster(admin, include_fenced_brokers=True)
    if args.id not in [node.id for node in cluster.nodes]:
        raise BrokerIdNotRegistered(f"Broker ID {args.id} is not currently registered")
    row = {"broker": args.id, "unregistered": False, "fenced": args.id in cluster.fenced}
    state = "is not running" if args.id in cluster.fenced else "is running"
    console.print(f"Broker {args.id} would be unregistered; it {state}.", row)
    return ExitStatus.OK


def _check_fenced(console: Console, args: Args) -> ExitStatus:
    if args.include_fenced_brokers and args.bootstrap_controller is not None:
        raise UsageError("The option --include-fenced-brokers is only supported with --bootstrap-server option")
    return _with_admin(_list_endpoints)(console, args)


def _list_endpoints(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    """Print the nodes with the column widths of ClusterTool.listEndpoints."""
    from kafkatools.core.admin.cluster import describe_cluster

    cluster = describe_cluster(admin, include_fenced_brokers=args.include_fenced_brokers)
    kind = "controller" if admin.through_controllers else "broker"
    if args.json:
        for node in cluster.nodes:
            row = {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack, "type": kind}
            console.print_json(row | ({} if admin.through_controllers else {"fenced": node.id in cluster.fenced}))
        return ExitStatus.OK
    host = max((len(node.host) for node in cluster.nodes), default=100)
    rack = max((len(node.rack) for node in cluster.nodes if node.rack), default=_NO_RACK_WIDTH)

    def line(*cells: object) -> str:
        node_id, name, port, rack_name, state, endpoint_type = cells
        text = f"{node_id!s:<10} {name!s:<{host}} {port!s:<10} {rack_name!s:<{rack}} "
        return text + ("" if admin.through_controllers else f"{state!s:<10} ") + f"{endpoint_type!s:<15}"

    console.print(line("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"))
    for node in cluster.nodes:
        state = "fenced" if node.id in cluster.fenced else "unfenced"
        console.print(line(node.id, node.host, node.port, node.rack or "null", state, kind))
    return ExitStatus.OK


def _api_versions(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    """Print the API versions of each node. Returns FAILED when a node did not answer. Source: KIP-1220."""
    from kafkatools.core.admin.cluster import describe_api_versions
    from kafkatools.core.errors import KafkaError
    from kafkatools.tools.node_api_versions import node_text, versions_row, versions_text

    status = ExitStatus.OK
    for node, reply in describe_api_versions(admin).items():
        if isinstance(reply, KafkaError):
            console.error(f"{node_text(node)} -> ERROR: {reply}", reply.name, node=node.id)
            status = ExitStatus.FAILED
        else:
            console.print(versions_text(node, reply), versions_row(node, reply, key="node"))
    return status


_COMMON = (
    BOOTSTRAP_CONTROLLER._replace(aliases=("-C",)),
    BOOTSTRAP_SERVER._replace(aliases=("-b",)),
    command_config()._replace(aliases=("-c",)),
    Option("--config", "Older name of --command-config.", value="FILE", replacement="--command-config"),
)

_ID = Option("--id", "Id of the broker to unregister.", value="ID", type=java_int, required=True, aliases=("-i",))
_DRY_RUN = Option("--dry-run", "Print whether the broker is registered, and do not unregister it.", ours=True)


_ONE_ADDRESS = rules.Refusal(
    "bootstrap-controller",
    ("bootstrap-server",),
    "argument --bootstrap-controller/-C: not allowed with argument --bootstrap-server/-b",
)
_MISSING = "one of the arguments --bootstrap-server/-b --bootstrap-controller/-C is required"
_subcommand = partial(
    Command, style=ARGPARSE4J, rules=(_ONE_ADDRESS,), missing_bootstrap=f"{_PROGRAM}: error: {_MISSING}"
)


COMMAND = Command(
    "cluster",
    "Show the cluster id and the nodes, or unregister a broker.",
    style=ARGPARSE4J,
    program=_PROGRAM,
    needs_arguments=False,
    subcommands=(
        _subcommand("cluster-id", "Print the cluster's id.", _COMMON, _with_admin(_cluster_id)),
        _subcommand(
            "unregister",
            "Remove a broker's registration from the cluster metadata.",
            (*_COMMON, _ID, _DRY_RUN),
            _with_admin(_unregister),
        ),
        _subcommand(
            "list-endpoints",
            "List the brokers or, through a controller, the controllers.",
            (*_COMMON, Option("--include-fenced-brokers", "List fenced brokers too.")),
            _check_fenced,
        ),
        _subcommand(
            "api-versions",
            "List the API versions of the brokers or, through a controller, the controllers.",
            _COMMON,
            _with_admin(_api_versions),
        ),
    ),
    examples=(
        "kt cluster cluster-id --bootstrap-server localhost:9092",
        "kt cluster list-endpoints --include-fenced-brokers",
    ),
    destructive=("unregister",),
)
