"""Parsing as argparse4j does it: the behaviour recorded for kafka-storage.sh and kafka-cluster.sh."""

from __future__ import annotations

import pytest

from kafkatools.exit_status import UsageError
from kafkatools.options import ARGPARSE4J, Command, Option, java_int, parse
from kafkatools.options.usage import help_text

COMMAND = Command(
    "storage",
    "Sample.",
    style=ARGPARSE4J,
    program="kafka-storage",
    subcommands=(
        Command(
            "format",
            "Format.",
            (
                Option("--config", "File.", value="FILE", aliases=("-c",), required=True),
                Option("--cluster-id", "Id.", value="ID", aliases=("-t",), required=True),
                Option("--clean", "Flag.", aliases=("-C",)),
                Option("--count", "Number.", value="N", type=java_int),
                Option("--feature", "Feature.", value="F", aliases=("-f",), repeatable=True),
            ),
            style=ARGPARSE4J,
        ),
        Command("info", "Info.", style=ARGPARSE4J),
    ),
)


def _message(*arguments: str) -> str:
    with pytest.raises(UsageError) as raised:
        parse(COMMAND, arguments)
    return str(raised.value)


def test_short_attached_and_equals_forms() -> None:
    command, args = parse(COMMAND, ["format", "-c", "f", "-tX", "--count=4", "-f", "a=1", "--feature", "b=2", "-C"])
    assert command.name == "format"
    assert (args.config, args.cluster_id, args.count, args.feature, args.clean) == ("f", "X", 4, ["a=1", "b=2"], True)


def test_unique_prefixes_are_taken_and_the_last_value_wins() -> None:
    _, args = parse(COMMAND, ["format", "--conf", "a", "--clu", "x", "--config", "b"])  # storage/031, cluster/023
    assert (args.config, args.cluster_id) == ("b", "x")


def test_unique_prefixes_of_the_subcommands_of_kafka_are_taken() -> None:
    assert parse(COMMAND, ["inf"])[0].name == "info"
    with_two = COMMAND._replace(subcommands=(*COMMAND.subcommands, Command("inform", "More.", style=ARGPARSE4J)))
    assert parse(with_two, ["info"])[0].name == "info"
    with pytest.raises(UsageError, match="ambiguous command: inf could match info, inform"):
        parse(with_two, ["inf"])
    with pytest.raises(UsageError, match="invalid choice: 'inf'"):
        parse(COMMAND._replace(program="kt storage"), ["inf"])


def test_an_option_can_stand_at_its_beginning_for_json() -> None:
    assert parse(COMMAND, ["info", "--json"])[1].json


def test_options_in_front_of_a_subcommand_may_stand_behind_it() -> None:
    outer = COMMAND._replace(
        options=(Option("--server", "Server.", value="ADDRESS", aliases=("-b",)), Option("--all", "All."))
    )
    for arguments in (["-b", "h:1", "info"], ["info", "--server=h:1"], ["info", "-bh:1"]):
        assert parse(outer, arguments)[1].server == "h:1"
    assert parse(outer, ["-b", "h:1", "info", "-b", "h:2"])[1].server == "h:2"
    with pytest.raises(UsageError, match="argument --server/-b: expected one argument"):
        parse(outer, ["info", "--server"])
    with pytest.raises(UsageError, match="unrecognized arguments: '--servre'") as raised:
        parse(outer, ["info", "--servre", "h:1"])
    assert raised.value.hint == "Did you mean --server?"
    with pytest.raises(UsageError, match="unrecognized arguments: '--all'") as raised:
        parse(outer, ["info", "--all"])
    assert raised.value.hint == ""
    lines = help_text(outer.subcommands[1], 80, outer).splitlines()
    assert lines[-2:] == [
        "options of kt storage, here or in front of info:",
        "  -b, --server ADDRESS            Server.",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "too few arguments"),  # storage/033
        (
            ["reformat"],  # storage/030
            "invalid choice: 'reformat' (choose from 'format', 'info')",
        ),
        (["format", "-c", "f"], "argument --cluster-id/-t is required"),  # storage/009
        (["info", "--frobnicate"], "unrecognized arguments: '--frobnicate'"),  # storage/032
        (["info", "more"], "unrecognized arguments: 'more'"),
        (["format", "--c", "f"], "ambiguous option: --c could match --config, --cluster-id, --clean, --count"),
        (["format", "-c"], "argument --config/-c: expected one argument"),
        (["format", "--count", "x"], "argument --count: could not convert 'x' to a number"),
        (["format", "--clean=1"], "argument --clean/-C: ignored explicit argument '1'"),
    ],
)
def test_complaints(arguments: list[str], message: str) -> None:
    assert _message(*arguments) == f"kafka-storage: error: {message}"


def test_an_option_for_several_values_takes_all_up_to_the_next_option() -> None:
    command = Command(
        "perf",
        "Sample.",
        (Option("--props", "Settings.", value="P", repeatable=True, several=True), Option("--flag", "Flag.")),
        style=ARGPARSE4J,
    )
    _, args = parse(command, ["--props", "a=1", "b=2", "--flag", "--props=c=3", "d=4"])
    assert (args.props, args.flag) == (["a=1", "b=2", "c=3", "d=4"], True)
