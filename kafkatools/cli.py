"""From a command line to an exit status: finds the command, parses, runs it, and turns every exception into a line
and a status.

Rules: a known command goes straight from the table to its module, so that nothing else is imported; the Typer
application exists only for the help of `kt` itself. This is one of the two places with a
broad `except` (the other is the top of a thread).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.commands import ALIASES, COMMANDS, GROUPS, load
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options.args import Args
from kafkatools.options.parser import parse
from kafkatools.options.profiles import ensure_confirmed, profile_for
from kafkatools.options.table import Command, all_options
from kafkatools.version import KAFKA_VERSION, __version__

if TYPE_CHECKING:
    import logging

    from kafkatools.console import Console

_HINTS = {
    "CONNECTION_FAILED": "Is the address right, and does a broker listen there? "
    "Without --bootstrap-server kt uses the sandbox of this machine.",
    "SECURITY_DISABLED": "Brokers keep ACLs when authorizer.class.name is set. A sandbox with it: kt sandbox stop && "
    "kt sandbox start --set authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer "
    "--set super.users=User:ANONYMOUS",
    "NOT_KAFKA": "Is this the port of a broker's plaintext listener?",
}
"""What to try, by the name of an error."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came, or the terminal went away: the same way out as Ctrl-C."""


def main(arguments: Sequence[str], console: Console) -> ExitStatus:
    """Runs `kt` with these arguments (without the program's name) and says how it ended. Never raises, never exits."""
    try:
        chosen, arguments = _global_options(arguments)
        name = arguments[0] if arguments else ""
        if name == "help" and len(arguments) > 1:
            name, arguments = arguments[1], [*arguments[1:], "--help"]
        if name in COMMANDS or name in ALIASES:
            status = run_command(load(name), arguments[1:], console, chosen)
        else:
            status = _application(arguments, console)
        console.flush()
        return status
    except BrokenPipeError:
        console.abandon_stdout()
        return ExitStatus.OK
    except KeyboardInterrupt:
        return _interrupted(console)
    except OSError as error:
        console.abandon_stdout()
        console.error(f"kt: {describe(error)}")
        return ExitStatus.FAILED


class Globals(NamedTuple):
    """What stands in front of the command: the profile's name, and the name of its cluster to confirm with."""

    profile: str | None = None
    confirm: str | None = None


_GLOBALS = {f"--{name}": name for name in Globals._fields}

GLOBAL_OPTIONS = {
    "--profile NAME": "Use the cluster defined by this profile.",
    "--confirm CLUSTER": "Confirm changes to a protected cluster without a prompt.",
    "--version": "Show the version and exit.",
}
"""The options in front of the command, for the help and the manual page."""


def _global_options(arguments: Sequence[str]) -> tuple[Globals, Sequence[str]]:
    """Takes the options in front of the command; one without its value is left for the complaint about it."""
    found: dict[str, str] = {}
    while arguments:
        name, equals, value = arguments[0].partition("=")
        has_value = equals or (len(arguments) > 1 and not arguments[1].startswith("-"))
        if name not in _GLOBALS or not has_value:
            break
        found[_GLOBALS[name]] = value if equals else arguments[1]
        arguments = arguments[1 if equals else 2 :]
    return Globals(**found), arguments


def run_command(command: Command, arguments: Sequence[str], console: Console, chosen: Globals) -> ExitStatus:
    """Parses and runs one command; BrokenPipeError and KeyboardInterrupt go on to the caller."""
    console.is_json = "--json" in arguments
    subcommand = command.subcommand(arguments[0]) if arguments else None
    args: Args | None = None
    try:
        if not arguments and command.needs_arguments:
            console.error_lines(_help(command, None, console).rstrip("\n"))
            return ExitStatus.USAGE
        part, args = parse(command, arguments)
        if args.help:
            console.write(_help(part, None if part.name == command.name else command, console).encode())
            return ExitStatus.OK
        if args.given("version"):
            console.print(KAFKA_VERSION)
            return ExitStatus.OK
        _quiet_logs(console)
        args.profile = profile_for(args, chosen.profile, console.environ)
        if args.profile is not None:
            ensure_confirmed(console, command, args, args.profile, chosen.confirm)
        return _run(part, args, console)
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001 - the boundary of the program: whatever is left becomes one line
        page = f"{command.name} {subcommand.name}" if subcommand else command.name
        return _report(command, page, error, console, args)


def _run(command: Command, args: Args, console: Console) -> ExitStatus:
    run: Callable[[Console, Args], ExitStatus] | None = command.run
    if run is None:
        raise UsageError(f"kt {command.name} needs a subcommand")
    return run(console, args)


def _quiet_logs(console: Console) -> None:
    """Log lines of the core are for KT_DEBUG=1: the one line of an error says what matters. Warnings about security and
    settings are always shown."""
    import logging

    _show_warnings(console)
    logger = logging.getLogger("kafkatools")
    if any(type(handler).__module__ not in ("logging", __name__) for handler in logger.handlers):
        return  # a program that runs kt in its own process has installed handlers
    logger.handlers = [_log_lines(console) if console.is_debug else logging.NullHandler()]
    logger.setLevel(logging.DEBUG if console.is_debug else logging.NOTSET)


def _log_lines(console: Console) -> logging.Handler:
    """A logging handler that writes to the console's stderr."""
    import contextlib
    import logging

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with contextlib.suppress(OSError, ValueError):
                (console.error_lines if record.exc_info else console.note)(self.format(record))

    lines = Lines()
    lines.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
    return lines


def _show_warnings(console: Console) -> None:
    """Each warning once a run, as a line on stderr."""
    import logging

    told: set[str] = set()

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            message = record.getMessage()
            if message not in told:
                told.add(message)
                console.note(f"warning: {message}")

    for name in ("security", "settings"):
        logging.getLogger(f"kafkatools.{name}").handlers = [] if console.is_debug else [Lines()]


def _help(command: Command, outer: Command | None, console: Console) -> str:
    from kafkatools.options.usage import help_text

    return help_text(command, console.width, outer)


def describe(error: BaseException) -> str:
    """An exception in one line of plain words: what the system said and about which file."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = str(error)
    return text.splitlines()[0] if text else type(error).__name__


def _report(command: Command, page: str, error: Exception, console: Console, args: Args | None) -> ExitStatus:
    """Says what went wrong (one line and one of advice; with --json one object) and chooses the exit status.

    `page` is the command whose help a usage error points to, its subcommand included; `args`: None when the command
    line could not be read.
    """
    kind, message, hint, status = _judge(command, error, args)
    _complain(console, kind, message, hint, status, f"See kt {page} --help." if kind == "USAGE" else "")
    if console.is_debug:
        _show_trace(error, console)
    return status


def _show_trace(error: Exception, console: Console) -> None:
    """Print the stack trace. Frames are printed as they are; the message of an exception may be foreign text."""
    import traceback

    chunks = [chunk.rstrip("\n") for chunk in traceback.format_exception(error)]
    if console.is_json:
        console.note("\n".join(chunks))
        return
    for chunk in chunks:
        if chunk.startswith((" ", "\n", "Traceback ")):
            console.error_lines(chunk)
        else:
            console.note(chunk)


def _complain(console: Console, kind: str, message: str, hint: str, status: ExitStatus, page: str) -> None:
    """One object with --json, the hint in it; else the message, and what to try and where to look on a second line."""
    if console.is_json:
        console.error(message, kind, exit=int(status), **({"hint": hint} if hint else {}))
        return
    console.error(message)
    between = " " if hint.endswith((".", "?")) else "\n"  # a command to copy needs a line of its own
    advice = f"{hint}{between}{page}".strip()
    if advice:
        console.error(advice)


def _judge(command: Command, error: Exception, args: Args | None) -> tuple[str, str, str, ExitStatus]:
    """Kind (for JSON), message, hint and status of an exception."""
    from kafkatools.core.errors import ConfigError, KafkaError

    if isinstance(error, UsageError):
        return "USAGE", str(error), error.hint, ExitStatus.USAGE
    if isinstance(error, CommandError):
        return "FAILED", command.error_prefix + str(error), error.hint, error.status
    if isinstance(error, ConfigError):
        return error.name, command.error_prefix + str(error), error.hint, ExitStatus.USAGE
    if isinstance(error, KafkaError):
        from kafkatools.options.connection import endpoint_hint

        hint = _HINTS.get(error.name) or endpoint_hint(args, error)
        return error.name, command.error_prefix + str(error), hint, ExitStatus.FAILED
    if isinstance(error, OSError):
        return "SYSTEM", command.error_prefix + describe(error), "", ExitStatus.FAILED
    message = f"{command.error_prefix}internal error: {type(error).__name__}: {describe(error)}"
    return "INTERNAL", message, "Set KT_DEBUG=1 to see where.", ExitStatus.FAILED


def _interrupted(console: Console) -> ExitStatus:
    """Ctrl-C: what was printed so far goes out, nothing else is said."""
    try:
        console.flush()
    except OSError:
        console.abandon_stdout()
    return ExitStatus.INTERRUPTED


def terminate_politely() -> None:
    """Makes SIGTERM and SIGHUP take the way of Ctrl-C, so that commands flush and report; not what nohup ignores."""

    def handle(signum: int, frame: FrameType | None) -> None:
        raise Terminated

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)


def _application(arguments: Sequence[str], console: Console) -> ExitStatus:
    """`kt` without a command of the table: version, help (by Typer), or a complaint about an unknown command."""
    console.is_json = "--json" in arguments
    if arguments and arguments[0] in ("--version", "version"):
        return _version(arguments[1:], console)
    if arguments and arguments[0] not in ("--help", "-h", "help"):
        return _report_unknown(arguments, console)
    text = _help_of_kt(console.width)
    if not arguments:
        console.error_lines(text.rstrip("\n"))
        return ExitStatus.USAGE
    console.write(text.encode())
    return ExitStatus.OK


def _version(arguments: Sequence[str], console: Console) -> ExitStatus:
    """Print the version; with --json an object with the versions of kt and of Apache Kafka's tools that it replaces."""
    unexpected = next((argument for argument in arguments if argument != "--json"), None)
    if unexpected is not None:
        _complain(console, "USAGE", f"Unexpected argument '{unexpected}'", "", ExitStatus.USAGE, "See kt --help.")
        return ExitStatus.USAGE
    row = {"version": __version__, "kafka_version": KAFKA_VERSION}
    console.print(f"kafkatools {__version__} (Apache Kafka {KAFKA_VERSION} tools)", row)
    return ExitStatus.OK


def _report_unknown(arguments: Sequence[str], console: Console) -> ExitStatus:
    name = arguments[0]
    message = f"kt has no {'option' if name.startswith('-') else 'command'} '{name}'"
    if name.partition("=")[0] in _GLOBALS:
        message, hint = f"Option {name.lstrip('-')} requires an argument", ""
    else:
        hint = _place_of_option(name, arguments[1:]) or _nearest(name)
    _complain(console, "USAGE", message, hint, ExitStatus.USAGE, "See kt --help.")
    return ExitStatus.USAGE


def _place_of_option(name: str, rest: Sequence[str]) -> str:
    """The hint for an option that was written before its command; empty for any other option."""
    chosen = next((argument for argument in rest if argument in COMMANDS or argument in ALIASES), None)
    option = name.partition("=")[0]
    if chosen is None or not any(option == each.name for each in all_options(load(chosen))):
        return ""
    return f"{option} belongs after the command: kt {chosen} {option} ..."


def _nearest(name: str) -> str:
    import difflib

    short = name.lower().removeprefix("kafka-").removesuffix(".sh")
    known = [*_GLOBALS, "--help", "--version"] if name.startswith("-") else [*COMMANDS, *ALIASES, "version", "help"]
    near = difflib.get_close_matches(short, known, n=1, cutoff=0.5)
    return f"Did you mean kt {near[0]}?" if near else ""


def _help_of_kt(width: int) -> str:
    """The options in front of a command, the commands in groups, and the environment variables."""
    import typer

    from kafkatools.options.environment import environment_help
    from kafkatools.options.usage import definitions

    about = "Apache Kafka's bin/ without the JVM. Run kt COMMAND --help for the options of a command."
    app = typer.Typer(add_completion=False, rich_markup_mode=None, help=about)
    app.callback()(_global_options_help())
    command = typer.main.get_command(app)
    context = command.make_context("kt", [], resilient_parsing=True, terminal_width=width)
    parts = [command.get_help(context)]
    column = max(map(len, COMMANDS)) + 4
    for heading, names in GROUPS.items():
        parts.append(definitions(heading, {name: load(name).summary for name in names}, width, column))
    return "\n\n".join([*parts, environment_help(width)])


def _global_options_help() -> Callable[..., None]:
    """The options in front of the command, as Typer shows them."""
    import typer

    def options(
        profile: str = typer.Option("", metavar="NAME", help=GLOBAL_OPTIONS["--profile NAME"], show_default=False),
        confirm: str = typer.Option(
            "", metavar="CLUSTER", help=GLOBAL_OPTIONS["--confirm CLUSTER"], show_default=False
        ),
        version: bool = typer.Option(False, "--version", help=GLOBAL_OPTIONS["--version"]),
    ) -> None:
        """Stands for `kt` itself; never called."""

    return options
