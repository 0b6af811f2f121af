"""Run `kt` from a command line: find the command, parse its options, run it, and turn an exception into an error line
and an exit status.

Rules: a known command is loaded straight from the command table, so no other command is imported; the Typer application
exists only for the help of `kt` itself. The broad `except` of this module is the last one of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.commands import (
    ALIASES,
    COMMANDS,
    GROUPS,
    PluginCommand,
    has_kafka_script,
    load,
    load_plugin,
    plugin_commands,
)
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options.args import Args
from kafkatools.options.indirect_settings import indirect_settings
from kafkatools.options.parser import parse
from kafkatools.options.profiles import ensure_confirmed, profile_for, target_profile_for
from kafkatools.options.table import Command, all_options
from kafkatools.version import KAFKA_VERSION, __version__

if TYPE_CHECKING:
    import logging

    from kafkatools.console import Console

_HINTS = {
    "CONNECTION_FAILED": "Is the address right, and does a broker listen there? "
    "Without --bootstrap-server and profile kt uses the sandbox of this machine.",
    "SECURITY_DISABLED": "Brokers keep ACLs when authorizer.class.name is set. A sandbox with it: kt sandbox stop && "
    "kt sandbox start --set authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer "
    "--set super.users=User:ANONYMOUS",
    **{
        f"{name}_AUTHORIZATION_FAILED": f"This user lacks a right on the {thing}: an administrator sees the rights "
        "with kt acls --list and adds one with kt acls --add."
        for name, thing in (
            ("TOPIC", "topic"),
            ("GROUP", "group"),
            ("CLUSTER", "cluster"),
            ("TRANSACTIONAL_ID", "transactional id"),
        )
    },
    "NOT_KAFKA": "Is this the port of a broker's plaintext listener?",
}
"""Advice by the name of an error."""
_TRACE_HINT = "Set KT_DEBUG=1 to see where."


def main(arguments: Sequence[str], console: Console) -> ExitStatus:
    """Run `kt` with these arguments (without the program's name) and return the exit status. A closed stdout gives OK,
    Ctrl-C or SIGTERM INTERRUPTED, an OSError of stdout FAILED; none of them is raised."""
    console.command_line = arguments
    try:
        options, arguments = _global_options(arguments)
        name = arguments[0] if arguments else ""
        if name == "help" and len(arguments) > 1:
            if len(arguments) == 2 and console.is_terminal and _shows_manual_page(arguments[1]):
                return ExitStatus.OK
            name, arguments = arguments[1], [*arguments[1:], "--help"]
        if name in COMMANDS or name in ALIASES:
            status = run_command(load(name), arguments[1:], console, options)
        else:
            status = _run_plugin(name, arguments, console, options)
        console.flush()
        return status
    except BrokenPipeError:
        console.abandon_stdout()
        return ExitStatus.OK
    except KeyboardInterrupt:
        return _handle_interrupt(console)
    except OSError as error:
        console.abandon_stdout()
        console.error(f"kt: {describe(error)}")
        return ExitStatus.FAILED


def _shows_manual_page(name: str) -> bool:
    from kafkatools.manual import show

    return name in (*COMMANDS, *ALIASES) and show(ALIASES.get(name, name))


class Globals(NamedTuple):
    """The options before the command's name: --profile, and --confirm with the name of a protected cluster."""

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
    """Split off --profile and --confirm before the command's name: (options, remaining arguments). An option without
    its value stays in the arguments, so that the caller reports it."""
    values: dict[str, str] = {}
    while arguments:
        name, equals, value = arguments[0].partition("=")
        has_value = equals or (len(arguments) > 1 and not arguments[1].startswith("-"))
        if name not in _GLOBALS or not has_value:
            break
        values[_GLOBALS[name]] = value if equals else arguments[1]
        arguments = arguments[1 if equals else 2 :]
    return Globals(**values), arguments


def _run_plugin(name: str, arguments: Sequence[str], console: Console, options: Globals) -> ExitStatus:
    """Run the command of another distribution; without one with this name, what `_application` does."""
    from kafkatools.core.errors import PluginError

    try:
        command = None if name in ("version", "help") else load_plugin(name)
    except PluginError as error:
        console.is_json = "--json" in arguments
        _complain(console, error.name, str(error), "", ExitStatus.FAILED, "")
        if console.is_debug:
            _show_trace(error, console)
        return ExitStatus.FAILED
    if command is None:
        return _application(arguments, console)
    return run_command(command, arguments[1:], console, options)


def run_command(command: Command, arguments: Sequence[str], console: Console, options: Globals) -> ExitStatus:
    """Parse the arguments of one command, run it and return its exit status; --help and --version only print.
    Exceptions become an error line and a status, except BrokenPipeError and KeyboardInterrupt, which `main` handles."""
    console.is_json = "--json" in arguments
    subcommand = command.subcommand(arguments[0]) if arguments else None
    args: Args | None = None
    try:
        if not arguments and command.needs_arguments:
            console.error_lines(_help(command, None, console).rstrip("\n"))
            return ExitStatus.USAGE
        part, args = parse(command, arguments)
        console.is_json = args.json  # also if spelled -json or --js, and not if --json is the value of an option
        if args.help:
            console.write(_help(part, None if part.name == command.name else command, console).encode())
            return ExitStatus.OK
        if args.has_option("version"):
            console.print(KAFKA_VERSION)
            return ExitStatus.OK
        _quiet_logs(console)
        args.indirect = indirect_settings(console)
        args.profile = profile_for(args, options.profile, console.environ)
        args.target_profile = target_profile_for(args, console.environ)
        ensure_confirmed(console, command, args, options.confirm)
        if part.run is None:
            raise UsageError(f"kt {part.name} needs a subcommand")
        return part.run(console, args) if not command.distribution else _run_of_plugin(command, part.run, console, args)
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001 - the boundary of the program: any other exception becomes one line
        page = f"{command.name} {subcommand.name}" if subcommand else command.name
        return _report(command, page, error, console, args)


def _run_of_plugin(
    command: Command, run: Callable[[Console, Args], ExitStatus], console: Console, args: Args
) -> ExitStatus:
    """Run the command of a plugin. Raises CommandError with the plugin's name for an OSError, which does not name it,
    for SystemExit, and for a result that is no exit status: None would end the process with status 0."""
    try:
        status: object = run(console, args)
    except BrokenPipeError:
        raise
    except (OSError, SystemExit) as error:
        raise CommandError(_failure_of_plugin(command, error), hint=_TRACE_HINT, kind="INTERNAL") from error
    if isinstance(status, ExitStatus):
        return status
    returned = "None" if status is None else f"a value of type {type(status).__name__}"
    wrong_type = TypeError(f"run returned {returned}, not an ExitStatus")
    raise CommandError(_failure_of_plugin(command, wrong_type), hint=_TRACE_HINT, kind="INTERNAL")


def _failure_of_plugin(command: Command, error: BaseException) -> str:
    from kafkatools.commands import PLUGIN_GROUP
    from kafkatools.core.entry_points import find

    point = find(PLUGIN_GROUP, command.name) or command.distribution
    return f"{point} failed: {type(error).__name__}: {describe(error)}"


def _quiet_logs(console: Console) -> None:
    """Show log lines on stderr only with KT_DEBUG=1; warnings about security and settings always. Leaves the handlers
    of a program that runs kt in its own process."""
    import logging

    _show_warnings(console)
    logger = logging.getLogger("kafkatools")
    if any(type(handler).__module__ not in ("logging", __name__) for handler in logger.handlers):
        return  # a program that runs kt in its own process has installed handlers
    logger.handlers = [_log_lines(console) if console.is_debug else logging.NullHandler()]
    logger.setLevel(logging.DEBUG if console.is_debug else logging.NOTSET)


def _log_lines(console: Console) -> logging.Handler:
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
    """Print warnings about security and settings to stderr, each text once. With KT_DEBUG=1 they are ordinary log lines
    instead."""
    import logging

    printed_messages: set[str] = set()

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            message = record.getMessage()
            if message not in printed_messages:
                printed_messages.add(message)
                console.note(f"warning: {message}")

    for name in ("security", "settings"):
        logging.getLogger(f"kafkatools.{name}").handlers = [] if console.is_debug else [Lines()]


def _help(command: Command, outer: Command | None, console: Console) -> str:
    from kafkatools.options.usage import help_text

    is_own = not has_kafka_script((outer or command).name)
    return help_text(command, console.width, outer, is_own=is_own)


def describe(error: BaseException) -> str:
    """Describe an exception in one line: for an OSError the file and the system's message, else the first line of its
    text, or its class if that is empty."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = str(error)
    return text.splitlines()[0] if text else type(error).__name__


def _report(command: Command, page: str, error: Exception, console: Console, args: Args | None) -> ExitStatus:
    """Print the error line and one line of advice for an exception (with --json one object), and return the exit
    status. `page`: the command, with its subcommand, whose help a usage error names. `args`: None when the command line
    could not be parsed."""
    kind, message, hint, status = _judge(command, error, args)
    _complain(console, kind, message, hint, status, f"See kt {page} --help." if kind == "USAGE" else "")
    if console.is_debug:
        _show_trace(error, console)
    return status


def _show_trace(error: Exception, console: Console) -> None:
    """Print the stack trace of an exception. Messages in it may be foreign text, so their control characters are
    escaped."""
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
    """Print an error: with --json one object with the hint, else the message and a second line with the hint and the
    help page."""
    if console.is_json:
        console.error(message, kind, exit=int(status), **({"hint": hint} if hint else {}))
        return
    console.error(message)
    between = " " if hint.endswith((".", "?")) else "\n"  # a command to copy needs a line of its own
    advice = f"{hint}{between}{page}".strip()
    if advice:
        console.error(advice)


def _judge(command: Command, error: Exception, args: Args | None) -> tuple[str, str, str, ExitStatus]:
    """Classify an exception: (kind for JSON, message, hint, exit status)."""
    from kafkatools.core.errors import ConfigError, KafkaError

    if isinstance(error, UsageError):
        return "USAGE", str(error), error.hint, ExitStatus.USAGE
    if isinstance(error, CommandError):
        hint = error.hint or (_HINTS.get(error.kind, "") if error.kind.endswith("_AUTHORIZATION_FAILED") else "")
        return error.kind, command.error_prefix + str(error), hint, error.status
    if isinstance(error, ConfigError):
        return error.name, command.error_prefix + str(error), error.hint, ExitStatus.USAGE
    if isinstance(error, KafkaError):
        from kafkatools.options.connection import endpoint_hint

        hint = _HINTS.get(error.name) or endpoint_hint(args, error)
        return error.name, command.error_prefix + str(error), hint, ExitStatus.FAILED
    if isinstance(error, OSError):
        return "SYSTEM", command.error_prefix + describe(error), "", ExitStatus.FAILED
    not_utf8 = _not_utf8(error, args)
    if not_utf8:
        return "USAGE", command.error_prefix + not_utf8, "", ExitStatus.USAGE
    message = f"internal error: {type(error).__name__}: {describe(error)}"
    if command.distribution:
        message = _failure_of_plugin(command, error)
    return "INTERNAL", command.error_prefix + message, _TRACE_HINT, ExitStatus.FAILED


def _not_utf8(error: Exception, args: Args | None) -> str:
    """The error for a value of the command line with a byte that Python decoded by surrogateescape. Names the option,
    not its value, which may be a password. Empty for other errors, as for a file's name that is not UTF-8."""
    if args is None or not isinstance(error, UnicodeEncodeError):
        return ""
    character = error.object[error.start]
    if not "\udc80" <= character <= "\udcff":
        return ""
    option = args.option_with(character)
    if option is None and not any(character in operand for operand in args.operands):
        return ""
    subject = "An argument" if option is None else f"The value of --{option}"
    return f"{subject} is not UTF-8 text, as brokers need it: byte 0x{ord(character) - 0xDC00:x}"


def _handle_interrupt(console: Console) -> ExitStatus:
    try:
        console.flush()
    except OSError:
        console.abandon_stdout()
    return ExitStatus.INTERRUPTED


def _application(arguments: Sequence[str], console: Console) -> ExitStatus:
    """Handle a command line without a known command and return the exit status: print the version or the help, or
    report an unknown command or option. Without arguments the help is on stderr, status USAGE."""
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
    from kafkatools.core.kernels import KERNELS, compiled_kernels

    unexpected = next((argument for argument in arguments if argument != "--json"), None)
    if unexpected is not None:
        _complain(console, "USAGE", f"Unexpected argument '{unexpected}'", "", ExitStatus.USAGE, "See kt --help.")
        return ExitStatus.USAGE
    compiled = 0 if console.environ.get("KT_PURE_PYTHON") == "1" else len(compiled_kernels())
    row = {
        "version": __version__,
        "kafka_version": KAFKA_VERSION,
        "kernels": len(KERNELS),
        "compiled_kernels": compiled,
    }
    some = f"{compiled} of {len(KERNELS)} compiled"
    kernels = {0: "not compiled, slower", len(KERNELS): "compiled"}.get(compiled, some)
    console.print(f"kafkatools {__version__} (Apache Kafka {KAFKA_VERSION} tools; kernels: {kernels})", row)
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


def _place_of_option(name: str, arguments: Sequence[str]) -> str:
    """The hint for a command's option that was written before the command; empty for any other option."""
    command = next((argument for argument in arguments if argument in COMMANDS or argument in ALIASES), None)
    option = name.partition("=")[0]
    if command is None or not any(option == declared.name for declared in all_options(load(command))):
        return ""
    return f"{option} belongs after the command: kt {command} {option} ..."


def _nearest(name: str) -> str:
    """The hint for an unknown command or global option: a name much like it, else the commands with such a subcommand,
    for which all commands are imported, else the nearest name."""
    short = name.lower().removeprefix("kafka-").removesuffix(".sh")
    if name.startswith("-"):
        return _did_you_mean(_close_match(short, [*_GLOBALS, "--help", "--version"], 0.5))
    names = [*COMMANDS, *ALIASES, "version", "help"]
    match = _close_match(short, names, 0.8)
    if match:
        is_subcommand = match in COMMANDS and load(match).subcommand(short) is not None
        return _did_you_mean(f"{match} {short}" if is_subcommand else match)
    parents = [parent for parent in COMMANDS if load(parent).subcommand(short) is not None]
    if parents:
        return _did_you_mean(*(f"{parent} {short}" for parent in parents))
    names += [plugin.name for plugin in plugin_commands() if plugin.command is not None]
    return _did_you_mean(_close_match(short, names, 0.5))


def _close_match(name: str, names: Sequence[str], cutoff: float) -> str:
    import difflib

    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=cutoff)), "")


def _did_you_mean(*suggestions: str) -> str:
    return f"Did you mean {' or '.join(f'kt {suggestion}' for suggestion in suggestions)}?" if any(suggestions) else ""


def _help_of_kt(width: int) -> str:
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
    plugins = {plugin.name: _about_plugin(plugin) for plugin in plugin_commands()}
    if plugins:
        parts.append(definitions("Plugins", plugins, width, max(column, max(map(len, plugins)) + 4)))
    return "\n\n".join([*parts, environment_help(width)])


def _about_plugin(plugin: PluginCommand) -> str:
    return plugin.problem if plugin.command is None else f"{plugin.command.summary} ({plugin.distribution})"


def _global_options_help() -> Callable[..., None]:
    """A function whose signature makes Typer list the global options in the help of `kt`."""
    import typer

    def options(
        profile: str = typer.Option("", metavar="NAME", help=GLOBAL_OPTIONS["--profile NAME"], show_default=False),
        confirm: str = typer.Option(
            "", metavar="CLUSTER", help=GLOBAL_OPTIONS["--confirm CLUSTER"], show_default=False
        ),
        version: bool = typer.Option(False, "--version", help=GLOBAL_OPTIONS["--version"]),
    ) -> None:
        """The global options of `kt` as a Typer signature; never called."""

    return options
