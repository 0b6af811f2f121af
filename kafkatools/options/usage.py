"""Help texts, made from the tables. Text only; the caller writes it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from kafkatools.options.table import ARGPARSE4J, Command, Option, all_options, outer_options

_INDENT = 34


def synopsis(command: Command, parent: str = "kt") -> str:
    """One line: `usage: kt topics [OPTION]...`."""
    word = "SUBCOMMAND" if command.style == ARGPARSE4J else "[SUBCOMMAND]"
    tail = f" {word}" if command.subcommands else ""
    required = "".join(f" {option.name} {option.value}".rstrip() for option in command.options if option.required)
    operand = f" {command.operand}" if command.operand else ""
    return f"usage: {parent} {command.name}{tail}{required} [OPTION]...{operand}"


def help_text(command: Command, width: int, outer: Command | None = None) -> str:
    """The whole help of a command, or of a subcommand of `outer`, wrapped to the width."""
    parent = "kt" if outer is None else f"kt {outer.name}"
    parts = [synopsis(command, parent), "", *_wrap(command.summary, width, "")]
    if command.subcommands:
        parts += ["", "subcommands:"]
        for one in command.subcommands:
            parts += _entry(one.name, one.summary, width)
    old = [option for option in command.options if option.replacement]
    parts += _sections(command, width)
    shared = outer_options(outer) if outer is not None else ()
    if outer is not None and shared:
        parts += ["", f"options of {parent}, here or in front of {command.name}:"]
        for option in shared:
            parts += _entry(_spelling(option, outer), _about(option), width)
    if old:
        parts += ["", "deprecated options:"]
        for option in old:
            parts += _entry(_spelling(option, command), f"{option.about} Use {option.replacement} instead.", width)
    if command.examples:
        parts += ["", "examples:", *(f"  {example}" for example in command.examples)]
    return "\n".join(parts) + "\n"


def _sections(command: Command, width: int) -> list[str]:
    """The options in the order of the table, below the headings they name."""
    options = [option for option in all_options(command) if not option.replacement]
    headings = list(dict.fromkeys(option.heading for option in options))
    lines = []
    for heading in headings:
        lines += ["", f"{heading or ('options' if len(headings) == 1 else 'other options')}:"]
        for option in options:
            if option.heading == heading:
                lines += _entry(_spelling(option, command), _about(option), width)
    return lines


def definitions(heading: str, entries: Mapping[str, str], width: int, column: int) -> str:
    """A heading, and below it names with what they are, wrapped to the width. The texts begin at `column`."""
    lines = [f"{heading}:"]
    for name, about in entries.items():
        start = f"  {name}".ljust(column)
        lines += textwrap.wrap(
            about, max(width, 2 * column), initial_indent=start, subsequent_indent=" " * column, break_on_hyphens=False
        )
    return "\n".join(lines)


def _spelling(option: Option, command: Command) -> str:
    short = "".join(f"{alias}, " for alias in option.aliases) if command.style == ARGPARSE4J or option.aliases else ""
    if not option.value:
        return short + option.name
    return short + option.name + (f" [{option.value}]" if option.optional_value else f" {option.value}")


def _about(option: Option) -> str:
    notes = []
    if option.required:
        notes.append("required")
    if option.repeatable:
        notes.append("can be repeated")
    if option.choices:
        notes.append("one of: " + ", ".join(option.choices))
    if option.default is not None:
        notes.append(f"default: {option.default}")
    if option.ours:
        notes.append("not in Kafka's tool")
    return option.about + (f" ({'; '.join(notes)})" if notes else "")


def _entry(left: str, about: str, width: int) -> list[str]:
    lines = _wrap(about, width, " " * _INDENT)
    start = f"  {left}"
    if len(start) + 2 > _INDENT:
        return [start, *lines]
    return [start.ljust(_INDENT) + lines[0][_INDENT:], *lines[1:]]


def _wrap(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(text, max(width, _INDENT + 20), initial_indent=indent, subsequent_indent=indent) or [indent]
