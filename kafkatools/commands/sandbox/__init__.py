"""kt sandbox: start, inspect and stop the local broker or cluster that kt uses without --bootstrap-server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkatools.commands.sandbox import faults, nodes
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import ARGPARSE4J, DURABILITY, Args, Command, Option, with_plain_numbers

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.sandbox.security import Security, SecurityOptions
    from kafkatools.sandbox.single import SandboxInfo

_MINUTE_MS = 60_000
MOST_NODES = 9
_CHOICES = ("port", "dir", "set", "durability", "rack", "tls", "mtls", "sasl", "acls", "user")
"""Options that a running sandbox cannot take, whatever their values."""


def run_start(console: Console, args: Args) -> ExitStatus:
    """Run kt sandbox start: start the sandbox, or print its address if it already runs.

    Raises UsageError for impossible racks, minutes or node counts, CommandError if the running sandbox has other
    options.
    """
    settings = _settings(args.set)
    if args.durability is not None:
        settings["log.durability"] = args.durability
    racks = _racks(args)
    if args.idle_minutes < 0:
        raise UsageError(f"kt sandbox: error: --idle-minutes {args.idle_minutes} must be at least 0")
    requested = _requested_security(args)
    if args.nodes != 1:
        return _start_cluster(console, args, settings, racks, requested)
    from kafkatools.sandbox.security import prepare, write_client_files
    from kafkatools.sandbox.single import SandboxOptions, ensure_started, status

    if racks:
        settings["broker.rack"] = racks[0]
    security = prepare(console.home, requested, is_cluster=False) if status(console.home) is None else None
    options = SandboxOptions(args.port, args.dir, settings, args.idle_minutes * _MINUTE_MS, security=security)
    info = ensure_started(console.home, None, options)
    line = f"Started on {info.bootstrap}" if info.started else f"Already running on {info.bootstrap}"
    if not info.started:
        _refuse_choices(args, info.bootstrap, info.nodes, info.idle_ms)
    details = f"pid {info.pid}" if info.nodes == 1 else f"{info.nodes} nodes"
    state = "started" if info.started else "running"
    path = None if security is None else write_client_files(security, info.bootstrap)
    console.print(f"{line} ({details}, data in {info.directory})", _row(console, info, state))
    _note_security(console, security, path)
    return ExitStatus.OK


def _requested_security(args: Args) -> SecurityOptions:
    """Return the requested security. Raises UsageError for options that do not fit together."""
    from kafkatools.sandbox.security import SecurityOptions, checked, parse_users
    from kafkatools.sandbox.spawn import SandboxError

    try:
        users = parse_users(args.user, args.sasl)
        return checked(SecurityOptions(args.tls, args.mtls, args.sasl, args.acls, users))
    except SandboxError as error:
        raise UsageError(f"kt sandbox: error: {error}") from None


def _note_security(console: Console, security: Security | None, path: str | None) -> None:
    """Say on stderr where the settings of clients are."""
    if security is None:
        return
    names = ", ".join(security.clients)
    console.note(f"Clients ({security.protocol}; {names}): --command-config {path}, or kt --profile sandbox")


def _row(console: Console, info: SandboxInfo, state: str) -> dict[str, object]:
    from kafkatools.sandbox.security import client_file

    return {
        "state": state,
        "bootstrap": info.bootstrap,
        "nodes": info.nodes,
        "pid": info.pid if info.nodes == 1 else None,
        "directory": info.directory,
        "idle_ms": info.idle_ms,
        "client_config": client_file(console.home),
    }


def _refuse_choices(args: Args, bootstrap: str, running: int, idle_ms: int) -> None:
    """Raise CommandError if the command line has options that a running sandbox cannot take, and not those that it
    has."""
    has_others = args.has_option("nodes") and args.nodes != running
    has_others |= args.has_option("idle-minutes") and args.idle_minutes * _MINUTE_MS != idle_ms
    if has_others or any(map(args.has_option, _CHOICES)):
        raise CommandError(
            f"The sandbox already runs on {bootstrap} with other options; stop it first: kt sandbox stop"
        )


def _start_cluster(
    console: Console, args: Args, settings: dict[str, str], racks: tuple[str, ...], requested: SecurityOptions
) -> ExitStatus:
    from kafkatools.sandbox.cluster import ClusterOptions
    from kafkatools.sandbox.security import prepare, write_client_files
    from kafkatools.sandbox.single import ensure_cluster, status

    security = prepare(console.home, requested, is_cluster=True) if status(console.home) is None else None
    idle_ms = args.idle_minutes * _MINUTE_MS
    options = ClusterOptions(args.nodes, args.port, args.dir, settings, racks, idle_ms, security=security)
    cluster, is_started = ensure_cluster(console.home, options, console.clock)
    if not is_started:
        _refuse_choices(args, cluster.bootstrap, len(cluster.node_ids), cluster.layout.idle_ms)
    cluster.disown()
    word, state = ("Started", "started") if is_started else ("Already running", "running")
    line = f"{word} on {cluster.bootstrap} ({args.nodes} nodes, data in {cluster.layout.root})"
    path = None if security is None else write_client_files(security, cluster.bootstrap)
    console.print(line, nodes.cluster_row(cluster, state))
    _note_security(console, security, path)
    return ExitStatus.OK


def _racks(args: Args) -> tuple[str, ...]:
    """Return the racks of --rack. Raises UsageError for an impossible number of nodes or racks."""
    racks = tuple(name for text in args.rack for name in text.split(","))
    if not 1 <= args.nodes <= MOST_NODES:
        raise UsageError(f"kt sandbox: error: --nodes takes a number from 1 to {MOST_NODES}, not {args.nodes}")
    if "" in racks:
        raise UsageError("kt sandbox: error: --rack contains an empty name")
    if len(racks) > args.nodes:
        raise UsageError(
            f"kt sandbox: error: --rack names {len(racks)} racks, more than there are nodes (--nodes {args.nodes})"
        )
    return racks


def _settings(texts: list[str]) -> dict[str, str]:
    """Return the broker settings of --set. Raises CommandError for an unknown setting or invalid value."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise CommandError(f"--set takes KEY=VALUE, not {text}", ExitStatus.USAGE)
        pairs |= with_plain_numbers({key: value})
    if pairs:
        from kafkatools.core import config
        from kafkatools.core.errors import ConfigError

        try:
            config.Config(config.BROKER, pairs)
        except ConfigError as error:
            raise CommandError(f"--set: {error}", ExitStatus.USAGE) from error
    return pairs


def run_status(console: Console, args: Args) -> ExitStatus:
    """Run kt sandbox status. Returns FAILED when the sandbox is not running."""
    from kafkatools.sandbox.single import find_cluster, status

    cluster = find_cluster(console.home, console.clock)
    if cluster is not None:
        outcome = nodes.show_cluster(console, args, cluster)
        faults.note_faults(console, cluster.faults)
        return outcome
    info = status(console.home)
    if info is None:
        console.print("Not running", {"state": "stopped"})
        return ExitStatus.FAILED
    line = f"Running on {info.bootstrap} (pid {info.pid}, data in {info.directory})"
    console.print(line, _row(console, info, "running"))
    faults.note_faults(console, faults.faults_of(console))
    return ExitStatus.OK


def run_stop(console: Console, args: Args) -> ExitStatus:
    """Run kt sandbox stop: stop the sandbox, or only the named node. A sandbox that is not running is no failure."""
    from kafkatools.sandbox.single import stop

    if args.operand is not None:
        return nodes.run_stop_node(console, args)
    info = stop(console.home, console.clock.sleep_ms)
    if info is None:
        console.print("Not running", {"state": "stopped"})
        return ExitStatus.OK
    line = f"Stopped (pid {info.pid})" if info.nodes == 1 else f"Stopped ({info.nodes} nodes)"
    console.print(line, _row(console, info, "stopped"))
    return ExitStatus.OK


_START_OPTIONS = (
    Option(
        "--nodes",
        "Number of nodes of the cluster, 1 to 9. Each node is a process with the roles broker and controller.",
        value="N",
        type=int,
        default=1,
    ),
    Option(
        "--port",
        "Port to listen on. Default: 29092, or a free port if it is taken. Further nodes listen 10 ports "
        "higher each; controllers listen on the port after their broker's.",
        value="PORT",
        type=int,
    ),
    Option("--dir", "Data directory. Default: a directory in KT_HOME.", value="DIR"),
    Option(
        "--rack",
        "Racks of the nodes in order, separated by commas. With fewer racks than nodes they repeat.",
        value="RACK,...",
        repeatable=True,
    ),
    DURABILITY,
    Option("--tls", "Encrypt the listener with a certificate of an authority made for the sandbox."),
    Option("--mtls", "As --tls, and require a certificate of clients; User:client is the principal of the one made."),
    Option(
        "--sasl",
        "Let clients authenticate: scram (SCRAM-SHA-512 and -256), plain, or oauthbearer (tokens without a signature).",
        value="MECHANISM",
    ),
    Option(
        "--user",
        "A user of --sasl; without a password it gets a random one. Default: admin. The first one is a super user "
        "with --acls. A password on the command line is visible in ps.",
        value="NAME[:PASSWORD]",
        repeatable=True,
    ),
    Option("--acls", "Refuse what no ACL allows, except to the first user. Needs --sasl or --mtls."),
    Option("--set", "A broker setting, for all nodes.", value="KEY=VALUE", repeatable=True),
    Option(
        "--idle-minutes", "Stop after this many minutes without a request; 0: never.", value="N", type=int, default=30
    ),
)
_WIPE_OPTIONS = (Option("--stop", "Stop the node first if it runs."), Option("--yes", "Remove without a prompt."))


def _on_node(
    name: str, summary: str, run: Callable[[Console, Args], ExitStatus], options: tuple[Option, ...] = ()
) -> Command:
    return Command(name, summary, options, run, ARGPARSE4J, operand="NODE", needs_arguments=False)


COMMAND = Command(
    "sandbox",
    "Start, inspect and stop the local broker or cluster that kt uses without --bootstrap-server.",
    style=ARGPARSE4J,
    program="kt sandbox",
    needs_arguments=False,
    subcommands=(
        Command("start", "Start the sandbox in the background.", _START_OPTIONS, run_start, ARGPARSE4J),
        Command(
            "status",
            "Show whether the sandbox runs and at which address, with the state of each node.",
            (),
            run_status,
            ARGPARSE4J,
        ),
        _on_node("kill", "Kill the process of a node (SIGKILL).", nodes.run_kill),
        _on_node("pause", "Suspend the process of a node (SIGSTOP).", nodes.run_pause),
        _on_node("resume", "Resume a paused node (SIGCONT).", nodes.run_resume),
        _on_node(
            "restart", "Restart a node after a clean stop, or start a node that is not running.", nodes.run_restart
        ),
        _on_node(
            "wipe",
            "Delete the data of a node that is not running, as if it had a new disk.",
            nodes.run_wipe,
            _WIPE_OPTIONS,
        ),
        Command(
            "fault",
            "Add, list and remove faults. ACTION is add, list or remove; KIND is delay, drop, cut or error (of "
            "requests), slow-disk, full-disk or clock-skew.",
            faults.OPTIONS,
            faults.run_fault,
            ARGPARSE4J,
            operand="ACTION [KIND|ID]",
            examples=(
                "kt sandbox fault add delay --delay 200ms --api Produce --rate 0.3",
                "kt sandbox fault add error --error NOT_ENOUGH_REPLICAS --api Produce --topic orders --for 30s",
                "kt sandbox fault add full-disk --node 2",
                "kt sandbox fault list",
                "kt sandbox fault remove --all",
            ),
        ),
        _on_node("stop", "Stop the sandbox, or only the given node, cleanly. The data stays.", run_stop),
    ),
    examples=(
        "kt sandbox start --set num.partitions=3",
        "kt sandbox start --nodes 3 --rack a,b,c",
        "kt sandbox start --tls --sasl scram --user alice --acls",
        "kt sandbox kill 2",
        "kt sandbox restart 2",
        "kt sandbox fault add drop --api Fetch --node 2 --for 30s",
        "kt sandbox stop",
    ),
)
