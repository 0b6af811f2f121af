"""kt sandbox fault: add, list and remove faults of the sandbox's nodes."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args, Option
from kafkatools.options.quantities import DURATION_FORM, duration_ms

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.sandbox.faults.control import Faults, FaultStatus
    from kafkatools.sandbox.faults.spec import FaultSpec

_ACTIONS = ("add", "list", "remove")
_KINDS = ("delay", "drop", "cut", "error", "slow-disk", "full-disk", "clock-skew")
_HEADERS = ("ID", "FAULT", "NODES", "HITS", "ENDS")
_WORDS = {"delay_ms": "--delay", "skew_ms": "--skew", "error": "--error", "after": "--after"}


def _duration(text: str, option: str) -> int:
    number = duration_ms(text.removeprefix("+").removeprefix("-") if option == "--skew" else text)
    if number is None:
        raise UsageError(f"kt sandbox fault add: error: {option}: '{text}' is no duration: {DURATION_FORM}")
    return -number if text.startswith("-") else number


OPTIONS = (
    Option("--node", "The node, by default all.", value="N", type=int),
    Option("--api", "APIs whose requests fail, by default all: Produce,Fetch.", value="API,...", repeatable=True),
    Option("--client", "Only requests with this client id; a pattern with * and ?.", value="PATTERN"),
    Option("--topic", "Only requests for, or files of, this topic; a pattern with * and ?.", value="PATTERN"),
    Option(
        "--from",
        "Whose requests fail: clients, nodes (the other nodes of the cluster) or all.",
        value="SENDERS",
        default="clients",
        choices=("clients", "nodes", "all"),
    ),
    Option(
        "--rate",
        "The share of the requests or writes that fail, above 0 and at most 1.",
        value="SHARE",
        type=float,
        default=1.0,
    ),
    Option("--seed", "Seed of the choice of --rate.", value="N", type=int, default=0),
    Option("--for", "Duration of the fault, such as 30s. Default: until it is removed.", value="TIME"),
    Option("--delay", "With delay, slow-disk: how late responses are, or each write and sync.", value="TIME"),
    Option("--error", "With error: Kafka's name of the error, such as NOT_LEADER_OR_FOLLOWER.", value="NAME"),
    Option("--after", "With cut: execute the request, then close the connection."),
    Option("--skew", "With clock-skew: how fast the wall clock is; slow with --skew=-1h.", value="TIME"),
    Option("--all", "With remove: remove all faults."),
)


def faults_of(console: Console) -> Faults:
    """The faults of the sandbox of this home. Raises CommandError when it is not running."""
    from kafkatools.sandbox.single import find_cluster, single_faults

    cluster = find_cluster(console.home, console.clock)
    if cluster is not None:
        return cluster.faults
    faults = single_faults(console.home)
    if faults is None:
        raise CommandError("The sandbox is not running; start it: kt sandbox start")
    return faults


def run_fault(console: Console, args: Args) -> ExitStatus:
    """Run kt sandbox fault. Raises UsageError or CommandError."""
    action, *rest = args.operands or [""]
    if action not in _ACTIONS:
        problem = f"unknown action '{action}'" if action else "the action is missing"
        raise UsageError(f"kt sandbox fault: error: {problem}; actions are {', '.join(_ACTIONS)}")
    if action == "add":
        return _add(console, args, rest)
    strange = [name for name in args.option_names() if name not in ("json", "all")]
    if strange or (args.all and action == "list"):
        raise UsageError(f"kt sandbox fault {action}: error: --{strange[0] if strange else 'all'} has no meaning here")
    return _list(console, args, rest) if action == "list" else _remove(console, args, rest)


def _add(console: Console, args: Args, rest: list[str]) -> ExitStatus:
    from kafkatools.core.errors import ConfigError
    from kafkatools.sandbox.spawn import SandboxError

    if not rest or rest[0] not in _KINDS:
        problem = f"there is no fault '{rest[0]}'" if rest else "the kind of the fault is missing"
        raise UsageError(f"kt sandbox fault add: error: {problem}; faults are {', '.join(_KINDS)}")
    if args.all:
        raise UsageError("kt sandbox fault add: error: --all has no meaning here")
    if args.has_option("seed") and not args.has_option("rate"):
        raise UsageError("kt sandbox fault add: error: --seed needs --rate")
    limit_ms = None if getattr(args, "for") is None else _duration(getattr(args, "for"), "--for")
    delay_ms = 0 if args.delay is None else _duration(args.delay, "--delay")
    skew_ms = 0 if args.skew is None else _duration(args.skew, "--skew")
    faults = faults_of(console)
    try:
        fault = faults.add(
            rest[0],
            node=args.node,
            for_ms=limit_ms,
            api=tuple(name.strip() for text in args.api for name in text.split(",")),
            client=args.client,
            topic=args.topic,
            senders=getattr(args, "from"),
            rate=args.rate,
            seed=args.seed,
            delay_ms=delay_ms,
            error=args.error or "",
            after=args.after,
            skew_ms=skew_ms,
        )
    except ConfigError as error:
        raise UsageError(f"kt sandbox fault add: error: {error}") from None
    except SandboxError as error:
        raise CommandError(str(error)) from None
    status = next((one for one in faults.active() if one.id == fault.id), None)
    if status is not None:
        line = f"Added fault {fault.id}: {_text(fault.spec)} ({_nodes_text(status)})"
        console.print(line, _row(status))
        if status.hits is None:
            console.note("A node that does not run or is paused has the fault when it runs again.")
    return ExitStatus.OK


def _list(console: Console, args: Args, rest: list[str]) -> ExitStatus:
    from kafkatools.output import table

    if rest:
        raise UsageError(f"kt sandbox fault list: error: unrecognized arguments: '{rest[0]}'")
    found = faults_of(console).active()
    if args.json:
        for status in found:
            console.print_json(_row(status))
    elif found:
        console.draw(table(_HEADERS, map(_cells, found), terminal=console.is_terminal, width=console.width))
    else:
        console.note("No faults.")
    return ExitStatus.OK


def _cells(status: FaultStatus) -> tuple[object, ...]:
    hits = "-" if status.hits is None else status.hits
    return status.id, _text(status.spec), ",".join(map(str, status.nodes)), hits, _end(status.spec)


def _remove(console: Console, args: Args, rest: list[str]) -> ExitStatus:
    if args.all == bool(rest):
        raise UsageError("kt sandbox fault remove: error: name the id of a fault, or --all")
    faults = faults_of(console)
    if args.all:
        text = "Removed all faults" if faults.clear() else "There were no faults"
        console.print(text, {"removed": "all"})
        return ExitStatus.OK
    if not (rest[0].isascii() and rest[0].isdigit()):
        raise UsageError(
            f"kt sandbox fault remove: error: '{rest[0]}' is no id of a fault; kt sandbox fault list prints the ids"
        )
    number = int(rest[0])
    if not faults.remove(number):
        ids = ", ".join(str(one.id) for one in faults.active())
        raise CommandError(f"There is no fault {number}{f'; there are {ids}' if ids else ''}")
    console.print(f"Removed fault {number}", {"removed": number})
    return ExitStatus.OK


def _nodes_text(status: FaultStatus) -> str:
    return f"node{'s' * (len(status.nodes) > 1)} {', '.join(map(str, status.nodes))}"


def _text(spec: FaultSpec) -> str:
    """A fault as the words of the command line that adds it, without node and duration."""
    words = [spec.kind]
    for name, option in _WORDS.items():
        value = getattr(spec, name)
        if value:
            words.append(option if value is True else f"{option}={value}{'ms' * name.endswith('_ms')}")
    words += [f"--api {','.join(spec.apis)}"] if spec.apis else []
    words += [f"--client {quote(spec.client)}"] if spec.client is not None else []
    words += [f"--topic {quote(spec.topic)}"] if spec.topic is not None else []
    words += [f"--from {spec.senders}"] if spec.senders != "clients" else []
    words += [f"--rate {spec.rate:g} --seed {spec.seed}"] if spec.rate != 1 else []
    return " ".join(words)


def _end(spec: FaultSpec) -> str:
    if spec.until_ms is None:
        return "when removed"
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(spec.until_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _row(status: FaultStatus) -> dict[str, object]:
    from kafkatools.sandbox.faults.spec import spec_row

    row = spec_row(status.spec)
    row["from"] = row.pop("senders")
    return {"id": status.id, "nodes": list(status.nodes), "hits": status.hits, **row}


def note_faults(console: Console, faults: Faults) -> None:
    """Tell on stderr that nodes have faults, which explains what they do."""
    count = len(faults.active())
    if count:
        console.note(f"{count} fault{'s are' if count > 1 else ' is'} active: kt sandbox fault list")
