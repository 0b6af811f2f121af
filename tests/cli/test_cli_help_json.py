"""kt help-json: the tree of commands holds what the help shows."""

from __future__ import annotations

import json
from typing import Any

from support.kt import run_kt

from kafkatools.commands import ALIASES, COMMANDS
from kafkatools.exit_status import ExitStatus


def tree(*arguments: str) -> dict[str, Any]:
    ran = run_kt("help-json", *arguments)
    assert ran.status is ExitStatus.OK, ran.err
    read: dict[str, Any] = json.loads(ran.out)
    return read


def test_every_command_and_alias_is_in_the_tree() -> None:
    commands = tree()["commands"]
    assert [command["name"] for command in commands] == list(COMMANDS)
    assert {alias: each["name"] for each in commands for alias in each["aliases"]} == ALIASES


def test_every_option_of_the_help_is_in_the_tree_and_the_other_way_round() -> None:
    def check(command: dict[str, Any], words: list[str]) -> None:
        shown = run_kt(*words, "--help").out
        for option in command["options"]:
            assert option["name"] in shown, (words, option["name"])
        for one in command["subcommands"]:
            check(one, [*words, one["name"]])

    for command in tree()["commands"]:
        check(command, [command["name"]])


def test_one_command_tells_its_options_as_kafka_has_them() -> None:
    options = {option["name"]: option for option in tree("topics")["options"]}
    partitions = options["--partitions"]
    assert (partitions["takes_value"], partitions["type"], partitions["repeatable"]) == ("required", "int", False)
    assert options["--topic"]["type"] == "string"
    assert options["--list"]["takes_value"] == "no"
    assert options["--json"]["ours"]
    assert tree("dump-log-segments") == tree("dump-log")
    modes = {one["name"]: one for one in tree("features")["subcommands"]}
    assert any(option["repeatable"] for option in modes["upgrade"]["options"])


def test_an_unknown_command_is_refused() -> None:
    ran = run_kt("help-json", "topic")
    assert ran.status is ExitStatus.USAGE
    assert ran.err.startswith("kt has no command 'topic'\n")
