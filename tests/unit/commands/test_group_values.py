"""Times, durations and conditions as the options of consumer-groups take them."""

import pytest

from kafkatools.commands.consumer_groups.condition_texts import parse_condition
from kafkatools.commands.consumer_groups.shared_options import STATES
from kafkatools.commands.consumer_groups.tables import assignment_text
from kafkatools.core.admin.groups import GroupDescription
from kafkatools.core.errors import LeaderNotAvailable
from kafkatools.exit_status import UsageError
from kafkatools.tools.groups.conditions import Condition, findings, unknowns
from kafkatools.tools.groups.times import duration_text, parse_datetime, parse_duration
from kafkatools.tools.groups.view import GroupView, PartitionRow


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2023-11-15T00:13:20.000", 1_700_007_200_000),
        ("2023-11-15T00:13:20", 1_700_007_200_000),
        ("2023-11-15T00:13:20.125Z", 1_700_007_200_125),
        ("2023-11-15T00:13:20.000+02:00", 1_700_000_000_000),
        ("2023-11-15T00:13:20.000+0200", 1_700_000_000_000),
        ("2023-11-14T22:13:20.000-02", 1_700_007_200_000),
        ("2023-1-5T1:2:3.0", 1_672_880_523_000),
        ("2023-1-5T1:2:3.00Z", 1_672_880_523_000),
        ("1969-12-31T23:59:59.999", -1),
    ],
)
def test_datetimes(text: str, expected: int) -> None:
    assert parse_datetime(text) == expected


@pytest.mark.parametrize("text", ["2023-11-15T25:00:00.000", "2023-02-29T00:00:00.000", "T", "2023-11-15T00:13:20.5"])
def test_bad_datetimes(text: str) -> None:
    with pytest.raises(ValueError, match=f'^Unparseable date: "{text}"$'):
        parse_datetime(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1H", 3_600_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt0.001s", 1),
        ("-PT6H+3M", -21_780_000),
        ("PT-6H+3M", -21_420_000),
        ("PT-0.5S", -500),
        ("P2D", 172_800_000),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "1h", "P", "PT", "P1DT", "PT1D", "P1H", "PT1.1H", "PT1S1M", f"PT{10**20}S"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(ValueError, match="^Text cannot be parsed to a Duration$"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lag>1000", ("lag", ">", 1000, False)),
        (" lag >= 5m ", ("lag", ">=", 300_000, True)),
        ("lag!=0", ("lag", "!=", 0, False)),
        ("behind>500ms", ("behind", ">", 500, True)),
        ("total<=1", ("total", "<=", 1, False)),
        ("members=0", ("members", "=", 0, False)),
        ("state!=stable", ("state", "!=", "Stable", False)),
    ],
)
def test_conditions(text: str, expected: tuple[object, ...]) -> None:
    assert tuple(parse_condition(text, STATES))[1:] == expected


@pytest.mark.parametrize(
    "text",
    ["", "lag", "lag>", "lag>>3", "lag=>3", "lag>-1", "lag>1_0", "lag>5 m", "lag>5y", "lag>5M", "behind>5", "total>5m",
     "members>1s", "size>1", "state>Stable", "state=Sleeping", "lag>1 or lag>2"],
)  # fmt: skip
def test_bad_conditions(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-if"):
        parse_condition(text, STATES)


def test_what_is_not_known_makes_no_condition_hold() -> None:
    assert not Condition("lag!=5", "lag", "!=", 5, False).holds(None)


@pytest.mark.parametrize(
    ("ms", "expected"),
    [(None, "-"), (0, "0s"), (1, "1ms"), (999, "999ms"), (1500, "1.5s"), (59_999, "59.9s"), (60_000, "1m00s"),
     (3_599_000, "59m59s"), (3_660_000, "1h01m"), (90_000_000, "1d01h")],
)  # fmt: skip
def test_durations_for_people(ms: int | None, expected: str) -> None:
    assert duration_text(ms) == expected


def test_assignments_are_sorted_by_topic_and_partition() -> None:
    assert assignment_text([("b", 10), ("a", 1), ("b", 2)]) == "a:1;b:2,10"
    assert assignment_text([]) == "-"


def _view(*partitions: tuple[int, int | None, int | None]) -> GroupView:
    """Group `g` of topic t: (partition, committed offset, end); an end of None is not known."""
    rows = [
        PartitionRow("t", number, offset, None, end, None if end is None or offset is None else end - offset)
        for number, offset, end in partitions
    ]
    unknown = {("t", number): LeaderNotAvailable("away") for number, _, end in partitions if end is None}
    return GroupView(GroupDescription("g", "Classic", "Empty", "", (), (1, "h", 1)), rows, unknown_ends=unknown)


@pytest.mark.parametrize(
    ("text", "held", "unknown"),
    [
        ("lag>100", 0, ["lag>100 is unknown for group g, t-1: the end of the log is not known: away"]),
        ("lag>=10", 1, ["lag>=10 is unknown for group g, t-1: the end of the log is not known: away"]),
        ("total>100", 0, ["total>100 is unknown for group g: 1 partitions have no known end"]),
        ("total>9", 1, []),
        ("total<100", 0, ["total<100 is unknown for group g: 1 partitions have no known end"]),
        ("total<5", 0, []),
        ("total=10", 0, ["total=10 is unknown for group g: 1 partitions have no known end"]),
        ("state=Empty", 1, []),
    ],
)
def test_a_condition_over_an_end_that_is_not_known_is_unknown(text: str, held: int, unknown: list[str]) -> None:
    view = _view((0, 0, 10), (1, 5, None))
    condition = parse_condition(text, STATES)
    assert len(list(findings([condition], view))) == held
    assert list(unknowns(condition, view)) == unknown


def test_a_partition_without_a_commit_makes_no_condition_unknown() -> None:
    view = _view((0, 0, 10), (1, None, None))
    assert list(unknowns(parse_condition("lag>100", STATES), view)) == []
    assert list(unknowns(parse_condition("total>100", STATES), view)) == []
