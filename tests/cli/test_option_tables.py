"""Every option of Kafka's tools, as recorded, is an option of kt with the same arity and requirement."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from kafkatools.commands import COMMANDS, load
from kafkatools.exit_status import UsageError
from kafkatools.options.parser import parse
from kafkatools.options.table import Command, Option, all_options

_DIRECTORY = pathlib.Path(__file__).parent.parent / "golden" / "cli" / "options"
_TOOLS = sorted(path.stem for path in _DIRECTORY.glob("*.json"))
_SANDBOX = "--bootstrap-server"
"""Kafka's tools require it; here the sandbox stands in (docs/differences.md)."""
_VALUE_NEEDED = {("reassign-partitions", "--bootstrap-server"), ("reassign-partitions", "--bootstrap-controller")}
"""Kafka's tool takes them without a value and then complains that they are missing (docs/differences.md)."""
_NOT_PARSED = ("recognized", "unrecognized", "requires an argument", "takes no")
_NUMBERS = {"Integer": "1", "Long": "1", "Short": "1", "Double": "1.5"}


def recorded(tool: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((_DIRECTORY / f"{tool}.json").read_text())
    return entries


def owner(tool: str, entry: dict[str, Any]) -> Command:
    """The command, or the subcommand that the option belongs to."""
    command = load(tool)
    if entry.get("command") is None:
        return command
    found = command.subcommand(entry["command"])
    assert found is not None, f"{tool} has no subcommand {entry['command']}"
    return found


def find(command: Command, name: str) -> Option | None:
    return next((one for one in all_options(command) if name in (one.name, *one.aliases)), None)


def arity(option: Option) -> str:
    return "no" if not option.value else "optional" if option.optional_value else "required"


def is_required(command: Command, option: Option) -> bool:
    """By the table, or by a rule that complains about it when nothing is given."""
    return option.required or any(option.long in (rule.violation(frozenset()) or "") for rule in command.rules)


@pytest.mark.parametrize("tool", _TOOLS)
def test_every_recorded_option_is_there_with_its_arity(tool: str) -> None:
    assert tool in COMMANDS
    wrong = []
    for entry in recorded(tool):
        command = owner(tool, entry)
        for name in entry["names"]:
            option = find(command, name)
            if option is None:
                wrong.append(f"{entry.get('command') or tool} {name}: missing")
            elif arity(option) != entry["takes_value"] and (tool, name) not in _VALUE_NEEDED:
                wrong.append(f"{entry.get('command') or tool} {name}: {arity(option)}, not {entry['takes_value']}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("tool", _TOOLS)
def test_every_recorded_option_is_parsed(tool: str) -> None:
    wrong = []
    for entry in recorded(tool):
        value = (entry["allowed_values"] or [_NUMBERS.get(entry["type"], "a=b")])[0]
        for name in entry["names"]:
            words = [name] if entry["takes_value"] == "no" else [name, str(value)]
            command = [entry["command"]] if entry.get("command") else []
            try:
                parse(load(tool), [*command, *words])
            except UsageError as error:
                if any(
                    text in str(error) for text in ("recognized", "unrecognized", "requires an argument", "takes no")
                ):
                    wrong.append(f"{' '.join(command)} {name}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("tool", _TOOLS)
def test_requirements_and_repetition_are_the_recorded_ones(tool: str) -> None:
    wrong = []
    for entry in recorded(tool):
        command = owner(tool, entry)
        option = find(command, entry["names"][0])
        assert option is not None
        if entry["required"] and not is_required(command, option) and option.name != _SANDBOX:
            wrong.append(f"{option.name}: required by {tool}")
        if option.required and not entry["required"]:
            wrong.append(f"{option.name}: not required by {tool}")
        if entry["takes_value"] != "no" and option.repeatable != entry["repeatable"]:
            wrong.append(f"{option.name}: repeatable {option.repeatable}, recorded {entry['repeatable']}")
        if bool(option.replacement) != bool(entry["deprecated"]):
            wrong.append(f"{option.name}: deprecated {entry['deprecated']}")
    assert not wrong, "\n".join(wrong)
