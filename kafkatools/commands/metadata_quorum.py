"""kt metadata-quorum: show and change the controller quorum (kafka-metadata-quorum.sh, MetadataQuorumCommand)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_int, read_properties
from kafkatools.options.common import properties_file
from kafkatools.options.connection import BOOTSTRAP_CONTROLLER, connect_admin
from kafkatools.options.table import ARGPARSE4J

if TYPE_CHECKING:
    import uuid

    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.quorum import Endpoint, MetadataQuorum, QuorumReplica

_PROGRAM = "kafka-metadata-quorum"
_HEADERS = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")
_VALID = "Is this a valid controller configuration file?"


def _connect(console: Console, args: Args) -> AdminClient:
    if args.bootstrap_server is not None and args.bootstrap_controller is not None:
        message = "argument --bootstrap-controller: not allowed with argument --bootstrap-server"
        raise UsageError(f"{_PROGRAM}: error: {message}")
    return connect_admin(console, args)


def id_text(directory_id: uuid.UUID | None) -> str:
    """Return a directory id in Kafka's base64 form; None gives the zero id."""
    from kafkatools.core.protocol.uuids import uuid_text

    return uuid_text(directory_id)


def _describe(console: Console, args: Args) -> ExitStatus:
    if args.status and args.replication:
        raise UsageError("Only one of --status or --replication should be specified with describe sub-command")
    if not args.status and not args.replication:
        raise UsageError("One of --status or --replication must be specified with describe sub-command")
    if args.status and args.human_readable:
        raise UsageError("The option --human-readable is only supported along with --replication")
    from kafkatools.core.admin.cluster import describe_cluster
    from kafkatools.core.admin.quorum import describe_metadata_quorum

    with _connect(console, args) as admin:
        cluster_id = describe_cluster(admin).cluster_id if args.status else None
        quorum = describe_metadata_quorum(admin)
    if args.status:
        _show_status(console, args, quorum, cluster_id)
    else:
        _show_replication(console, args, quorum)
    return ExitStatus.OK


def _leader(quorum: MetadataQuorum) -> QuorumReplica:
    leader = next((voter for voter in quorum.voters if voter.id == quorum.leader_id), None)
    if leader is None:
        raise CommandError(
            f"The leader {quorum.leader_id} of the metadata quorum is not among its voters",
            hint="Run the command again after the next election.",
        )
    return leader


def _lag_time_ms(leader: QuorumReplica, last: QuorumReplica) -> int:
    """Return how long the slowest voter lags behind the leader, in ms; -1 when a timestamp is unknown."""
    if last is leader:
        return 0
    if leader.last_caught_up_timestamp < 0 or last.last_caught_up_timestamp < 0:
        return -1
    return leader.last_caught_up_timestamp - last.last_caught_up_timestamp


def _show_status(console: Console, args: Args, quorum: MetadataQuorum, cluster_id: str | None) -> None:
    leader = _leader(quorum)
    last = min(quorum.voters, key=lambda voter: voter.log_end_offset)
    lag, lag_ms = leader.log_end_offset - last.log_end_offset, _lag_time_ms(leader, last)
    if args.json:
        row = {"cluster_id": cluster_id, "leader": quorum.leader_id, "leader_epoch": quorum.leader_epoch}
        row |= {"high_watermark": quorum.high_watermark, "max_follower_lag": None if last.end is None else lag}
        row |= {"max_follower_lag_ms": lag_ms if lag_ms >= 0 else None}
        voters = [_node_row(voter, quorum.endpoints.get(voter.id, ())) for voter in quorum.voters]
        observers = [_node_row(observer, ()) for observer in quorum.observers]
        console.print_json(row | {"voters": voters, "observers": observers})
        return
    voters_text = ", ".join(_node_text(voter, quorum.endpoints.get(voter.id, ())) for voter in quorum.voters)
    observers_text = ", ".join(_node_text(observer, ()) for observer in quorum.observers)
    for label, value in (
        ("ClusterId", cluster_id),
        ("LeaderId", quorum.leader_id),
        ("LeaderEpoch", quorum.leader_epoch),
        ("HighWatermark", quorum.high_watermark),
        ("MaxFollowerLag", lag),
        ("MaxFollowerLagTimeMs", lag_ms),
        ("CurrentVoters", f"[{voters_text}]"),
        ("CurrentObservers", f"[{observers_text}]"),
    ):
        console.print(f"{label + ':':<24}{value}")


def _node_row(replica: QuorumReplica, endpoints: Sequence[Endpoint]) -> dict[str, object]:
    directory_id = None if replica.directory_id is None else id_text(replica.directory_id)
    return {"id": replica.id, "directory_id": directory_id, "endpoints": [_url(endpoint) for endpoint in endpoints]}


def _url(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def _node_text(replica: QuorumReplica, endpoints: Sequence[Endpoint]) -> str:
    text = f'{{"id": {replica.id}'
    if replica.directory_id is not None and replica.directory_id.int:
        text += f', "directoryId": "{id_text(replica.directory_id)}"'
    if endpoints:
        urls = ", ".join(f'"{_url(endpoint)}"' for endpoint in endpoints)
        text += f', "endpoints": [{urls}]'
    return text + "}"


def _show_replication(console: Console, args: Args, quorum: MetadataQuorum) -> None:
    leader = _leader(quorum)
    followers = [voter for voter in quorum.voters if voter is not leader]
    rows = [(leader, "Leader"), *((follower, "Follower") for follower in followers)]
    rows += [(observer, "Observer") for observer in quorum.observers]
    now_ms = console.clock.wall_ms()
    if args.json:
        for replica, status in rows:
            console.print_json(_replica_row(replica, status, leader))
        return

    def moment(stamp_ms: int) -> str:
        is_relative = args.human_readable and stamp_ms >= 0
        return f"{max(0, now_ms - stamp_ms)} ms ago" if is_relative else str(stamp_ms)

    lines = [_HEADERS] + [
        (
            str(replica.id),
            id_text(replica.directory_id),
            str(replica.log_end_offset),
            str(leader.log_end_offset - replica.log_end_offset),
            moment(replica.last_fetch_timestamp),
            moment(replica.last_caught_up_timestamp),
            status,
        )
        for replica, status in rows
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADERS))]
    for line in lines:
        console.print("".join(f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True)))


def _replica_row(replica: QuorumReplica, status: str, leader: QuorumReplica) -> dict[str, object]:
    fetched, caught_up = replica.last_fetch_timestamp, replica.last_caught_up_timestamp
    return {
        "id": replica.id,
        "directory_id": None if replica.directory_id is None else id_text(replica.directory_id),
        "log_end_offset": replica.end,
        "lag": None if replica.end is None else leader.log_end_offset - replica.end,
        "last_fetch_timestamp": fetched if fetched >= 0 else None,
        "last_caught_up_timestamp": caught_up if caught_up >= 0 else None,
        "status": status.lower(),
    }


def _add_controller(console: Console, args: Args) -> ExitStatus:
    """Make a controller a voter, or with --dry-run only print it. --command-config is the server.properties of that
    controller. Raises UsageError without it, CommandError for an incomplete one."""
    if args.command_config is None:
        raise UsageError(
            "You must supply the configuration file of the controller you are adding when using add-controller."
        )
    settings = properties_file(args, "command_config")
    controller_id = _controller_id(settings)
    directory_id = _directory_of(settings)
    endpoints = _endpoints(settings)
    if not args.dry_run:
        from kafkatools.core.admin.cluster import describe_cluster
        from kafkatools.core.admin.quorum import add_raft_voter

        with _connect(console, args) as admin:
            add_raft_voter(admin, controller_id, directory_id, endpoints, describe_cluster(admin).cluster_id)
    urls = [_url(endpoint) for endpoint in endpoints]
    row = {"controller": controller_id, "directory_id": id_text(directory_id), "endpoints": urls}
    action = "DRY RUN of adding" if args.dry_run else "Added"
    details = f"directory id {id_text(directory_id)} and endpoints: {', '.join(urls)}"
    console.print(f"{action} controller {controller_id} with {details}", row | {"added": not args.dry_run})
    return ExitStatus.OK


def _controller_id(settings: Mapping[str, str]) -> int:
    if "node.id" not in settings:
        raise CommandError(f"node.id not found in configuration file. {_VALID}")
    try:
        number = java_int(settings["node.id"].strip())
    except ValueError:
        raise CommandError(
            f'node.id is not an integer in configuration file: "{settings["node.id"]}". {_VALID}'
        ) from None
    if number < 0:
        raise CommandError(f"node.id was negative in configuration file. {_VALID}")
    if "controller" not in settings.get("process.roles", ""):
        raise CommandError(f"process.roles did not contain 'controller' in configuration file. {_VALID}")
    return number


def _directory_of(settings: Mapping[str, str]) -> uuid.UUID:
    """Return the directory id in meta.properties of the metadata log directory. Raises CommandError."""
    directory = settings.get("metadata.log.dir") or settings.get("log.dirs", "").split(",")[0].strip()
    if not directory:
        raise CommandError(f"Neither metadata.log.dir nor log.dirs were found. {_VALID}")
    path = os.path.join(directory, "meta.properties")
    if not os.path.exists(path):
        raise CommandError(f"Unable to read meta.properties from {directory}")
    directory_id = read_properties(path).get("directory.id")
    if directory_id is None:
        raise CommandError(f"No directory id found in {directory}")
    from kafkatools.core.protocol.uuids import uuid_from_text

    try:
        return uuid_from_text(directory_id)
    except ValueError as error:
        raise CommandError(f"{path}: {error}") from None


def _endpoints(settings: Mapping[str, str]) -> list[Endpoint]:
    """Return the addresses of the controller's listeners: from advertised.listeners, else from listeners. Raises
    CommandError."""
    from kafkatools.core.admin.quorum import Endpoint

    if "controller.listener.names" not in settings:
        raise CommandError(f"controller.listener.names was not found. {_VALID}")
    listeners: dict[str, Endpoint] = {}
    for setting in ("listeners", "advertised.listeners"):
        for text in filter(None, (part.strip() for part in settings.get(setting, "").split(","))):
            name, separator, address = text.partition("://")
            host, colon, port = address.rpartition(":")
            if not separator or not colon or not port.isdecimal() or int(port) > 65535:
                raise CommandError(f"Unable to parse a listener in {setting}: {text}")
            listeners[name.upper()] = Endpoint(name.upper(), host.strip("[]") or "localhost", int(port))
    endpoints = []
    for name in settings["controller.listener.names"].split(","):
        if name.strip().upper() not in listeners:
            raise CommandError(f"Cannot find information about controller listener name: {name.strip()}")
        endpoints.append(listeners[name.strip().upper()])
    return endpoints


def _remove_controller(console: Console, args: Args) -> ExitStatus:
    if args.controller_id < 0:
        raise UsageError(f"Invalid negative --controller-id: {args.controller_id}")
    from kafkatools.core.protocol.uuids import uuid_from_text

    try:
        directory_id = uuid_from_text(args.controller_directory_id)
    except ValueError as error:
        raise UsageError(f"Failed to parse --controller-directory-id: {error}") from None
    if not args.dry_run:
        from kafkatools.core.admin.cluster import describe_cluster
        from kafkatools.core.admin.quorum import remove_raft_voter

        with _connect(console, args) as admin:
            remove_raft_voter(admin, args.controller_id, directory_id, describe_cluster(admin).cluster_id)
    row = {"controller": args.controller_id, "directory_id": id_text(directory_id), "removed": not args.dry_run}
    action = "DRY RUN of removing" if args.dry_run else "Removed"
    console.print(f"{action}  KRaft controller {args.controller_id} with directory id {id_text(directory_id)}", row)
    return ExitStatus.OK


_MISSING = "one of the arguments --bootstrap-server --bootstrap-controller is required"
_subcommand = partial(Command, style=ARGPARSE4J, missing_bootstrap=f"{_PROGRAM}: error: {_MISSING}")


_DRY_RUN = Option("--dry-run", "Print what would be done, and change nothing.")

COMMAND = Command(
    "metadata-quorum",
    "Show the quorum of controllers, or change its voters.",
    options=(
        BOOTSTRAP_SERVER,
        BOOTSTRAP_CONTROLLER,
        command_config("Properties file with settings of the client; for add-controller that of the controller."),
    ),
    style=ARGPARSE4J,
    program=_PROGRAM,
    needs_arguments=False,
    subcommands=(
        _subcommand(
            "describe",
            "Show the quorum's state.",
            (
                Option("--status", "Show leader, epoch, high watermark, voters and observers."),
                Option("--replication", "Show the log end offset and lag of each voter and observer."),
                Option("--human-readable", "With --replication: show times relative to now.", aliases=("-hr",)),
            ),
            _describe,
        ),
        _subcommand("add-controller", "Make a controller a voter.", (_DRY_RUN,), _add_controller),
        _subcommand(
            "remove-controller",
            "Make a voter an observer.",
            (
                Option(
                    "--controller-id",
                    "Node id of the controller.",
                    value="ID",
                    type=java_int,
                    required=True,
                    aliases=("-i",),
                ),
                Option(
                    "--controller-directory-id",
                    "Directory id of the controller's metadata log.",
                    value="ID",
                    required=True,
                    aliases=("-d",),
                ),
                _DRY_RUN,
            ),
            _remove_controller,
        ),
    ),
    examples=(
        "kt metadata-quorum describe --status",
        "kt metadata-quorum --bootstrap-controller localhost:9093 describe --replication --human-readable",
    ),
    destructive=("add-controller", "remove-controller"),
)
