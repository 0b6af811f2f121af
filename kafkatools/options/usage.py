"""Help texts of commands, generated from their option tables."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from kafkatools.options.table import ARGPARSE4J, Command, Option, all_options, outer_options

_INDENT = 34


def synopsis(command: Command, parent: str = "kt") -> str:
    """Return the usage line, such as `usage: kt topics [OPTION]...`."""
    word = "SUBCOMMAND" if command.style == ARGPARSE4J else "[SUBCOMMAND]"
    tail = f" {word}" if command.subcommands else ""
    required = "".join(f" {option.name} {option.value}".rstrip() for option in command.options if option.required)
    operand = f" {command.operand}" if command.operand else ""
    return f"usage: {parent} {command.name}{tail}{required} [OPTION]...{operand}"


def help_text(command: Command, width: int, outer: Command | None = None, *, is_own: bool = False) -> str:
    """Return the help of a command, or of a subcommand of `outer`, wrapped to `width` columns. `is_own`: Kafka has no
    such tool."""
    parent = "kt" if outer is None else f"kt {outer.name}"
    parts = [synopsis(command, parent), "", *_wrap(command.summary, width, "")]
    if command.subcommands:
        parts += ["", "subcommands:"]
        for subcommand in command.subcommands:
            parts += _entry(subcommand.name, subcommand.summary, width)
    for heading, options in option_sections(command).items():
        parts += ["", f"{heading}:"]
        for option in options:
            parts += _entry(spelling(option, command), option_text(option, command, is_own=is_own), width)
    shared = outer_options(outer) if outer is not None else ()
    if outer is not None and shared:
        parts += ["", f"options of {parent}, here or in front of {command.name}:"]
        for option in shared:
            parts += _entry(spelling(option, outer), option_text(option, outer, is_own=is_own), width)
    old = deprecated_options(command)
    if old:
        parts += ["", "deprecated options:"]
        for option, text in old.items():
            parts += _entry(spelling(option, command), text, width)
    if command.examples:
        parts += ["", "examples:", *(f"  {example}" for example in command.examples)]
    return "\n".join(parts) + "\n"


def option_sections(command: Command) -> dict[str, list[Option]]:
    """Return the options below each heading of the help in table order, without deprecated ones; those without a
    heading come last."""
    sections: dict[str, list[Option]] = {}
    for option in all_options(command):
        if not option.replacement:
            sections.setdefault(option.heading, []).append(option)
    default_heading = "options" if len(sections) == 1 else "other options"
    sections[""] = sections.pop("")
    return {heading or default_heading: options for heading, options in sections.items()}


def deprecated_options(command: Command) -> dict[Option, str]:
    """Return the deprecated options of a command with their help texts, which name the replacements."""
    old = [option for option in command.options if option.replacement]
    return {option: f"{option.about} Use {option.replacement} instead." for option in old}


def definitions(heading: str, entries: Mapping[str, str], width: int, column: int) -> str:
    """Return a heading and below it names with descriptions, which start at `column` and wrap at `width` (at least
    twice `column`)."""
    lines = [f"{heading}:"]
    for name, about in entries.items():
        start = f"  {name}".ljust(column)
        lines += textwrap.wrap(
            about, max(width, 2 * column), initial_indent=start, subsequent_indent=" " * column, break_on_hyphens=False
        )
    return "\n".join(lines)


def spelling(option: Option, command: Command) -> str:
    """Return an option as it is typed, with aliases and value placeholder."""
    short = "".join(f"{alias}, " for alias in option.aliases) if command.style == ARGPARSE4J or option.aliases else ""
    if not option.value:
        return short + option.name
    return short + option.name + (f" [{option.value}]" if option.optional_value else f" {option.value}")


def option_text(option: Option, command: Command, *, is_own: bool = False) -> str:
    """Return an option's help text with notes in brackets: required, repeatable, choices, default, and whether Kafka's
    tool lacks it, unless Kafka has no such tool (`is_own`) or subcommand."""
    notes = []
    if option.required:
        notes.append("required")
    if option.repeatable:
        notes.append("can be repeated")
    if option.choices:
        notes.append("one of: " + ", ".join(option.choices))
    if option.default is not None:
        notes.append(f"default: {option.default}")
    if option.ours and not is_own and not all(option.ours for option in command.options):
        notes.append("not in Kafka's tool")
    return option.about + (f" ({'; '.join(notes)})" if notes else "")


def _entry(term: str, about: str, width: int) -> list[str]:
    lines = _wrap(about, width, " " * _INDENT)
    start = f"  {term}"
    if len(start) + 2 > _INDENT:
        return [start, *lines]
    return [start.ljust(_INDENT) + lines[0][_INDENT:], *lines[1:]]


def _wrap(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(text, max(width, _INDENT + 20), initial_indent=indent, subsequent_indent=indent) or [indent]
