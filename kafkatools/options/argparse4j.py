"""Parse command lines like argparse4j: subcommands, unique prefixes, the last value wins, and argparse4j's messages.

Unlike argparse4j, options before a subcommand may also follow it, and errors lack the synopsis. The wording is that of
argparse4j's MessageLocalization and ArgumentParserImpl, as Kafka's storage, features, cluster, metadata-quorum,
transactions and perf tools show it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kafkatools.exit_status import UsageError
from kafkatools.options.args import Args
from kafkatools.options.hints import did_you_mean, did_you_mean_subcommand
from kafkatools.options.table import Command, Option, all_options, outer_options

_NEGATIVE = re.compile(r"-[0-9]+(?:\.[0-9]+)?", re.ASCII)


def parse_argparse4j(command: Command, arguments: Sequence[str], outer: Args | None = None) -> tuple[Command, Args]:
    """Parse a command's options and its subcommand; return the chosen command and its values. --help and --version end
    the parsing, without further checks. `outer`: the values before this subcommand; options with a value may also
    follow it. Raises UsageError in argparse4j's words."""
    args = Args(command)
    if outer is not None:
        args.stand_behind(outer)
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if argument == "--" or argument == "-" or not argument.startswith("-"):
            if not command.subcommands:
                if not args.has_room_for_operand:
                    raise _error(command, f"unrecognized arguments: '{argument}'")
                args.operands.append(argument)
                position += 1
                continue
            return _parse_subcommand(command, args, argument, arguments[position + 1 :])
        position = _take_option(args, outer, arguments, position)
        if args.help or args.has_option("version"):
            return command, args
    if command.subcommands:
        choices = ", ".join(choice.name for choice in command.subcommands)
        raise _error(command, "too few arguments", f"Write a subcommand: {choices}.")
    _check(command, args)
    return command, args


def _parse_subcommand(command: Command, outer: Args, name: str, arguments: Sequence[str]) -> tuple[Command, Args]:
    subcommand = command.subcommand(name) or _subcommand_of_prefix(command, name)
    if subcommand is None:
        choices = ", ".join(f"'{choice.name}'" for choice in command.subcommands)
        message = f"invalid choice: '{name}' (choose from {choices})"
        raise _error(command, message, did_you_mean_subcommand(command, name))
    return parse_argparse4j(
        subcommand._replace(program=command.program, usage_prefix=command.usage_prefix), arguments, outer
    )


def _subcommand_of_prefix(command: Command, prefix: str) -> Command | None:
    """Return the one subcommand of a tool of Kafka's that begins with `prefix`, else None. Raises UsageError for an
    ambiguous prefix."""
    if not command.program.startswith("kafka-"):
        return None
    matches = [subcommand for subcommand in command.subcommands if subcommand.name.startswith(prefix)]
    if len(matches) > 1:
        names = ", ".join(subcommand.name for subcommand in matches)
        raise _error(command, f"ambiguous command: {prefix} could match {names}")
    return matches[0] if matches else None


def _error(command: Command, message: str, hint: str = "") -> UsageError:
    if command.usage_prefix:  # kafka-features.sh has its own words for parser errors
        return UsageError(f"{command.usage_prefix}{message}. Type --help for help.", hint)
    return UsageError(f"{command.program or 'kt ' + command.name}: error: {message}", hint)


def spellings(option: Option) -> str:
    """Return all spellings of an option as argparse4j names an argument: `--cluster-id/-t`."""
    return "/".join((option.name, *option.aliases))


def _take_option(args: Args, outer: Args | None, arguments: Sequence[str], position: int) -> int:
    argument = arguments[position]
    owner = args
    option, value = _option_of(args.command, argument)
    if option is None and outer is not None:
        owner = outer
        option, value = _option_of(outer.command, argument)
        option = option if option in outer_options(outer.command) else None
    command = owner.command
    if option is None:
        name = argument.partition("=")[0].lstrip("-")
        hint = did_you_mean(args.command, name)
        if not hint and outer is not None:
            hint = did_you_mean(outer.command._replace(options=outer_options(outer.command)), name)
        raise _error(args.command, f"unrecognized arguments: '{argument}'", hint)
    if not option.value:
        if value is not None:
            raise _error(command, f"argument {spellings(option)}: ignored explicit argument '{value}'")
        owner.note(option, None)
        return position + 1
    position += 1
    if value is None:
        if position >= len(arguments) or _is_option_like(arguments[position]):
            raise _error(command, f"argument {spellings(option)}: expected one argument")
        value = arguments[position]
        position += 1
    _note(command, owner, option, value)
    while option.several and position < len(arguments) and not _is_option_like(arguments[position]):
        _note(command, owner, option, arguments[position])
        position += 1
    return position


def _option_of(command: Command, argument: str) -> tuple[Option | None, str | None]:
    """Return the option that an argument spells, and its attached value (`--name=value`, `-nvalue`); None for what is
    missing. Raises UsageError for an ambiguous prefix."""
    name, equals, value = argument.partition("=")
    option = _find(command, name)
    if option is None and not argument.startswith("--"):
        option, value = _find(command, argument[:2]), argument[2:]
        equals = value
    return option, value if equals else None


def _note(command: Command, args: Args, option: Option, text: str) -> None:
    try:
        args.note(option, text)
    except ValueError:
        raise _error(command, f"argument {spellings(option)}: could not convert '{text}' to a number") from None


def _is_option_like(argument: str) -> bool:
    """Return whether an argument starts with a dash and is not a negative number; True for `-` alone."""
    return argument.startswith("-") and not _NEGATIVE.fullmatch(argument)


def _find(command: Command, name: str) -> Option | None:
    """Return the option with this name or alias, else the one long option that begins with it; None if there is none.
    Raises UsageError for an ambiguous prefix."""
    options = all_options(command)
    for option in options:
        if name == option.name or name in option.aliases:
            return option
    if not name.startswith("--"):
        return None
    matches = [option for option in options if option.name.startswith(name)]
    if len(matches) > 1:
        names = ", ".join(option.name for option in matches)
        raise _error(command, f"ambiguous option: {name} could match {names}")
    return matches[0] if matches else None


def _check(command: Command, args: Args) -> None:
    """Raise UsageError for a missing required option or a broken rule."""
    names = list(dict.fromkeys(args.option_names()))
    for option in command.options:
        if option.required and option.long not in names:
            raise _error(command, f"argument {spellings(option)} is required")
    for rule in command.rules:
        message = rule.violation(names)
        if message is not None:
            raise _error(command, message)
