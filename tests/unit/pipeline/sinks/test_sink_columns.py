"""Arrow batches as rows for the producer, and a task that writes them, without Spark."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.requirements import require

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.live.options import OptionWarnings

try:
    import pyarrow as pa
    import pyspark  # noqa: F401
except ImportError:
    require("PySpark is not installed: pip install '.[spark]'")

UTC = datetime.UTC
NOW_MS = 1_700_000_000_000


def columns_of(batch: Any) -> list[tuple[bytes | None, bytes | None, int | None]]:
    from kafkatools.core.producer.row_groups import cells_of
    from kafkatools.pipeline.sinks.columns import row_columns

    found = []
    for rows in row_columns(batch, NOW_MS):
        times = [None] * rows.count if rows.timestamps is None else list(rows.timestamps)
        found += [(key, value, time) for (key, value), time in zip(cells_of(rows), times, strict=True)]
    return found


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
@pytest.mark.parametrize("start", [0, 1, 2])
def test_cells_of_a_slice_are_those_of_its_rows(kind: Any, start: int) -> None:
    values, keys = ["one", None, "", "four", "é"], ["k", "", None, "key", None]
    batch = pa.record_batch({"value": pa.array(values, kind), "key": pa.array(keys, kind)}).slice(start, 3)

    def text(cell: str | None) -> bytes | None:
        return None if cell is None else cell.encode()

    wanted = [(text(k), text(v), None) for k, v in zip(keys, values, strict=True)][start : start + 3]
    assert columns_of(batch) == wanted
    without_keys = batch.select(["value"])
    assert columns_of(without_keys) == [(None, value, None) for _, value, _ in wanted]


def test_timestamps_are_milliseconds_and_now_where_there_is_none() -> None:
    moment = datetime.datetime(2024, 5, 1, 12, 0, 0, 123_999, tzinfo=UTC)
    times = pa.array([None, moment, None], pa.timestamp("us", "UTC"))
    batch = pa.record_batch({"value": pa.array([b"a", b"b", b"c"]), "timestamp": times})
    assert [time for _, _, time in columns_of(batch)] == [NOW_MS, 1_714_564_800_123, NOW_MS]
    assert [time for _, _, time in columns_of(batch.slice(2))] == [None]


def test_a_time_before_1970_is_refused() -> None:
    times = pa.array([datetime.datetime(1969, 12, 31, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    with pytest.raises(PipelineError, match="before 1970"):
        columns_of(pa.record_batch({"value": pa.array([b"a"]), "timestamp": times}))


def targets(batch: Any, topic: str | None) -> list[tuple[str, int | None, list[str]]]:
    from kafkatools.pipeline.sinks.columns import split_by_target

    return [(*target, rows.column(0).to_pylist()) for target, rows in split_by_target(batch, topic)]


def test_rows_are_split_by_topic_and_partition_in_their_order() -> None:
    batch = pa.record_batch(
        {
            "value": pa.array(["1", "2", "3", "4", "5", "6"]),
            "topic": pa.array(["b", "a", "b", "a", "b", "b"]),
            "partition": pa.array([1, None, 0, None, 1, None], pa.int32()),
        }
    )
    found = targets(batch, None)
    assert sorted(found, key=str) == [
        ("a", None, ["2", "4"]),
        ("b", 0, ["3"]),
        ("b", 1, ["1", "5"]),
        ("b", None, ["6"]),
    ]
    assert sorted(targets(batch, "c"), key=str) == [
        ("c", 0, ["3"]),
        ("c", 1, ["1", "5"]),
        ("c", None, ["2", "4", "6"]),
    ]
    assert targets(batch.slice(1, 1), None) == [("a", None, ["2"])]
    assert targets(batch.slice(0, 0), None) == []


def test_rows_without_a_topic_and_with_a_negative_partition_are_refused() -> None:
    with pytest.raises(PipelineError, match="no topic"):
        targets(pa.record_batch({"value": pa.array(["1", "2"]), "topic": pa.array(["a", None])}), None)
    partitions = pa.array([-1], pa.int32())
    with pytest.raises(PipelineError, match="partition -1"):
        targets(pa.record_batch({"value": pa.array(["1"]), "partition": partitions}), "t")


HEADERS = "array<struct<key:string,value:binary>>"


def schema_of(**columns: str) -> Any:
    """A schema from columns and types, without a session."""
    from pyspark.sql import types

    pair = types.StructType().add("key", types.StringType()).add("value", types.BinaryType())
    kinds = [
        types.BinaryType(),
        types.StringType(),
        types.IntegerType(),
        types.LongType(),
        types.TimestampType(),
        types.MapType(types.StringType(), types.StringType()),
        types.ArrayType(pair),
    ]
    named = {kind.simpleString(): kind for kind in kinds}
    schema = types.StructType()
    for name, kind in columns.items():
        schema.add(name, named[kind])
    return schema


@pytest.mark.parametrize(
    ("columns", "topic", "message"),
    [
        ({"value": "binary"}, None, "the topic is missing"),
        ({"key": "binary", "topic": "string"}, None, "the column `value` is missing; the query has `key`, `topic`"),
        ({"value": "int"}, "t", "the column `value` is int, it must be string or binary"),
        ({"value": "string", "topic": "int"}, None, "the column `topic` is int, it must be string"),
        ({"value": "string", "partition": "bigint"}, "t", "the column `partition` is bigint, it must be int"),
        ({"value": "string", "headers": "map<string,string>"}, "t", "the column `headers` is map<string,string>"),
        ({"value": "string", "timestamp": "bigint"}, "t", "the column `timestamp` is bigint, it must be timestamp"),
        ({"value": "string", "n": "bigint", "Value": "string"}, "t", "a record has no place for `n`, `Value`"),
    ],
)
def test_columns_are_checked(columns: dict[str, str], topic: str | None, message: str) -> None:
    from kafkatools.pipeline.sinks.columns import check_columns

    with pytest.raises(PipelineError, match="kt sink: ") as caught:
        check_columns(schema_of(**columns), topic, OptionWarnings("kt sink", is_strict=True))
    assert message in str(caught.value)


def test_columns_of_the_source_are_taken_or_passed_over() -> None:
    from kafkatools.pipeline.sinks.columns import check_columns

    record = {"key": "binary", "value": "binary", "topic": "string", "partition": "int", "headers": HEADERS}
    check_columns(
        schema_of(**record, offset="bigint", timestamp="timestamp", timestampType="int"),
        None,
        OptionWarnings("kt sink", is_strict=True),
    )


def test_columns_that_spark_s_sink_ignores_are_a_warning_unless_strict(caplog: pytest.LogCaptureFixture) -> None:
    from kafkatools.pipeline.sinks.columns import check_columns

    columns = schema_of(value="string", n="bigint", timestamp="bigint", topic="int")
    check_columns(columns, "t", OptionWarnings("kt sink", is_strict=False))
    assert "a record has no place for `n`; it has no effect; its columns are" in caplog.text
    assert "the column `timestamp` is bigint, it must be timestamp; it has no effect" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "kafka.bootstrap.servers` is missing"),
        ({"kafka.bootstrap.servers": "x:1", "topc": "t"}, "unknown option `topc`"),
        ({"kafka.bootstrap.servers": "x:1", "kafka.lingr.ms": "1"}, "Unknown producer config name: lingr.ms"),
        ({"kafka.bootstrap.servers": "x:1", "kafka.acks": "many"}, "acks"),
        ({"kafka.bootstrap.servers": "x:1", "kafka.transactional.id": "a"}, "`kafka.transactional.id` cannot be set"),
        ({"kafka.bootstrap.servers": "x:1", "exactlyOnce": "yes"}, "`exactlyOnce` must be true or false, not 'yes'"),
        ({"kafka.bootstrap.servers": "x:1", "topic": " "}, "`topic` is empty"),
    ],
)
def test_options_are_checked(options: dict[str, str], message: str) -> None:
    from kafkatools.pipeline.sinks.sink import read_options

    with pytest.raises(PipelineError, match="kt sink: ") as caught:
        read_options({"strictOptions": "true", **options})
    assert message in str(caught.value)


def test_unknown_options_are_a_warning_unless_strict(caplog: pytest.LogCaptureFixture) -> None:
    from kafkatools.pipeline.sinks.sink import read_options

    given = {"kafka.bootstrap.servers": "x:1", "topc": "t", "kafka.lingr.ms": "1", "kafka.acks": "1"}
    assert read_options(given).producer["acks"] == "1"
    assert "lingr.ms" not in read_options(given).producer
    assert "unknown option `topc`; it has no effect; did you mean topic? (strictOptions=true refuses it)" in caplog.text
    assert "Unknown producer config name: lingr.ms" in caplog.text


def test_options_that_a_source_has_too_are_passed_over() -> None:
    from kafkatools.pipeline.sinks.sink import read_options

    given = {"kafka.bootstrap.servers": "x:1", "kafka.isolation.level": "read_committed", "queryName": "q"}
    assert read_options({**given, "Topic": " t ", "kafka.sasl.jaas.config": "secret"}).topic == "t"
    assert "secret" not in repr(read_options({**given, "kafka.sasl.jaas.config": "secret"}))
    assert "isolation.level" not in read_options(given).producer
    assert read_options({**given, "kafka.batch.size": "1000"}).producer["batch.size"] == "1000"


def test_a_topic_is_not_overwritten() -> None:
    from kafkatools.pipeline.sinks.sink import batch_writer

    with pytest.raises(PipelineError, match="use mode append"):
        batch_writer({"kafka.bootstrap.servers": "x:1", "topic": "t"}, schema_of(value="string"), True)


# -- a task --


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("sink"), num_partitions=3, message_max_bytes=100_000) as address:
        yield address


def written(broker: str, *batches: Any, **options: str) -> dict[str, int]:
    from kafkatools.pipeline.sinks.sink import read_options, write_rows

    return write_rows(read_options({"kafka.bootstrap.servers": broker, **options}), iter(batches))


def read(broker: str, topic: str) -> list[Any]:
    from kafkatools import Consumer

    with Consumer(bootstrap_servers=broker, auto_offset_reset="earliest") as consumer:
        partitions = [(topic, partition) for partition in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        left = sum(consumer.end_offsets(partitions).values())
        records: list[Any] = []
        while len(records) < left:
            records += list(consumer.poll(1000))
    return records


def test_every_column_reaches_the_record(broker: str) -> None:
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    moment = datetime.datetime(2024, 5, 1, tzinfo=UTC)
    batch = pa.record_batch(
        {
            "key": pa.array([b"k", None, None]),
            "value": pa.array(["v", None, "plain"]),
            "topic": pa.array(["full", "full", "full"]),
            "partition": pa.array([2, 1, 1], pa.int32()),
            "timestamp": pa.array([moment, moment, moment], pa.timestamp("us", "UTC")),
            "headers": pa.array([[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None, None], header),
        }
    )
    assert written(broker, batch, batch.slice(2)) == {"full": 4}
    found = sorted(
        (one.partition, one.offset, one.key, one.value, one.timestamp, tuple(one.headers))
        for one in read(broker, "full")
    )
    time = 1_714_521_600_000
    assert found == [
        (1, 0, None, None, time, ()),
        (1, 1, None, b"plain", time, ()),
        (1, 2, None, b"plain", time, ()),
        (2, 0, b"k", b"v", time, (("h", b"1"), ("h", None))),
    ]


def test_keys_choose_the_partition_as_kafka_does(broker: str) -> None:
    from kafkatools.core.producer.partitioners import partition_for_key

    keys = [b"%d" % number for number in range(50)]
    written(broker, pa.record_batch({"key": pa.array(keys), "value": pa.array(keys)}), topic="keyed")
    records = read(broker, "keyed")
    assert sorted(one.key for one in records) == sorted(keys)
    assert all(one.partition == partition_for_key(one.key, 3) for one in records)


def test_a_record_that_fails_fails_the_task_in_one_line(broker: str) -> None:
    small = pa.record_batch({"value": pa.array([b"x"])})
    large = pa.record_batch({"value": pa.array([b"x" * 200_000])})
    with pytest.raises(PipelineError, match="kt sink: a record was not written to large") as caught:
        written(broker, small, large, topic="large")
    assert "\n" not in str(caught.value)
    assert "MESSAGE_TOO_LARGE" in str(caught.value)


def test_a_topic_that_is_none_fails_the_task_in_one_line(broker: str) -> None:
    rows = pa.record_batch({"value": pa.array([b"x"])})
    with pytest.raises(PipelineError, match="kt sink: a record was not written to no topic: INVALID_TOPIC"):
        written(broker, rows, topic="no topic")
