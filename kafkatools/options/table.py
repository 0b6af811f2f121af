"""The tables a command is described with: its options, its rules on combinations, its words.

Help, completions and parsing are all derived from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from kafkatools.exit_status import ExitStatus
from kafkatools.options.rules import Rule

ALWAYS = ("",)
JOPTSIMPLE = "joptsimple"
ARGPARSE4J = "argparse4j"

_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def _java_number(text: str, bits: int) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    number = int(text)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(text)
    return number


def java_int(text: str) -> int:
    """A number as Java's Integer.valueOf reads it: a sign, digits, 32 bits; ValueError otherwise."""
    return _java_number(text, 32)


def java_long(text: str) -> int:
    """A number as Java's Long.valueOf reads it: 64 bits; ValueError otherwise."""
    return _java_number(text, 64)


def positive_seconds(text: str) -> float:
    """A number of seconds greater than 0, up to 30 years; ValueError otherwise."""
    seconds = float(text)
    if not 0 < seconds < 1e9:
        raise ValueError(text)
    return seconds


class Option(NamedTuple):
    """One option. `value` is the placeholder of its value in the help; empty for an option without a value.

    `optional_value`: the value may be left out, then it is `implied`. `aliases`: other spellings, dashes included.
    `replacement`: the option is deprecated, and this is what to use instead. `choices` are for help and completion;
    commands check them where Kafka does. `ours`: Kafka's tool does not have it. `several`: one occurrence takes every
    argument up to the next option (argparse4j's nargs "+"); such an option is repeatable. `heading`: the section of the
    help that lists it; empty for the first one.
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
        """The long name without its dashes, as messages and rules use it: `bootstrap-server`."""
        return self.name.lstrip("-")

    @property
    def key(self) -> str:
        """The attribute of Args: `bootstrap_server`."""
        return attribute_name(self.name)


def under(heading: str, *options: Option) -> tuple[Option, ...]:
    """Options that the help of a command with many lists in a section of their own."""
    return tuple(option._replace(heading=heading) for option in options)


def attribute_name(name: str) -> str:
    """`--producer.config` -> `producer_config`."""
    return name.lstrip("-").replace("-", "_").replace(".", "_")


class Command(NamedTuple):
    """A command of `kt`, or one of its subcommands.

    `options` leaves out --help, --version and --json: every command has them (--version only in joptsimple style).
    `run(console, args)` does the work and returns the exit status. `error_prefix` stands in front of every message of
    a failure, `usage_prefix` in front of complaints about the options themselves; both are Kafka's. `program` is the
    name of Kafka's script (argparse4j puts it into messages). `needs_arguments`: without any argument the help is
    shown and the exit status is 2, as Kafka's tools do. `missing_bootstrap`: what Kafka's tool says without
    --bootstrap-server, used when the sandbox is turned off. `operand`: placeholder of the one argument that is no
    option, given as `args.operand`; empty for a command without one. Several words stand for so many arguments, and
    "..." at the end for any number of them: `args.operands`. `positional`: the options that a command line
    without any option gives the values of, in this order; `args.is_positional` tells of it (joptsimple style).
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

    def subcommand(self, name: str) -> Command | None:
        """The subcommand of that name."""
        return next((one for one in self.subcommands if one.name == name), None)


HELP = Option("--help", "Show this text and exit.", aliases=("-h",))
VERSION = Option("--version", "Show the version of the Apache Kafka tools that kt follows, and exit.")
JSON = Option("--json", "Write JSON, one object per line, errors too.", ours=True)


def all_options(command: Command) -> tuple[Option, ...]:
    """The options of a command with those that every command has; its own come first and win."""
    taken = {option.name for option in command.options}
    common = (JSON, HELP, VERSION) if command.style == JOPTSIMPLE else (JSON, HELP)
    return command.options + tuple(option for option in common if option.name not in taken)


def outer_options(command: Command) -> tuple[Option, ...]:
    """Options of a command that may also stand behind its subcommands (argparse4j style): those with a value."""
    return tuple(option for option in command.options if option.value) if command.style == ARGPARSE4J else ()
