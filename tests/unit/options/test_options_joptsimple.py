"""Parsing as joptsimple does it: the behaviour recorded in tests/golden/cli (case names in the comments)."""

from __future__ import annotations

import pytest

from kafkatools.exit_status import UsageError
from kafkatools.options import Args, Command, Option, java_int, java_long, parse, rules

COMMAND = Command(
    "sample",
    "A sample.",
    (
        Option("--list", "A flag."),
        Option("--describe", "Another flag."),
        Option("--topic", "A name.", value="TOPIC"),
        Option("--partitions", "A number.", value="COUNT", type=java_int),
        Option("--timeout", "A long number.", value="MS", type=java_long, default=1000),
        Option("--config", "Repeatable.", value="NAME=VALUE", repeatable=True),
        Option("--compression-codec", "Optional value.", value="CODEC", optional_value=True, implied="gzip"),
        Option("--period", "Optional number.", value="MS", type=java_long, optional_value=True),
        Option("--producer.config", "With a dot.", value="FILE"),
    ),
    error_prefix="Error while executing topic command : ",
)


def _parse(*arguments: str, command: Command = COMMAND) -> Args:
    return parse(command, arguments)[1]


def _message(*arguments: str, command: Command = COMMAND) -> str:
    with pytest.raises(UsageError) as raised:
        parse(command, arguments)
    return str(raised.value)


def test_values_stand_behind_a_space_or_an_equals_sign_and_a_single_dash_does() -> None:
    args = _parse("--topic", "a", "-list", "--partitions=3", "-timeout", "5", "-config=x=1")  # topics/101, 104
    assert (args.topic, args.list, args.partitions, args.timeout, args.config) == ("a", True, 3, 5, ["x=1"])


def test_options_not_given_have_their_defaults() -> None:
    args = _parse("--list")
    assert (args.topic, args.timeout, args.config, args.describe, args.json) == (None, 1000, [], False, False)
    assert args.has_option("list") and args.has_option("--list") and not args.has_option("timeout")
    with pytest.raises(AttributeError):
        _ = args.nothing_such


def test_an_option_takes_the_next_argument_whatever_it_looks_like() -> None:
    assert _parse("--partitions", "-5").partitions == -5  # topics/018
    assert _parse("--topic", "--list").topic == "--list"
    assert _parse("--topic", "").topic == ""


def test_repeatable_options_collect_in_order() -> None:
    assert _parse("--config", "a=1", "--config", "b=2").config == ["a=1", "b=2"]


def test_an_optional_number_may_be_negative() -> None:  # delegation-tokens/002
    assert _parse("--period", "-1", "--list").period == -1
    args = _parse("--period", "--list")
    assert (args.period, args.list, args.has_option("period")) == (None, True, True)


def test_an_optional_value_is_not_taken_from_the_next_option() -> None:
    assert _parse("--compression-codec", "--list").compression_codec == "gzip"
    assert _parse("--compression-codec", "lz4").compression_codec == "lz4"
    assert _parse("--compression-codec").compression_codec == "gzip"
    assert _parse("--list").compression_codec is None


def test_names_with_dots_become_attributes() -> None:
    args = _parse("--producer.config", "f")
    assert args.producer_config == "f" and args.has_option("producer.config")


def test_abbreviations_are_refused_and_the_full_name_is_suggested() -> None:
    with pytest.raises(UsageError) as raised:
        parse(COMMAND, ["--part", "3"])  # topics/102
    assert str(raised.value) == "part is not a recognized option"
    assert raised.value.hint == "Did you mean --partitions?"


def test_a_mistyped_option_suggests_the_nearest() -> None:
    with pytest.raises(UsageError) as raised:
        parse(COMMAND, ["--tpoic", "a"])
    assert raised.value.hint == "Did you mean --topic?"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["orders"], "Did you mean --topic orders?"),
        (["orders", "--list"], "Did you mean --topic orders?"),
        (["--topic", "x", "orders"], ""),
        (["orders", "--topic", "x"], ""),
        (["orders", "-topic=x"], ""),
        (["orders", "-t", "x"], ""),
    ],
)
def test_a_required_option_is_suggested_unless_it_is_written(arguments: list[str], hint: str) -> None:
    topic = Option("--topic", "A name.", value="TOPIC", required=True, aliases=("-t",))
    with pytest.raises(UsageError, match="^Unexpected argument 'orders'$") as raised:
        parse(Command("sample", "A sample.", (topic, Option("--list", "A flag."))), arguments)
    assert raised.value.hint == hint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--frobnicate"], "frobnicate is not a recognized option"),  # topics/098
        (["--topic"], "Option topic requires an argument"),  # topics/100
        (
            ["--topic", "a", "--topic", "b"],  # topics/036
            "Error while executing topic command : "
            "Found multiple arguments for option topic, but you asked for only one",
        ),
        (
            ["--partitions", "three"],  # topics/019
            "Error while executing topic command : Cannot parse argument 'three' of option partitions",
        ),
        (
            ["--partitions", "2147483648"],
            "Error while executing topic command : Cannot parse argument '2147483648' of option partitions",
        ),
        (["--list", "extra"], "Unexpected argument 'extra'"),
        (["--", "extra"], "Unexpected argument 'extra'"),
        (["--list=yes"], "Option list takes no value, but 'yes' was given"),
    ],
)
def test_complaints(arguments: list[str], message: str) -> None:
    assert _message(*arguments) == message


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1_000", "0x10", "1.0", "--1", "٣"])
def test_java_numbers_are_plain_digits(text: str) -> None:
    with pytest.raises(ValueError):
        java_long(text)


def test_java_numbers_take_a_sign_and_have_a_range() -> None:
    assert (java_int("+7"), java_int("-2147483648"), java_long("9223372036854775807")) == (7, -(2**31), 2**63 - 1)
    with pytest.raises(ValueError):
        java_long("9223372036854775808")


RULES = COMMAND._replace(
    rules=(
        rules.ExactlyOne(("list", "describe"), "exactly one action"),
        rules.Requirement(("topic",), when=("describe",)),
        rules.Refusal("partitions", ("list",)),
        rules.Refusal("config", ("partitions",), when=("describe",)),
    )
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "exactly one action"),
        (["--list", "--describe"], "exactly one action"),
        (["--describe"], 'Missing required argument "[topic]"'),
        (["--list", "--partitions", "1"], 'Option "[partitions]" can\'t be used with option "[list]"'),
        (
            ["--describe", "--topic", "t", "--config", "a=1", "--partitions", "1"],
            'Option "[config]" can\'t be used with option "[partitions]"',
        ),
    ],
)
def test_rules_are_checked_in_order(arguments: list[str], message: str) -> None:
    assert _message(*arguments, command=RULES) == message


def test_help_lifts_the_rules() -> None:
    assert _parse("--help", command=RULES).help
    assert _parse("-h", command=RULES).help
    assert _parse("--version", command=RULES).version


def test_required_options() -> None:
    command = Command("one", "One.", (Option("--files", "Files.", value="FILES", required=True),))
    assert _message(command=command) == 'Missing required argument "[files]"'
    assert _parse("--files", "a", command=command).files == "a"


def test_operands_of_commands_of_ours() -> None:
    pair, many = COMMAND._replace(operand="LEFT RIGHT"), COMMAND._replace(operand="PATH...")
    assert _parse("a", "--list", "b", command=pair).operands == ["a", "b"]
    assert "c" in _message("a", "b", "c", command=pair)
    assert _parse("a", "b", "c", command=many).operands == ["a", "b", "c"]
    assert _parse(command=many).operand is None
    assert "a" in _message("a")
