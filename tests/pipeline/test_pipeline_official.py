"""Row for row what Spark's official connector reads: from the files of an Apache Kafka, and live from it.

The connector runs under Spark 4.0.0, the pipeline's sources under that and under the newest PySpark.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from support.apache_kafka import ApacheKafka
from support.pruning_cases import CASES
from support.recorded_logs import unpack_log
from support.waiting import eventually

from kafkatools.pipeline.run.session import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from support.official_spark import OfficialSpark

pytestmark = [
    pytest.mark.real_kafka,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("official"),  # many: they are not to wait for all others with a Spark session
]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = 1_700_000_000_000
COLUMNS = "key, value, topic, partition, offset, unix_micros(timestamp) as timestamp, timestampType, headers"
TOPICS = "mixed,txn.small-segments,append,compacted"
SETTINGS = {
    "mixed": {},
    "txn.small-segments": {"internal.segment.bytes": "2000", "index.interval.bytes": "300"},
    "append": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {
        "cleanup.policy": "compact",
        "internal.segment.bytes": "2000",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "1000000000",
    },
}
PARTITIONS = {"mixed": 3}
HEADERS: tuple[list[tuple[str, bytes | None]] | None, ...] = (
    None,
    [],
    [("a", b"1")],
    [("repeated", b"1"), ("repeated", None), ("", b""), ("ключ", bytes(range(256)))],
)


def producer(bootstrap: str, **settings: Any) -> Any:
    from confluent_kafka import Producer

    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "message.timeout.ms": 60_000,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def write_mixed(bootstrap: str) -> None:
    """Every codec, and whatever a key, a value and headers may be."""
    for number, codec in enumerate(CODECS):
        client = producer(bootstrap, compression_type=codec)
        for row in range(40):
            key = (None, b"", b"key-%d" % row)[row % 3]
            value = (b"value %d " % row * (row % 7), None, b"")[0 if row % 5 else 1 + row % 2]
            client.produce(
                "mixed", value, key, partition=row % 3, timestamp=START_MS + number * 1000 + row * 7 % 100,
                headers=HEADERS[row % 4],
            )  # fmt: skip
            client.produce("append", value, key, timestamp=START_MS, headers=HEADERS[row % 4])
        client.flush(60)


def write_transactions(bootstrap: str) -> Any:
    """Transactions of two producers, interleaved, some committed, some aborted; one is open and gives its producer."""
    plain = producer(bootstrap)
    ones = [producer(bootstrap, transactional_id=f"x{number}", transaction_timeout_ms=800_000) for number in (0, 1)]
    for client in ones:
        client.init_transactions(60)
    for turn in range(6):
        write_turn(turn, ones, plain)
    ones[0].begin_transaction()
    for client, rows in ((ones[0], 2), (plain, 1)):
        for row in range(rows):
            client.produce("txn.small-segments", b"undecided %d" % row, timestamp=START_MS + 100)
        client.flush(60)
    return ones[0]


def write_turn(turn: int, ones: list[Any], plain: Any) -> None:
    """One transaction each, batch by batch in turn."""
    topic = "txn.small-segments"
    for client in ones:
        client.begin_transaction()
    for row in range(6):
        for number, client in enumerate(ones):
            client.produce(topic, b"turn %d row %d of %d" % (turn, row, number), timestamp=START_MS + turn)
            client.flush(60)
        if row % 4 == 0:
            plain.produce(topic, b"plain %d" % turn, b"k", timestamp=START_MS + turn)
            plain.flush(60)
    for number, client in enumerate(ones):
        if (turn + number) % 3 == 0:
            client.abort_transaction(60)
        else:
            client.commit_transaction(60)


def write_compacted(cluster: ApacheKafka) -> None:
    """Keys again and again, until the cleaner has been there."""
    client = producer(cluster.bootstrap)
    for turn in range(12):
        for row in range(20):
            value = None if (turn + row) % 9 == 0 else b"turn %d" % turn
            client.produce("compacted", value, b"key %d" % (row % (turn + 1)), timestamp=START_MS + turn * 50)
        client.flush(60)
    checkpoint = cluster.log_dir() / "cleaner-offset-checkpoint"
    eventually(lambda: checkpoint.exists() and "compacted 0 " in checkpoint.read_text(), 60)


@pytest.fixture(scope="module")
def cluster(official: OfficialSpark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """An Apache Kafka with the topics, the last transaction still open."""
    node = ApacheKafka(
        tmp_path_factory.mktemp("kafka"),
        settings={"log.cleaner.backoff.ms": "200", "log.message.timestamp.before.max.ms": str((1 << 63) - 1)},
    )
    node.start()
    try:
        create_topics(node.bootstrap)
        write_trimmed(node.bootstrap)
        write_mixed(node.bootstrap)
        opened = write_transactions(node.bootstrap)
        write_compacted(node)
        yield node
        del opened
    finally:
        node.stop()


def write_trimmed(bootstrap: str) -> None:
    """Ten records, of which the first five are deleted."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin_create(bootstrap, "trimmed", partitions=1)
    client = producer(bootstrap)
    for row in range(10):
        client.produce("trimmed", b"row %d" % row, timestamp=START_MS)
    client.flush(60)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records([TopicPartition("trimmed", 0, 5)]).values():
        done.result(60)


def admin_create(bootstrap: str, *names: str, partitions: int = 2) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    topics = [NewTopic(name, num_partitions=partitions, replication_factor=1) for name in names]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_topics(topics).values():
        done.result(60)


def create_topics(bootstrap: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    topics = [
        NewTopic(name, num_partitions=PARTITIONS.get(name, 1), replication_factor=1, config=config)
        for name, config in SETTINGS.items()
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_topics(topics).values():
        done.result(60)


def rows_of(table: Any) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: (row["topic"], row["partition"], row["offset"]))


def read_here(spark: SparkSession, source: str, options: dict[str, str], where: str) -> list[dict[str, Any]]:
    register(spark)
    frame = spark.read.format(source).options(**options).load().where(where)
    return rows_of(frame.selectExpr(*(part.strip() for part in COLUMNS.split(","))).toArrow())


COMMITTED = {"kafka.isolation.level": "read_committed"}
STARTS = {"mixed": {"0": 3, "1": -2, "2": 40}, "append": {"0": 17}}
ENDS = {"mixed": {"0": -1, "1": 50, "2": 41}, "append": {"0": 18}}
TIMES = {"mixed": {"0": START_MS + 1050, "1": START_MS + 2000, "2": 0}}
READS: dict[str, tuple[dict[str, str], str]] = {
    "everything": ({"subscribe": TOPICS}, "true"),
    "committed": ({"subscribe": TOPICS, **COMMITTED}, "true"),
    "pattern": (
        {
            "subscribePattern": r"ixe|^(a|txn)",
            "startingTimestamp": str(START_MS + 3),
            "minPartitions": "7",
        },
        "partition >= 1 OR offset BETWEEN 5 AND 60",
    ),
    "offsets": (
        {
            "assign": '{"mixed": [0, 1, 2], "append": [0]}',
            "startingOffsets": json.dumps(STARTS),
            "endingOffsets": json.dumps(ENDS),
        },
        f"timestamp < timestamp_millis({START_MS + 3000}) OR topic = 'append'",
    ),
    "times": (
        {"subscribe": "mixed", "startingOffsetsByTimestamp": json.dumps(TIMES)},
        f"timestamp >= timestamp_micros({START_MS + 1001}001) AND partition IN (0, 2) AND offset <> 60",
    ),
}


@pytest.mark.parametrize("case", READS)
def test_rows_are_those_of_the_official_connector(
    case: str, official: OfficialSpark, cluster: ApacheKafka, spark: SparkSession
) -> None:
    options, where = READS[case]
    options = {**options, "includeHeaders": "true"}
    live = {**options, "kafka.bootstrap.servers": cluster.bootstrap}
    files = {**options, "path": str(cluster.log_dir())}
    expected = rows_of(official.rows("kafka", live, COLUMNS, where))
    assert len(expected) > 10
    assert rows_of(official.rows("kafka-log", files, COLUMNS, where)) == expected
    assert read_here(spark, "kafka-log", files, where) == expected
    assert read_here(spark, "kt", live, where) == expected


def test_streams_are_those_of_the_official_connector(
    official: OfficialSpark, cluster: ApacheKafka, tmp_path: pathlib.Path
) -> None:
    """Batch by batch: what a limit takes of each partition, and where what is committed ends."""
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "subscribe": "mixed,txn.small-segments",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "120",
        "includeHeaders": "true",
        **COMMITTED,
    }
    seen = {
        source: official.call(
            batches_there, source=source, options=options, columns=COLUMNS, checkpoint=str(tmp_path / source)
        )
        for source in ("kafka", "kt")
    }
    assert len(seen["kafka"]) > 1
    assert seen["kt"] == seen["kafka"]


OPTIONS: dict[str, dict[str, str]] = {
    "assign": {"assign": '{"mixed": [0, 2]}'},
    "subscribe": {"subscribe": " mixed , append,"},
    "subscribePattern": {"subscribePattern": " mix|app "},
    "subscribePattern without a match": {"subscribePattern": "nothing.*"},
    "startingOffsets": {"startingOffsets": json.dumps({"mixed": {"0": 3, "1": -2, "2": 40}})},
    "startingOffsets in capitals": {"STARTINGOFFSETS": "EARLIEST", "endingoffsets": " Latest "},
    "endingOffsets": {"endingOffsets": json.dumps({"mixed": {"0": 3, "1": -1, "2": 40}})},
    "startingTimestamp": {"startingTimestamp": str(START_MS + 2050), "startingOffsets": "latest"},
    "startingTimestamp of the earliest offset": {"startingTimestamp": "-2"},
    "endingTimestamp": {"endingTimestamp": str(START_MS + 2050), "endingOffsets": "earliest"},
    "startingOffsetsByTimestamp": {
        "startingOffsetsByTimestamp": json.dumps({"mixed": {"0": START_MS + 1050, "1": START_MS + 2000, "2": 0}})
    },
    "endingOffsetsByTimestamp": {
        "endingOffsetsByTimestamp": json.dumps({"mixed": {"0": START_MS + 1050, "1": START_MS + 9000, "2": -1}})
    },
    "startingOffsetsByTimestampStrategy": {
        "startingTimestamp": str(START_MS + 4090),
        "startingOffsetsByTimestampStrategy": "Latest",
    },
    "failOnDataLoss": {
        "subscribe": "trimmed",
        "failOnDataLoss": "false",
        "startingOffsets": '{"trimmed": {"0": 2}}',
        "kafkaConsumer.pollTimeoutMs": "2000",
    },
    "minPartitions": {"minPartitions": "7"},
    "includeHeaders": {"includeHeaders": "True"},
    "groupIdPrefix": {"groupIdPrefix": "mine", "kafka.group.id": "mine"},
    "maxOffsetsPerTrigger": {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "2", "maxTriggerDelay": "1s"},
    "fetchOffset": {"fetchOffset.numRetries": "0", "fetchOffset.retryIntervalMs": "10"},
    "kafka": {"kafka.max.poll.records": "7", "kafka.client.id": "x", "kafka.isolation.level": "read_committed"},
    "unknown": {"colour": "red", "path": "/nowhere", "topic": "x", "kafka.acks": "all", "kafka.colour": "red"},
}
"""Each option of Spark's source in a batch query, by name; those of a test without a subscription read `mixed`."""


@pytest.mark.parametrize("case", OPTIONS)
def test_each_option_has_the_effect_that_it_has_on_the_official_connector(
    case: str, official: OfficialSpark, cluster: ApacheKafka, spark: SparkSession
) -> None:
    options = {"kafka.bootstrap.servers": cluster.bootstrap, **OPTIONS[case]}
    if not options.keys() & {"assign", "subscribe", "subscribePattern"}:
        options["subscribe"] = "mixed"
    expected = official.call(table_there, options=options)
    register(spark)
    found = spark.read.format("kt").options(**options).load()
    assert found.schema.json() == expected["schema"]
    assert sorted(row.json for row in found.selectExpr("to_json(struct(*)) AS json").collect()) == expected["rows"]
    assert bool(expected["rows"]) == (case != "subscribePattern without a match")
    if case == "minPartitions":
        assert found.rdd.getNumPartitions() == expected["partitions"] > 3


def table_there(spark: Any, options: dict[str, str]) -> Any:
    """Runs in the process: schema, rows and number of tasks of a batch read by the connector."""
    frame = spark.read.format("kafka").options(**options).load()
    rows = sorted(row.json for row in frame.selectExpr("to_json(struct(*)) AS json").collect())
    return {"schema": frame.schema.json(), "rows": rows, "partitions": frame.rdd.getNumPartitions()}


STREAM_OPTIONS: dict[str, dict[str, str]] = {
    "startingOffsets": {"startingOffsets": json.dumps({"mixed": {"0": 3, "1": -2, "2": -1}})},
    "startingTimestamp": {"startingTimestamp": str(START_MS + 2050), "endingTimestamp": str(START_MS)},
    "minOffsetsPerTrigger": {
        "startingOffsets": "earliest", "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "90",
        "maxTriggerDelay": "1ms", "includeHeaders": "true", "groupIdPrefix": "mine", "colour": "red",
    },
}  # fmt: skip


@pytest.mark.parametrize("case", STREAM_OPTIONS)
def test_each_option_of_a_stream_has_the_effect_that_it_has_on_the_official_connector(
    case: str, official: OfficialSpark, cluster: ApacheKafka, tmp_path: pathlib.Path
) -> None:
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "mixed", **STREAM_OPTIONS[case]}
    kafka, kt = (
        official.call(batches_there, source=source, options=options, columns="*", checkpoint=str(tmp_path / source))
        for source in ("kafka", "kt")
    )
    assert kafka == kt
    assert sum(map(len, kafka)) > 5


def test_a_stream_continues_from_the_checkpoint_of_the_official_connector(
    official: OfficialSpark, cluster: ApacheKafka, spark: SparkSession, tmp_path: pathlib.Path
) -> None:
    """The connector reads under Spark 4.0, `kt` continues under the newest PySpark, then the connector again."""
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "subscribe": "continued",
        "startingOffsets": "earliest",
    }
    admin_create(cluster.bootstrap, "continued")

    def write(*values: str) -> None:
        client = producer(cluster.bootstrap)
        for value in values:
            client.produce("continued", value.encode())
        client.flush(60)

    checkpoint, columns = str(tmp_path / "checkpoint"), "cast(value AS STRING) AS value"
    write("a", "b")
    first = official.call(batches_there, source="kafka", options=options, columns=columns, checkpoint=checkpoint)
    assert first == [['{"value":"a"}', '{"value":"b"}']]
    write("c")
    register(spark)
    assert batches_of(spark, "kt", options, columns, checkpoint) == [['{"value":"c"}']]
    write("d", "e")
    assert batches_of(spark, "kt", options, columns, checkpoint) == [['{"value":"d"}', '{"value":"e"}']]
    write("f")
    last = official.call(batches_there, source="kafka", options=options, columns=columns, checkpoint=checkpoint)
    assert last == [['{"value":"f"}']]


SINKS: dict[str, tuple[str, dict[str, str]]] = {
    "topic option": ("SELECT 'a' AS value, 7 AS topic", {"topic": " TARGET "}),
    "topic column": ("SELECT 'k' AS key, 'a' AS value, 'TARGET' AS topic", {}),
    "bytes": ("SELECT x'ff00' AS key, CAST(null AS BINARY) AS value", {"topic": "TARGET"}),
    "partition": ("SELECT 'a' AS value, 1 AS partition", {"topic": "TARGET"}),
    "headers": (
        "SELECT 'a' AS value, array(named_struct('key', 'h', 'value', x'01')) AS headers",
        {"topic": "TARGET", "includeHeaders": "true"},
    ),
    "extra columns": ("SELECT 'a' AS value, 7 AS n, 'soon' AS timestamp", {"topic": "TARGET"}),
    "kafka": ("SELECT 'a' AS value", {"topic": "TARGET", "kafka.acks": "1", "kafka.compression.type": "gzip"}),
    "unknown": (
        "SELECT 'a' AS value",
        {"topic": "TARGET", "colour": "red", "kafka.group.id": "x", "kafka.colour": "red", "subscribe": "x"},
    ),
}
"""A query and options of the sink; each connector has its own topic in place of TARGET."""
HAVE_PARTITIONS = ("topic column", "bytes", "partition")  # by the key or the row; else any partition


@pytest.mark.parametrize("case", SINKS)
def test_each_option_and_column_of_the_sink_writes_what_the_official_connector_writes(
    case: str, official: OfficialSpark, cluster: ApacheKafka, spark: SparkSession
) -> None:
    """Without a mode, as programs that use the connector write."""
    query, options = SINKS[case]
    topics = [f"{source}-{list(SINKS).index(case)}" for source in ("kafka", "kt")]
    admin_create(cluster.bootstrap, *topics)
    texts = [json.dumps([query, {"kafka.bootstrap.servers": cluster.bootstrap, **options}])] * 2
    (query, theirs), (query_here, ours) = (
        json.loads(text.replace("TARGET", topic)) for text, topic in zip(texts, topics, strict=True)
    )
    official.call(write_there, query=query, options=theirs)
    register(spark)
    spark.sql(query_here).write.format("kt").options(**ours).save()
    kafka, kt = (consumed(cluster.bootstrap, topic, has_partition=case in HAVE_PARTITIONS) for topic in topics)
    assert kt == kafka
    assert len(kt) == 1


def write_there(spark: Any, query: str, options: dict[str, str]) -> None:
    """Runs in the process."""
    spark.sql(query).write.format("kafka").options(**options).save()


def consumed(bootstrap: str, topic: str, *, has_partition: bool) -> list[tuple[Any, ...]]:
    """The records of a topic of two partitions, by librdkafka; with their partitions, if the row chose one."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    records: list[tuple[Any, ...]] = []
    ended = 0
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(2)])
        while ended < 2:
            message = consumer.poll(30)
            assert message is not None
            if message.error() is not None:
                ended += 1
                continue
            record = (message.key(), message.value(), message.headers())
            records.append((message.partition(), *record) if has_partition else record)
    finally:
        consumer.close()
    return records


def batches_of(spark: SparkSession, source: str, options: dict[str, str], columns: str, checkpoint: str) -> Any:
    return batches_there(spark, source, options, columns, checkpoint)


def batches_there(spark: Any, source: str, options: dict[str, str], columns: str, checkpoint: str) -> Any:
    """Runs in the process: what a stream reads of what is there, a list for each batch."""
    from kafkatools.pipeline.run.session import register

    register(spark)
    seen: list[list[str]] = []
    rows = spark.readStream.format(source).options(**options).load().selectExpr(f"to_json(struct({columns})) AS row")
    writer = rows.writeStream.foreachBatch(lambda batch, _: seen.append(sorted(row[0] for row in batch.collect())))
    query = writer.option("checkpointLocation", checkpoint).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return seen


def test_the_data_has_what_it_is_meant_to_have(
    cluster: ApacheKafka, spark: SparkSession, tmp_path: pathlib.Path
) -> None:
    """Several segments, holes, transactions of every end: else the comparison would show nothing."""
    register(spark)
    frame = spark.read.format("kafka-log").options(path=str(cluster.log_dir()), includeMetadata="true").load()
    rows = [row.asDict() for row in frame.drop("value").collect()]
    assert len(list((cluster.log_dir() / "txn.small-segments-0").glob("*.log"))) > 3
    assert {row["transaction"] for row in rows} == {None, "open", "aborted", "committed"}
    kept = [row["offset"] for row in rows if row["topic"] == "compacted"]
    assert max(kept) > len(kept) + 20
    assert {row["timestampType"] for row in rows} == {0, 1}


def test_queries_need_what_they_use_under_spark_4_0(official: OfficialSpark, tmp_path: pathlib.Path) -> None:
    """What SQL reads of its columns, and what its filters say, which 4.0 does not tell a source."""
    path = str(unpack_log("txn-java", tmp_path))
    for statement, told in zip(CASES, official.call(needs_there, path=path), strict=True):
        columns, bounds = CASES[statement]
        assert told == {"columns": columns, "bounds": bounds, "is_pruned": True, "is_same": True}, statement


def needs_there(spark: Any, path: str) -> Any:
    """Runs in the process."""
    from support.pruning_cases import CASES, run

    return run(spark, path, list(CASES))
