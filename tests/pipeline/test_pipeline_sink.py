"""Rows written to topics by `kt`, read back by another client; the same rows as Spark's official sink writes."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.embedded import embedded_broker
from support.requirements import require

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.transactions import list_transactions
from kafkatools.core.clock import SystemClock
from kafkatools.pipeline.run.session import plain_error, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from support.official_spark import OfficialSpark

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("official")]

PARTITIONS = 3


class Written(NamedTuple):
    """A record as another client reads it; the partition only where something chose it."""

    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("sink"), num_partitions=str(PARTITIONS)) as bootstrap:
        yield bootstrap


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


def read_back(bootstrap: str, topic: str, chosen: int | None = None) -> list[Written]:
    """The committed records of a topic, by librdkafka. `chosen`: the partition that was asked for by number."""
    try:
        import confluent_kafka as other
    except ImportError:
        require("confluent-kafka is not installed")
    settings = {"group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = other.Consumer({"bootstrap.servers": bootstrap, "enable.auto.commit": False, **settings})
    found: list[Written] = []
    try:
        consumer.assign([other.TopicPartition(topic, number, other.OFFSET_BEGINNING) for number in range(PARTITIONS)])
        ended: set[int] = set()
        while len(ended) < PARTITIONS:
            for one in consumer.consume(500, timeout=1):
                if one.error() is not None:
                    assert one.error().code() == other.KafkaError._PARTITION_EOF, one.error()
                    ended.add(one.partition())
                    continue
                known = one.partition() if one.key() is not None or one.partition() == chosen else None
                found.append(Written(known, one.key(), one.value(), tuple(one.headers() or ())))
    finally:
        consumer.close()
    return sorted(found, key=repr)


def write_mixed(spark: Any, source: str, bootstrap: str, topic: str) -> None:
    """Rows with whatever keys, values, headers and partitions may be; the source of this travels to Spark 4.0.0."""
    if source == "kt":
        from kafkatools.pipeline.run.session import register

        register(spark)
    rows = spark.range(300).selectExpr(
        "case when id % 3 = 0 then null when id % 7 = 0 then '' else concat('key-', id % 20) end as key",
        "case when id % 17 = 0 then null when id % 19 = 0 then cast('' as binary) "
        "else cast(repeat(concat('é', id), cast(id % 40 as int)) as binary) end as value",
        "case when id % 4 = 0 then array(named_struct('key', 'h', 'value', cast(string(id) as binary)), "
        "named_struct('key', 'h', 'value', cast(null as binary))) when id % 4 = 1 then array() end as headers",
        "case when id % 3 = 0 then 2 end as partition",
        f"'{topic}' as topic",
    )
    rows.repartition(3).write.format(source).option("kafka.bootstrap.servers", bootstrap).mode("append").save()


def write_stream(spark: Any, bootstrap: str, topic: str, directory: str, exactly_once: str) -> None:
    """Lines of files, as epochs of one file each; this, too, travels."""
    from kafkatools.pipeline.run.session import register

    register(spark)
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(f"{directory}/lines")
    writer = lines.writeStream.format("kt").option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
    writer = writer.option("exactlyOnce", exactly_once).option("checkpointLocation", f"{directory}/checkpoint-{topic}")
    writer.trigger(availableNow=True).start().awaitTermination()


def lines_in(directory: pathlib.Path) -> list[bytes]:
    target = directory / "lines"
    if not target.exists():
        target.mkdir()
        for number in range(3):
            text = "".join(f"{number}.{line}\n" for line in range(10))
            (target / f"{number}.txt").write_text(text)
    return sorted(b"%d.%d" % (number, line) for number in range(3) for line in range(10))


def test_the_same_records_as_spark_s_own_sink_writes(
    broker: str, session: SparkSession, official: OfficialSpark, tmp_path: pathlib.Path
) -> None:
    write_mixed(session, "kt", broker, "newest")
    wanted_lines = lines_in(tmp_path)
    official.call(write_mixed, source="kafka", bootstrap=broker, topic="official")
    official.call(write_mixed, source="kt", bootstrap=broker, topic="oldest")
    arguments = {"bootstrap": broker, "directory": str(tmp_path)}
    official.call(write_stream, topic="oldest-stream", exactly_once="true", **arguments)
    expected = read_back(broker, "official", chosen=2)
    assert len(expected) == 300
    assert read_back(broker, "newest", chosen=2) == expected
    assert read_back(broker, "oldest", chosen=2) == expected
    assert [one.value for one in read_back(broker, "oldest-stream")] == wanted_lines


@pytest.mark.parametrize("exactly_once", ["true", "false"])
def test_a_stream_is_written_and_goes_on(
    broker: str, session: SparkSession, tmp_path: pathlib.Path, exactly_once: str
) -> None:
    wanted, topic = lines_in(tmp_path), f"stream-{exactly_once}"
    write_stream(session, broker, topic, str(tmp_path), exactly_once)
    assert [one.value for one in read_back(broker, topic)] == wanted
    (tmp_path / "lines" / "later.txt").write_text("later\n")
    write_stream(session, broker, topic, str(tmp_path), exactly_once)
    assert [one.value for one in read_back(broker, topic)] == [*wanted, b"later"]


def test_a_job_with_exactly_once_writes_all_or_nothing(broker: str, session: SparkSession) -> None:
    sink = {"kafka.bootstrap.servers": broker, "topic": "job", "exactlyOnce": "true"}
    rows = session.range(0, 20, 1, 2).selectExpr("string(id) as value")
    many = session.range(0, 400_000, 1, 2)  # while one task fails the other one writes
    broken = many.selectExpr("if(id = 200000, repeat('x', 2000000), string(id)) as value")
    with pytest.raises(Exception, match="not written to job"):
        broken.write.format("kt").options(**sink).mode("append").save()
    assert read_back(broker, "job") == []
    with AdminClient(broker, {}, SystemClock()) as admin:
        assert list_transactions(admin, states=("Ongoing",)).transactions == []
    rows.write.format("kt").options(**sink).mode("append").save()
    assert [one.value for one in read_back(broker, "job")] == sorted(b"%d" % number for number in range(20))


def test_timestamps_are_taken(broker: str, session: SparkSession) -> None:
    from kafkatools import Consumer

    rows = session.sql("select 'a' as value, timestamp_millis(1700000000123) as timestamp")
    rows.write.format("kt").options(**{"kafka.bootstrap.servers": broker, "topic": "timed"}).mode("append").save()
    with Consumer(bootstrap_servers=broker) as consumer:
        assert (
            sum(
                found.offset == 0
                for found in consumer.offsets_for_times({("timed", n): 1700000000123 for n in range(3)}).values()
                if found
            )
            == 1
        )


@pytest.mark.parametrize(
    ("query", "mode", "options", "message"),
    [
        ("select 'a' as value", "overwrite", {"topic": "t"}, "kt sink: a topic cannot be overwritten; use mode append"),
        ("select 'a' as value", "append", {}, "kt sink: the topic is missing: set the option `topic`, or add a column"),
        (
            "select 1 as value",
            "append",
            {"topic": "t"},
            "kt sink: the column `value` is int, it must be string or binary",
        ),
        ("select 'a' as value, 1 as n", "append", {"topic": "t"}, "kt sink: a record has no place for `n`"),
        ("select 'a' as value, string(null) as topic", "append", {}, "kt sink: a row has no topic (null)"),
        ("select repeat('a', 2000000) as value", "append", {"topic": "t"}, "kt sink: a record was not written to t"),
        ("select 'a' as value", "append", {"topic": "t", "kafka.lingr.ms": "1"}, "kt sink: kafka.*: Unknown producer"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line(
    broker: str, session: SparkSession, query: str, mode: str, options: dict[str, str], message: str
) -> None:
    given = {"kafka.bootstrap.servers": broker, "strictOptions": "true", **options}
    with pytest.raises(Exception, match="kt sink") as caught:
        session.sql(query).write.format("kt").options(**given).mode(mode).save()
    said = plain_error(caught.value)
    assert said.startswith(message)
    assert "\n" not in said
