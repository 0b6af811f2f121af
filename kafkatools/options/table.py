"""The tables that describe commands and options, from which parsing, help and completions are derived."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kafkatools.exit_status import ExitStatus
from kafkatools.options.rules import Rule

ALWAYS = ("",)
JOPTSIMPLE = "joptsimple"
ARGPARSE4J = "argparse4j"


class Option(NamedTuple):
    """One command-line option. `value` is the placeholder in the help, empty for an option without a value.

    `optional_value`: the value may be omitted and is `implied` then. `aliases`: other spellings with their dashes.
    `replacement`: the option to use instead of this deprecated one. `choices` are for help and completion; commands
    check them where Kafka does. `ours`: Kafka's tool lacks this option. `several`: one occurrence takes all arguments
    up to the next option (argparse4j's nargs "+"); needs `repeatable`. `heading`: its section of the help, empty for
    the first one.
    """

    name: str
    about: str
    value: str = ""
    type: Callable[[str], object] = str
    optional_value: bool = False
    implied: object = None
    repeatable: bool = False
    required: bool = False
    default: object = None
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    replacement: str = ""
    ours: bool = False
    several: bool = False
    heading: str = ""

    @property
    def long(self) -> str:
        """The long name without dashes, as in messages and rules: `bootstrap-server`."""
        return self.name.lstrip("-")

    @property
    def key(self) -> str:
        """The name of the option's attribute in Args: `bootstrap_server`."""
        return attribute_name(self.name)


def under(heading: str, *options: Option) -> tuple[Option, ...]:
    """Return the options with this heading, so that the help lists them in a section of their own."""
    return tuple(option._replace(heading=heading) for option in options)


def attribute_name(name: str) -> str:
    """Convert an option name to an attribute name: `--producer.config` becomes `producer_config`."""
    return name.lstrip("-").replace("-", "_").replace(".", "_")


class Command(NamedTuple):
    """A command or subcommand of `kt`.

    `options` excludes --help, --version and --json, which every command has (--version only in joptsimple style).
    `run(console, args)` performs the command and returns the exit status. `error_prefix` precedes messages of errors in
    `run` and of invalid or repeated values. `usage_prefix` precedes those about unknown options and missing values, as
    in Kafka's tool. `program` is the name of Kafka's script, which argparse4j puts into messages. `needs_arguments`:
    without arguments the help is shown with exit status 2, as in Kafka's tools. `missing_bootstrap`: the message of
    Kafka's tool for a missing --bootstrap-server, used when the sandbox is off.

    `operand`: the placeholder of the operand (`args.operand`), empty for none. Several words mean several operands and
    a final "..." any number (`args.operands`). `positional`: the options whose values a command line without options
    gives, in this order, setting `args.is_positional` (joptsimple style). `destructive`: the options and subcommands
    that need confirmation on a protected cluster; ALWAYS for the whole command. `harmless`: the options with which
    nothing is changed. `distribution`: the name and version of the plugin that defines the command, else empty.
    """

    name: str
    summary: str
    options: tuple[Option, ...] = ()
    run: Callable[[Any, Any], ExitStatus] | None = None
    style: str = JOPTSIMPLE
    subcommands: tuple[Command, ...] = ()
    rules: tuple[Rule, ...] = ()
    error_prefix: str = ""
    usage_prefix: str = ""
    program: str = ""
    needs_arguments: bool = True
    missing_bootstrap: str = 'Missing required argument "[bootstrap-server]"'
    examples: tuple[str, ...] = ()
    operand: str = ""
    positional: tuple[str, ...] = ()
    destructive: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ("dry-run",)
    distribution: str = ""

    def subcommand(self, name: str) -> Command | None:
        """Return the subcommand with this name, None if there is none."""
        return next((subcommand for subcommand in self.subcommands if subcommand.name == name), None)


HELP = Option("--help", "Show this text and exit.", aliases=("-h",))
VERSION = Option("--version", "Show the version of the Apache Kafka tools that kt follows, and exit.")
JSON = Option("--json", "Write JSON, one object per line, errors too.", ours=True)


def all_options(command: Command) -> tuple[Option, ...]:
    """Return the command's options and the common ones (--json, --help, --version) that it does not define itself."""
    names = {option.name for option in command.options}
    common = (JSON, HELP, VERSION) if command.style == JOPTSIMPLE else (JSON, HELP)
    return command.options + tuple(option for option in common if option.name not in names)


def outer_options(command: Command) -> tuple[Option, ...]:
    """Return the options that may also follow a subcommand: those with a value, in argparse4j style."""
    return tuple(option for option in command.options if option.value) if command.style == ARGPARSE4J else ()
