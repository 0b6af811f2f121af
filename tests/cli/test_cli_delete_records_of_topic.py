"""kt delete-records --topic on one embedded broker: what stays is read back by the console consumer."""

from __future__ import annotations

import itertools
import json

import admin_tools
import pytest
from support.kt import Ran, run_kt

DAY_MS = 86_400_000
_NUMBERS = itertools.count()


def delete(bootstrap: str, *words: str) -> Ran:
    return run_kt("delete-records", "--bootstrap-server", bootstrap, *words)


def remaining(bootstrap: str, topic: str) -> list[tuple[int, int]]:
    """Partition and offset of each record that can be read."""
    words = ("--topic", topic, "--from-beginning", "--exit-at-end", "--json")
    ran = run_kt("console-consumer", "--bootstrap-server", bootstrap, *words)
    assert ran.status == 0, ran.err
    return sorted((row["partition"], row["offset"]) for row in map(json.loads, ran.out.splitlines()))


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A topic of two partitions with ten records each, one a day."""
    name = f"t{next(_NUMBERS)}"
    records = [(part, admin_tools.START + day * DAY_MS) for day in range(10) for part in (0, 1)]
    admin_tools.send(bootstrap, name, 2, records)
    return name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (("--all",), {0: 10, 1: 10}),
        (("--before", f"@{admin_tools.START + 3 * DAY_MS}"), {0: 3, 1: 3}),
        (("--before", "2023-11-18T22:13:20Z"), {0: 4, 1: 4}),
        (("--before", "-2"), {0: 8, 1: 8}),
        (("--before", "+1", "--partition", "1"), {0: 0, 1: 1}),
        (("--before", "7", "--partition", "0"), {0: 7, 1: 0}),
        (("--before", "-1h"), {0: 10, 1: 10}),
    ],
)
def test_records_before_the_place_are_deleted(
    bootstrap: str, topic: str, words: tuple[str, ...], kept: dict[int, int]
) -> None:
    before = remaining(bootstrap, topic)
    dry = delete(bootstrap, "--topic", topic, *words, "--dry-run", "--json")
    assert (dry.status, remaining(bootstrap, topic)) == (0, before)
    ran = delete(bootstrap, "--topic", topic, *words)
    assert (ran.status, ran.err) == (0, "")
    assert remaining(bootstrap, topic) == [(part, offset) for part in (0, 1) for offset in range(kept[part], 10)]
    foretold = {row["partition"]: row["new_low_watermark"] for row in map(json.loads, dry.out.splitlines())}
    assert foretold == {part: offset for part, offset in kept.items() if offset}


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 2, "--topic needs --before or --all"),
        (("--before", "3"), 2, "An offset belongs to one partition, and {topic} has 2 partitions: pass --partition"),
        (("--all", "--partition", "2"), 1, "Topic {topic} has no partition 2: its partitions are 0 to 1"),
        (("--before", "soon"), 2, "Invalid value of --before: 'soon' is neither an offset nor a time"),
        (("--before", "1", "--all"), 2, 'Option "[before]" can\'t be used with option "[all]"'),
        (("--before", "11", "--partition", "0"), 1, "partition: {topic}-0\terror: "),
    ],
)
def test_wrong_input_deletes_nothing(
    bootstrap: str, topic: str, words: tuple[str, ...], status: int, message: str
) -> None:
    ran = delete(bootstrap, "--topic", topic, *words)
    assert (ran.status, ran.err.startswith(message.format(topic=topic))) == (status, True), ran.err
    assert len(remaining(bootstrap, topic)) == 20


def test_a_missing_topic_is_named(bootstrap: str) -> None:
    ran = delete(bootstrap, "--topic", "ghost", "--all")
    assert (ran.status, ran.out, ran.err) == (1, "", "Topic ghost does not exist\n")
