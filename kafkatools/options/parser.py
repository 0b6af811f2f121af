"""Parse command lines like Kafka's tools, which use joptsimple or argparse4j.

joptsimple (without abbreviations): `--opt value`, `--opt=value`, `-opt value`. An option with a value takes the next
argument, whatever it looks like; if the value is optional, only an argument that is no option. `--` ends the options;
repeating a single-valued option is an error. Arguments that joptsimple would ignore (operands that the command does not
take, a value for an option without one) are errors here. It has no subcommands; kt's are recognized as the first
argument. argparse4j: subcommands, unique prefixes of long options, `-t value`, `-tvalue`; the last of several values
wins. Both return `Args` and raise UsageError with Kafka's words.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence

from kafkatools.exit_status import UsageError
from kafkatools.java_numbers import java_int, java_long
from kafkatools.options import rules
from kafkatools.options.args import Args
from kafkatools.options.hints import did_you_mean, did_you_mean_subcommand
from kafkatools.options.table import ARGPARSE4J, Command, Option, all_options

_NEGATIVE = re.compile(r"-[0-9]+", re.ASCII)


def parse(command: Command, arguments: Sequence[str]) -> tuple[Command, Args]:
    """Parse the arguments; return the command or subcommand to run and its values. With --help or --version, required
    options and rules are not checked. Raises UsageError."""
    if command.style == ARGPARSE4J:
        from kafkatools.options.argparse4j import parse_argparse4j

        return parse_argparse4j(command, arguments)
    subcommand = command.subcommand(arguments[0]) if arguments else None
    if subcommand is not None:
        return parse(subcommand, arguments[1:])
    args = _parse_joptsimple(command, arguments)
    if not (args.help or args.version):
        check_rules(command, args)
    return command, args


def check_rules(command: Command, args: Args) -> None:
    """Raise UsageError for a missing required option, then for the first broken rule."""
    names = set(args.option_names())
    for option in command.options:
        if option.required and option.long not in names:
            raise UsageError(f'Missing required argument "[{option.long}]"', _example(command, names, option.long))
    for rule in command.rules:
        message = rule.violation(names)
        if message is not None:
            missing = rule.any_of if isinstance(rule, rules.Requirement) else ()
            examples = (_example(command, names, name) for name in missing)
            raise UsageError(message, next(filter(None, examples), ""))


def _example(command: Command, names: set[str], missing: str) -> str:
    fitting = [example for example in command.examples if f"--{missing} " in f"{example} "]
    full_matches = [example for example in fitting if all(f"--{name} " in f"{example} " for name in names)]
    first = names - {"bootstrap-server", "command-config", "json"}
    best = full_matches or [example for example in fitting if any(f"--{name} " in f"{example} " for name in first)]
    return f"For example: {best[0]}" if best else ""


def _parse_joptsimple(command: Command, arguments: Sequence[str]) -> Args:
    args = Args(command)
    if command.positional and arguments and not any(map(_looks_like_option, arguments)):
        arguments = _positional_as_options(command, arguments)
        args.is_positional = True
    table = {name: option for option in all_options(command) for name in _plain_names(option)}
    remaining = deque(arguments)
    while remaining:
        argument = remaining.popleft()
        if argument == "--":
            if not remaining:
                break
            raise _unexpected_argument(remaining[0], command, args)
        if not _looks_like_option(argument):
            if not args.has_room_for_operand:
                raise _unexpected_argument(argument, command, args, remaining)
            args.operands.append(argument)
            continue
        name, equals, text = argument.lstrip("-").partition("=")
        option = table.get(name)
        if option is None:
            raise UsageError(command.usage_prefix + f"{name} is not a recognized option", did_you_mean(command, name))
        _set_once(command, args, option, _value(command, option, text if equals else None, remaining))
    return args


def _positional_as_options(command: Command, values: Sequence[str]) -> list[str]:
    """Convert positional values to options. Raises UsageError for too few or many, as Kafka's EndToEndLatency."""
    required = {option.long for option in command.options if option.required}
    names = [name for name in command.positional if name in required or name == command.positional[0]]
    if not len(names) <= len(values) <= len(command.positional):
        counts = f"{len(names)} or {len(command.positional)}"
        optional_names = " ".join(command.positional[len(names) :])
        raise UsageError(
            f"Invalid number of arguments. Expected {counts} positional arguments, but got {len(values)}. "
            f"Usage: {' '.join(names)} [optional] {optional_names}"
        )
    return [word for name, value in zip(command.positional, values, strict=False) for word in (f"--{name}", value)]


def _plain_names(option: Option) -> list[str]:
    """The option's name and aliases without dashes."""
    return [option.long, *(alias.lstrip("-") for alias in option.aliases)]


def _looks_like_option(argument: str) -> bool:
    return argument.startswith("-") and argument != "-"


def _unexpected_argument(argument: str, command: Command, args: Args, behind: Iterable[str] = ()) -> UsageError:
    """The error for an argument that the command does not take. `behind`: the arguments after it, not parsed yet."""
    message = f"Unexpected argument '{argument}'"
    if command.subcommand(argument) is not None:
        message = f"The subcommand '{argument}' comes before all options"
        return UsageError(message, f"Write kt {command.name} {argument} [OPTION]...")
    if command.subcommands and not command.operand:
        message = f"kt {command.name} has no subcommand '{argument}'"
    options = [option.name for option in command.options if argument in option.choices]
    hint = f"Did you mean {options[0]} {argument}?" if options else did_you_mean_subcommand(command, argument)
    later = {word.lstrip("-").partition("=")[0] for word in behind if _looks_like_option(word)}
    missing = [
        option.name
        for option in command.options
        if option.required and not args.has_option(option.long) and later.isdisjoint(_plain_names(option))
    ]
    if not hint and len(missing) == 1:
        hint = f"Did you mean {missing[0]} {argument}?"
    return UsageError(message, hint)


def _value(command: Command, option: Option, attached_value: str | None, remaining: deque[str]) -> str | None:
    """Return the value of one occurrence of an option, taking it from `remaining` if not attached; None for an option
    without a value or an omitted optional one (joptsimple's detectOptionArgument). Raises UsageError for a missing
    value, and for one that the option does not take."""
    if not option.value:
        if attached_value is not None:
            raise UsageError(f"Option {option.long} takes no value, but '{attached_value}' was given")
        return None
    if attached_value is not None:
        return attached_value
    next_argument = remaining[0] if remaining else None
    if option.optional_value and (next_argument is None or not _may_be_value(option, next_argument)):
        return None
    if next_argument is None:
        raise UsageError(command.usage_prefix + f"Option {option.long} requires an argument")
    return remaining.popleft()


def _may_be_value(option: Option, next_argument: str) -> bool:
    """Return whether the next argument can be an option's optional value: it is no option, or a negative integer for a
    numeric option (OptionalArgumentOptionSpec)."""
    return not _looks_like_option(next_argument) or (
        option.type in (java_int, java_long) and _NEGATIVE.fullmatch(next_argument) is not None
    )


def _set_once(command: Command, args: Args, option: Option, text: str | None) -> None:
    if option.value and not option.repeatable and args.has_option(option.name):
        message = f"Found multiple arguments for option {option.long}, but you asked for only one"
        raise UsageError(command.error_prefix + message)
    try:
        args.note(option, text)
    except ValueError:
        raise UsageError(command.error_prefix + f"Cannot parse argument '{text}' of option {option.long}") from None
