"""Suggestions for misspelt options and subcommands."""

from __future__ import annotations

from collections.abc import Iterable

from kafkatools.options.table import Command, all_options


def did_you_mean(command: Command, name: str) -> str:
    """Return a hint that names the closest option, empty when none is close. For `profile` and `confirm`, the hint says
    that they belong before the command, and for a subcommand, that it has no dashes. `--from` of a command whose source
    is an argument gets its example."""
    import difflib

    if name in ("profile", "confirm"):
        return f"--{name} belongs before the command: kt --{name} NAME COMMAND ..."
    if command.subcommand(name) is not None:
        return f"Did you mean kt {command.name} {name}?"
    if name == "from" and command.operand == "SOURCE" and command.examples:
        return f"The source is an argument: {command.examples[0]}"
    names = [option.long for option in all_options(command)]
    starts = [option_name for option_name in names if len(name) >= 3 and option_name.startswith(name)]
    matches = starts or difflib.get_close_matches(name.lstrip("-"), names, n=1, cutoff=0.6)
    return f"Did you mean --{matches[0]}?" if matches else ""


def did_you_mean_name(name: str, names: Iterable[str]) -> str:
    """Return a hint with up to three names that continue `name` after a dot, else with the closest name; empty when
    none is close."""
    import difflib

    candidates = sorted(names)
    matches = [candidate for candidate in candidates if candidate.startswith(f"{name}.")][:3]
    matches = matches or difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    return f"Did you mean {' or '.join(matches)}?" if matches else ""


def topic_config_hint(names: Iterable[str]) -> str:
    """Return a hint for the first of these names that is close to a topic config without being one; else empty."""
    from kafkatools.core.config import TOPIC

    hints = (did_you_mean_name(name, TOPIC.settings) for name in names if name not in TOPIC.settings)
    return next(filter(None, hints), "")


def did_you_mean_subcommand(command: Command, name: str) -> str:
    """Return a hint that names the closest subcommand, else the option with exactly this name; empty when there is
    neither."""
    import difflib

    matches = difflib.get_close_matches(name, [subcommand.name for subcommand in command.subcommands], n=1)
    matches = matches or [f"--{option.long}" for option in command.options if option.long == name]
    return f"Did you mean {matches[0]}?" if matches else ""
