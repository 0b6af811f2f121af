"""The grammar of --fail-if and --alert, and what `on` selects."""

from __future__ import annotations

import re

import pytest
from test_monitor_values import ill_view, well_view

from kafkatools.commands.monitor.condition_texts import parse_alert, parse_condition
from kafkatools.exit_status import UsageError
from kafkatools.tools.monitor.conditions import Selector
from kafkatools.tools.monitor.view import GroupPartition, GroupView


@pytest.mark.parametrize(
    ("text", "measure", "comparison", "amount", "hold_ms", "on"),
    [
        ("lag_seconds>300 for 5m", "lag-seconds", ">", 300, 300_000, ()),
        ("lag>10000 for 2m on group=payments", "lag", ">", 10_000, 120_000, (("group", "payments"),)),
        ("lag > 10000 on group=payments for 2m", "lag", ">", 10_000, 120_000, (("group", "payments"),)),
        ("under_replicated>0", "under-replicated", ">", 0, 0, ()),
        ("disk_used>90% for 10m", "disk-used", ">", 90, 600_000, ()),
        ("disk-used >= 90.5 on broker=3", "disk-used", ">=", 90.5, 0, (("broker", "3"),)),
        ("lag>5m for 1h30m", "lag-seconds", ">", 300, 5_400_000, ()),
        ("lag>1.5 h on group=pay*,topic=a.b", "lag-seconds", ">", 5400, 0, (("group", "pay*"), ("topic", "a.b"))),
        ('members<1 on group="my group, 2"', "members", "<", 1, 0, (("group", "my group, 2"),)),
        ("unwell for 30s", "unwell", "", 0, 30_000, ()),
    ],
)
def test_alerts(
    text: str, measure: str, comparison: str, amount: float, hold_ms: int, on: tuple[tuple[str, str], ...]
) -> None:
    condition, found_ms = parse_alert(text)
    assert (condition.measure, condition.comparison, condition.amount, found_ms) == (
        measure, comparison, amount, hold_ms,
    )  # fmt: skip
    assert condition.on == tuple(Selector(*pair) for pair in on)
    assert condition.text == text


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 1, "expected MEASURE OP NUMBER"),
        ("5>lag", 1, "expected MEASURE OP NUMBER"),
        ("lag", 4, "expected one of > >="),
        ("lag =< 5", 6, "expected a number"),
        ("lag>1234567890123456789", 5, "a number has at most 18 digits"),
        ("disk_used>101", 11, "disk-used is a percentage of at most 100"),
        ("lag>5 forever", 5, "unknown unit 'forever' after 5; expected a number or a time"),
        ("lag>5 for", 10, "expected a duration after 'for'"),
        ("lag>5 for 5", 11, "expected a duration after 'for', such as 30s"),
        ("lag>5 for 5m for 6m", 14, "expected 'on', or the end"),
        ("lag>5x", 5, "unknown unit 'x' after 5; expected a number or a time"),
        ("members>5m", 9, "members takes a number without a unit"),
        ("disk_used>90 GiB", 11, "disk-used takes a number or a percentage"),
        ("lag>90%", 5, "unknown unit '%' after 90"),
        ("lag>5 on", 9, "expected one of group, topic, partition after 'on'"),
        ("lag>5 on host=a", 10, "'host' cannot be selected: the keys are group, topic, partition"),
        ("lag>5 on broker=1", 10, "'broker' cannot be selected: lag accepts group, topic, partition"),
        ("lag>5 on group", 15, "expected = after 'group'"),
        ("lag>5 on group=", 16, "expected a name after group="),
        ("lag>5 on partition=x", 20, "partition takes a number, not 'x'"),
        ("lag>5 on group=a,group=b", 18, "group is selected twice"),
        ("lag>5 on group=a group=b", 18, "expected 'for', or the end"),
        ("problems>0 on topic=a", 15, "problems is of the whole cluster"),
        ("unwell>0", 7, "unwell takes no comparison"),
        ("lag>5 for 5m on group=a x", 25, "expected the end"),
        ("lag>5, brokers<3", 6, "expected 'for', 'on', or the end"),
    ],
)
def test_a_mistake_is_named_with_its_position(text: str, position: int, reason: str) -> None:
    message = f"Invalid condition '{text}' of --alert at character {position}: {reason}"
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        parse_alert(text)


def test_for_is_only_for_alerts() -> None:
    with pytest.raises(UsageError, match="at character 7: 'for' belongs to --alert"):
        parse_condition("lag>5 for 5m")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("lag>=100 on group=left", ["lag>=100 on group=left holds for group left: lag is 500"]),
        ("lag>=100 on group=g*,partition=0", ["lag>=100 on group=g*,partition=0 holds for group g: lag is 100"]),
        ("lag>=100 on partition=1", []),
        ("total-lag>=500 on group=left", ["total-lag>=500 on group=left holds: total-lag is 500"]),
        ("offline>0 on partition=1", ["offline>0 on partition=1 holds: offline is 1"]),
        ("offline>0 on partition=0", []),
        ("silent>0 on broker=3", ["silent>0 on broker=3 holds: silent is 1"]),
        ("silent>0 on broker=1", []),
        ("disk-used>59%", ["disk-used>59% holds for broker 1, /data: disk-used is 60.0"]),
        ("disk-used>60%", []),
        ("messages>=250 on topic=a*", ["messages>=250 on topic=a* holds: messages is 250.0"]),
    ],
)
def test_on_narrows_a_measure(text: str, found: list[str]) -> None:
    assert list(parse_condition(text).findings(ill_view())) == found


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("lag>5 on group=ghost", "there is no group ghost"),
        ("offline>0 on topic=ghost", "there is no topic ghost"),
        ("offline<9 on partition=7", "there is no partition 7"),
        ("disk-used>90 on broker=9", "there is no broker 9"),
        ("lag>5 on group=left,partition=1", "no group has committed offsets there"),
    ],
)
def test_a_name_that_does_not_exist_is_unknown(text: str, unknown: str) -> None:
    condition = parse_condition(text)
    assert list(condition.unknowns(ill_view(), is_only_snapshot=False)) == [f"{text} is unknown: {unknown}"]
    assert list(condition.findings(ill_view())) == []
    assert list(parse_condition("lag>5 on group=ghost*").unknowns(ill_view(), is_only_snapshot=False)) == []


def test_disks_that_cannot_be_seen_are_unknown() -> None:
    found = list(parse_condition("disk-used>=0").unknowns(ill_view(), is_only_snapshot=False))
    assert [text.split("unknown for ")[1].split(":")[0] for text in found] == ["broker 1, /bad", "broker 2", "broker 3"]


def test_an_old_record_is_at_least_as_old_as_the_first_snapshot() -> None:
    parts = (GroupPartition("t", 0, 10, 0, 0), GroupPartition("t", 1, 10, 7, None, 301_000))
    view = well_view()._replace(groups=(GroupView("g", "Consumer", "Stable", 1, 1, parts),))
    condition = parse_condition("lag_seconds>300")
    assert list(condition.findings(view)) == ["lag_seconds>300 holds for group g: lag-seconds is at least 301.0"]
    (verdict,) = condition.verdicts(view)
    assert verdict.reading.partition == ("t", 1)
    later = parse_condition("lag_seconds>302")
    assert list(later.findings(view)) == list(later.unknowns(view, is_only_snapshot=False)) == []
    (text,) = later.unknowns(view, is_only_snapshot=True)
    assert "before the first snapshot" in text
