"""kt sandbox: the broker in the background that commands use when no --bootstrap-server is given. Kafka has no such
tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import ARGPARSE4J, Args, Command, Option

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.broker.sandbox import SandboxInfo

_MINUTE_MS = 60_000


def _show(console: Console, args: Args, line: str, row: dict[str, Any]) -> None:
    if args.json:
        console.print_json(row)
    else:
        console.print(line)


def _row(info: SandboxInfo, state: str) -> dict[str, Any]:
    return {
        "state": state,
        "bootstrap": info.bootstrap,
        "pid": info.pid,
        "directory": info.directory,
        "idle_ms": info.idle_ms,
    }


def run_start(console: Console, args: Args) -> ExitStatus:
    """Starts the sandbox, or says that it runs."""
    from kafkatools.core.broker.sandbox import SandboxOptions, ensure_started

    settings = _pairs(args.set)
    if args.durability is not None:
        settings["log.durability"] = args.durability
    options = SandboxOptions(args.port, args.dir, settings, args.idle_minutes * _MINUTE_MS)
    info = ensure_started(console.home, None, options)
    state = "started" if info.started else "running"
    line = f"Started on {info.bootstrap}" if info.started else f"Already running on {info.bootstrap}"
    if not info.started and any(args.given(name) for name in ("port", "dir", "set", "durability")):
        raise CommandError(f"the sandbox is already running on {info.bootstrap}; stop it first: kt sandbox stop")
    _show(console, args, f"{line} (pid {info.pid}, data in {info.directory})", _row(info, state))
    return ExitStatus.OK


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise CommandError(f"--set wants key=value, not {text}", ExitStatus.USAGE)
        pairs[key] = value
    return pairs


def run_status(console: Console, args: Args) -> ExitStatus:
    """Says whether it runs; exit status 1 when it does not."""
    from kafkatools.core.broker.sandbox import status

    info = status(console.home)
    if info is None:
        _show(console, args, "Not running", {"state": "stopped"})
        return ExitStatus.FAILED
    _show(
        console, args, f"Running on {info.bootstrap} (pid {info.pid}, data in {info.directory})", _row(info, "running")
    )
    return ExitStatus.OK


def run_stop(console: Console, args: Args) -> ExitStatus:
    """Stops it cleanly; nothing to stop is fine."""
    from kafkatools.core.broker.sandbox import stop

    info = stop(console.home, console.clock.sleep_ms)
    if info is None:
        _show(console, args, "Not running", {"state": "stopped"})
    else:
        _show(console, args, f"Stopped (pid {info.pid})", _row(info, "stopped"))
    return ExitStatus.OK


_START_OPTIONS = (
    Option("--port", "Port to listen on; without it 29092, or a free one if that is taken.", value="PORT", type=int),
    Option("--dir", "Directory of the data; without it one below KT_HOME.", value="DIR"),
    Option(
        "--durability",
        "What an acknowledged record survives. none, as in Kafka: the end of the process, not a loss of power. "
        "fsync: a loss of power too; it is on the disk before acks=1 or all is answered, and before it is read.",
        value="LEVEL",
        choices=("none", "fsync"),
    ),
    Option("--set", "A setting of the broker.", value="KEY=VALUE", repeatable=True),
    Option(
        "--idle-minutes", "Minutes without a request after which it stops; 0: never.", value="N", type=int, default=30
    ),
)

COMMAND = Command(
    "sandbox",
    "Start, look at and stop the broker that kt uses when no --bootstrap-server is given.",
    style=ARGPARSE4J,
    program="kt sandbox",
    needs_arguments=False,
    subcommands=(
        Command("start", "Start it in the background.", _START_OPTIONS, run_start, ARGPARSE4J),
        Command("status", "Say whether it runs, and where.", (), run_status, ARGPARSE4J),
        Command("stop", "Stop it; the data stays.", (), run_stop, ARGPARSE4J),
    ),
    examples=("kt sandbox start --set num.partitions=3", "kt sandbox stop"),
)
