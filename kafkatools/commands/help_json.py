"""kt help-json: print all commands and options as one JSON object, for programs that build on kt.

The output is built from the option tables, like help and completions. docs/json/help-json.md describes it.
"""

from __future__ import annotations

from kafkatools.commands import ALIASES, COMMANDS, load, load_plugin, plugin_commands
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import Args, Command, Option
from kafkatools.options.table import all_options
from kafkatools.version import KAFKA_VERSION, __version__


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt help-json: print all commands, or the named one. Raises UsageError for an unknown command."""
    name = args.operand
    if name is not None:
        command = load(name) if name in COMMANDS or name in ALIASES else load_plugin(name)
        if command is None:
            raise UsageError(f"kt has no command '{name}'")
        console.print_json(command_json(command, _aliases_of(command.name)))
        return ExitStatus.OK

    commands = [command_json(load(name), _aliases_of(name)) for name in COMMANDS]
    for plugin in plugin_commands():
        if plugin.command is None:
            console.error(plugin.problem)
        else:
            commands.append(command_json(plugin.command, []))
    tree = {"name": "kt", "version": __version__, "kafka_version": KAFKA_VERSION, "commands": commands}
    console.print_json(tree)
    return ExitStatus.OK


def _aliases_of(name: str) -> list[str]:
    return [alias for alias, stands_for in ALIASES.items() if stands_for == name]


def command_json(command: Command, aliases: list[str]) -> dict[str, object]:
    """Return the JSON object of a command with its options, in the order of its help, and its subcommands."""
    return {
        "name": command.name,
        "aliases": aliases,
        "summary": command.summary,
        "distribution": command.distribution or None,
        "style": command.style,
        "operand": command.operand or None,
        "options": [_option(option) for option in all_options(command)],
        "subcommands": [command_json(subcommand, []) for subcommand in command.subcommands],
        "examples": list(command.examples),
    }


def _option(option: Option) -> dict[str, object]:
    takes_value = "no" if not option.value else "optional" if option.optional_value else "required"
    return {
        "name": option.name,
        "aliases": list(option.aliases),
        "about": option.about,
        "value": option.value or None,
        "takes_value": takes_value,
        "type": _TYPES.get(getattr(option.type, "__name__", ""), "string") if option.value else None,
        "default": option.default if isinstance(option.default, str | int | float | bool) else None,
        "choices": list(option.choices),
        "required": option.required,
        "repeatable": option.repeatable,
        "replacement": option.replacement or None,
        "ours": option.ours,
    }


_TYPES = {
    "milliseconds": "long",
    "byte_count": "long",
    "java_int": "int",
    "java_long": "long",
    "java_short": "short",
    "int": "int",
    "java_double": "double",
}
"""JSON type names by the name of the parsing function. Any other value is a string that the command parses."""

COMMAND = Command(
    name="help-json",
    summary="Print the tree of commands and options as JSON.",
    run=run,
    operand="COMMAND",
    needs_arguments=False,
    examples=("kt help-json", "kt help-json topics"),
)
