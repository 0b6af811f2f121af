"""`count` and `top-keys` over recorded directories, held against what Apache Kafka's dump tool printed of them."""

from __future__ import annotations

import pathlib
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support import recorded_segments
from support.dumped_records import DumpedBatch, batches_of, transaction_states

from kafkatools.pipeline.jobs.count import count_batches, count_exact
from kafkatools.pipeline.jobs.top_keys import by_key, key_skew, partition_skew, skew_of, top_keys
from kafkatools.pipeline.run.session import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

DIRECTORIES = {
    "transfers-0": ("topics", "txn-java", "log-all-print"),
    "payments-0": ("topics", "txn-librdkafka", "log-print"),
    "profiles-0": ("compacted", "compacted", "log-all-print"),
    "carts-0": ("compacted", "compacted-txn", "log-all-print"),
    "legacy-3": ("message-sets", "message-set-v1-gzip", "log-print"),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A log directory of recorded partitions."""
    directory = tmp_path_factory.mktemp("counted")
    for name, (_, source, _) in DIRECTORIES.items():
        (directory / name).symlink_to(recorded_segments.log_directory(source))
    return directory


def table(spark: SparkSession, root: pathlib.Path, name: str) -> DataFrame:
    register(spark)
    return spark.read.format("kafka-log").option("table", name).option("includeMetadata", "true").load(str(root))


def expected(batches: list[DumpedBatch]) -> dict[str, object]:
    """The same counts in plain Python."""
    states = transaction_states(batches)
    data = [batch for batch in batches if not batch.is_control]
    latest: dict[str, bool] = {}
    committed = [
        record
        for batch in data
        if states.get(batch.base_offset, "committed") == "committed"
        for record in batch.records
    ]
    for record in committed:
        if record.key is not None:
            latest[record.key] = record.value_size >= 0
    is_legacy = any(batch.count < 0 for batch in batches)
    return {
        "basis": "records" if is_legacy else "headers",
        "records": sum(len(batch.records) for batch in data),
        "controlRecords": sum(len(batch.records) for batch in batches if batch.is_control),
        "abortedRecords": sum(len(batch.records) for batch in data if states.get(batch.base_offset) == "aborted"),
        "openRecords": sum(len(batch.records) for batch in data if states.get(batch.base_offset) == "open"),
        "batches": len(batches),
        "bytes": sum(batch.size for batch in batches),
        "lastOffset": max(batch.last_offset for batch in batches),
        "withoutKey": sum(record.key is None for record in committed),
        "tombstones": sum(record.key is not None and record.value_size < 0 for record in committed),
        "distinctKeys": len(latest),
        "liveKeys": sum(latest.values()),
    }


def test_counts_are_those_of_apaches_dump(spark: SparkSession, root: pathlib.Path) -> None:
    batches = table(spark, root, "batches")
    counted = count_exact(table(spark, root, "records"), count_batches(batches))
    rows = {f"{row.topic}-{row.partition}": row.asDict() for row in counted.collect()}
    assert rows.keys() == DIRECTORIES.keys()
    for name, case in DIRECTORIES.items():
        told = {key: rows[name][key] for key in expected(batches_of(*case))}
        assert told == expected(batches_of(*case)), name
    assert rows["transfers-0"]["abortedRecords"] > 0 and rows["payments-0"]["openRecords"] > 0
    assert rows["profiles-0"]["tombstones"] > 0
    untold = {row.topic: row.abortedRecords for row in count_batches(batches.drop("transaction")).collect()}
    assert untold == {"transfers": None, "payments": None, "carts": None, "profiles": 0, "legacy": 0}


def test_a_live_topic_is_counted_by_its_records(spark: SparkSession, root: pathlib.Path) -> None:
    records = table(spark, root, "records").where("topic = 'transfers'")
    (row,) = count_exact(records, None, with_keys=False).collect()
    wanted = expected(batches_of(*DIRECTORIES["transfers-0"]))
    assert (row.basis, row.records, row.abortedRecords) == ("records", wanted["records"], wanted["abortedRecords"])
    assert row.controlRecords is None and row.bytes is None


def keys_of(batches: list[DumpedBatch]) -> tuple[Counter[str | None], Counter[str | None]]:
    records, sizes = Counter[str | None](), Counter[str | None]()
    for batch in batches:
        for record in batch.records if not batch.is_control else ():
            records[record.key] += 1
            sizes[record.key] += max(record.key_size, 0) + max(record.value_size, 0)
    return records, sizes


def test_top_keys_and_their_skew(spark: SparkSession, root: pathlib.Path) -> None:
    records, sizes = keys_of(batches_of(*DIRECTORIES["profiles-0"]))
    keys = by_key(table(spark, root, "records").where("topic = 'profiles'")).cache()

    def shown(rows: list[Row]) -> list[tuple[str, int, int]]:
        return [(bytes(row.key).decode(), row.records, row.bytes) for row in rows]

    order = sorted(records, key=lambda key: (-records[key], key or ""))[:5]
    assert shown(top_keys(keys, 5).collect()) == [(key, records[key], sizes[key]) for key in order]
    order = sorted(sizes, key=lambda key: (-sizes[key], key or ""))[:3]
    assert shown(top_keys(keys, 3, by="bytes").collect()) == [(key, records[key], sizes[key]) for key in order]
    skew, without = key_skew(keys)
    counts = sorted(records.values())
    pairs = sum(abs(one - other) for one in counts for other in counts)
    assert skew.gini == pytest.approx(pairs / (2 * len(counts) ** 2 * (sum(counts) / len(counts))))
    assert (skew.members, skew.total, skew.largest, without) == (len(counts), sum(counts), counts[-1], 0)
    keys.unpersist()


def test_measures_of_skew() -> None:
    even = skew_of({7: 100})
    assert (even.gini, even.median, even.p99, even.largest_share) == (pytest.approx(0), 7, 7, 0.01)
    one_has_most = skew_of({1: 99, 901: 1})
    assert one_has_most.gini == pytest.approx(0.891) and one_has_most.largest_share == 0.901
    assert (one_has_most.median, one_has_most.p99, one_has_most.p99_to_median) == (1, 1, 1)
    assert skew_of({1: 98, 50: 2}).p99 == 50
    assert skew_of({}).gini == 0


def test_skew_of_partitions(spark: SparkSession) -> None:
    rows = [("a", 0, 10, 1000), ("a", 1, 30, 1000), ("b", 0, 0, 0)]
    skews = partition_skew(spark.createDataFrame(rows, "topic string, partition int, records bigint, bytes bigint"))
    assert [tuple(row) for row in skews.collect()] == [("a", 2, 40, 0.75, 2000, 0.5), ("b", 1, 0, None, 0, None)]
