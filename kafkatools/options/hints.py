"""Suggestions for misspelt options and subcommands."""

from __future__ import annotations

from kafkatools.options.table import Command, all_options


def did_you_mean(command: Command, name: str) -> str:
    """Return a hint that names the closest option, empty when none is close. For `profile` and `confirm`, the hint says
    that they belong before the command."""
    import difflib

    if name in ("profile", "confirm"):
        return f"--{name} belongs before the command: kt --{name} NAME COMMAND ..."
    names = [option.long for option in all_options(command)]
    starts = [one for one in names if len(name) >= 3 and one.startswith(name)]
    near = starts or difflib.get_close_matches(name.lstrip("-"), names, n=1, cutoff=0.6)
    return f"Did you mean --{near[0]}?" if near else ""


def did_you_mean_subcommand(command: Command, name: str) -> str:
    """Return a hint that names the closest subcommand, else the option with exactly this name; empty when there is
    neither."""
    import difflib

    near = difflib.get_close_matches(name, [one.name for one in command.subcommands], n=1)
    near = near or [f"--{option.long}" for option in command.options if option.long == name]
    return f"Did you mean {near[0]}?" if near else ""
