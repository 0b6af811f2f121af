"""`diff` against plain Python over the same small tables; `replay` over records as they would come."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.diff import diff, summary, without_key
from kafkatools.pipeline.jobs.replay import at_rate, decisions, plan_replay, to_send
from kafkatools.pipeline.jobs.replay_plan import REPLAYS_HEADER, ReplayPlan, Throttle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key string, value binary>>"
)
Place = tuple[int, int]


def made(seed: int) -> list[dict[str, Any]]:
    """A topic of two partitions: few keys, tombstones, null keys, equal records."""
    import datetime

    chance = random.Random(seed)
    rows = []
    for number in range(120):
        key = chance.choice((None, *(f"k{n}".encode() for n in range(12))))
        rows.append(
            {
                "key": key,
                "value": chance.choice((None, b"", b"x", f"v{chance.randint(0, 3)}".encode())),
                "topic": "t",
                "partition": 0 if key is None else key[-1] % 2,
                "offset": number,
                "timestamp": datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=number),
                "timestampType": 0,
                "headers": [],
            }
        )
    return rows


def changed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same with a value changed, one record left out, one added, a tombstone at the end."""
    rows = [dict(row) for row in rows]
    rows[5]["value"], rows[117] = b"changed", {**rows[117], "value": b"other"}
    last = {**rows[-1], "key": b"k3", "value": None, "partition": 1, "offset": 200}
    return [*rows[:50], *rows[51:], {**rows[-1], "offset": 120, "key": b"new", "value": b"n"}, last]


def frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    names = [name.split()[0] for name in SCHEMA.split(", ")][:8]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], SCHEMA)


def text(value: Any) -> Any:
    return None if value is None else bytes(value)


def test_by_offset_by_key_and_as_multiset(spark: SparkSession) -> None:
    left, right = made(1), changed(made(1))
    frames = frame(spark, left).cache(), frame(spark, right).cache()

    assert [without_key(side) for side in frames] == [sum(row["key"] is None for row in rows) for rows in (left, right)]
    by_place = [
        {(row["partition"], row["offset"]): (row["key"], row["value"]) for row in side} for side in (left, right)
    ]
    expected: dict[Any, str] = {}
    for place in by_place[0].keys() | by_place[1].keys():
        sides = [side.get(place) for side in by_place]
        if sides[0] != sides[1]:
            expected[place] = "only-right" if sides[0] is None else "only-left" if sides[1] is None else "changed"
    found = diff(*frames, by="offset")
    assert {(row.partition, row.offset): row.side for row in found.collect()} == expected
    assert summary(found) == {side: Counter(expected.values())[side] for side in ("only-left", "only-right", "changed")}

    latest = [{row["key"]: row["value"] for row in side if row["key"] is not None} for side in (left, right)]
    live = [{key: value for key, value in side.items() if value is not None} for side in latest]
    keys = {key for key in live[0].keys() | live[1].keys() if live[0].get(key) != live[1].get(key)}
    rows = diff(*frames, by="key").collect()
    assert {text(row.key) for row in rows} == keys
    for row in rows:
        assert text(row.left and row.left.value) == live[0].get(text(row.key))
        assert text(row.right and row.right.value) == live[1].get(text(row.key))

    counts = [Counter((row["key"], row["value"]) for row in side) for side in (left, right)]
    more = {pair: counts[0][pair] - counts[1][pair] for pair in counts[0] | counts[1]}
    rows = diff(*frames, by="multiset").collect()
    told = {(text(row.key), text(row.value)): row.leftCount - row.rightCount for row in rows}
    assert told == {pair: number for pair, number in more.items() if number}
    assert {row.side for row in rows} == {"only-left", "only-right"}


def test_the_same_is_no_difference_whatever_its_topic_is_called(spark: SparkSession) -> None:
    from pyspark.sql import functions as f

    left = frame(spark, made(2))
    copy = left.withColumn("topic", f.lit("copy")).repartition(3)
    for by in ("key", "offset", "multiset"):
        assert diff(left, copy, by=by, compared=("key", "value", "timestamp", "headers")).isEmpty()
    with pytest.raises(PipelineError, match="not by hash"):
        diff(left, copy, by="hash")
    with pytest.raises(PipelineError, match="There is no column headers"):
        diff(left.drop("headers"), copy, compared=("key", "headers"))


def dead_letters(spark: SparkSession) -> DataFrame:
    origin = "kafka_dlt-original-topic"
    headers: list[list[tuple[str, bytes]]] = [
        [(origin, b"orders")],
        [(origin, b"old"), (origin, b"payments"), (REPLAYS_HEADER, b"2"), ("trace", b"7")],
        [(origin, b"orders"), (REPLAYS_HEADER, b"3")],
        [("__connect.errors.topic", b"clicks")],
        [],
        [(origin, b"dead")],
    ]
    rows = [
        {**made(3)[0], "topic": "dead", "offset": n, "value": b"%d" % n, "headers": h} for n, h in enumerate(headers)
    ]
    return frame(spark, rows)


def test_records_go_back_where_they_came_from(spark: SparkSession) -> None:
    plan = ReplayPlan(["dead"])
    table = plan_replay(dead_letters(spark), plan).cache()
    assert [tuple(row) for row in decisions(table).collect()] == [
        ("dead", None, "no-origin", 1),
        ("dead", "clicks", "send", 1),
        ("dead", "dead", "loop", 1),
        ("dead", "orders", "send", 1),
        ("dead", "orders", "too-often", 1),
        ("dead", "payments", "send", 1),
    ]
    sent = {row.topic: row for row in to_send(table, plan).collect()}
    assert sent.keys() == {"clicks", "orders", "payments"} and "timestamp" not in sent["orders"]
    told = {topic: [(each.key, bytes(each.value)) for each in row.headers] for topic, row in sent.items()}
    assert told["orders"][-1] == (REPLAYS_HEADER, b"1")
    assert told["payments"][-2:] == [("trace", b"7"), (REPLAYS_HEADER, b"3")] and len(told["payments"]) == 4


def test_one_topic_a_filter_and_the_loop_guard(spark: SparkSession) -> None:
    table = dead_letters(spark)
    with pytest.raises(PipelineError, match="dead would be both read and written"):
        plan_replay(table, ReplayPlan(["dead"], to_topic="dead"))
    plan = ReplayPlan(
        ["dead"], to_topic="dead", allows_loop=True, where="CAST(value AS STRING) < '2'", max_replays=9,
        keeps_timestamps=True,
    )  # fmt: skip
    rows = to_send(plan_replay(table, plan), plan).collect()
    assert [(row.topic, bytes(row.value)) for row in rows] == [("dead", b"0"), ("dead", b"1")]
    assert "timestamp" in rows[0]
    with pytest.raises(PipelineError, match="must be more than 0 records per second"):
        at_rate(table, 0)


def test_a_rate_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow
    from support.manual_clock import ManualClock

    from kafkatools.pipeline.jobs import replay_plan

    manual = ManualClock()
    monkeypatch.setattr(replay_plan, "SystemClock", lambda: manual)
    start, passed = manual.now_ms(), []
    batches = iter([pyarrow.RecordBatch.from_pydict({"n": list(range(number))}) for number in (70, 5, 25)])
    for part in Throttle(50)(batches):
        passed.append((manual.now_ms() - start, part.num_rows))
    assert passed == [(0, 50), (1000, 20), (1400, 5), (1500, 25)]
