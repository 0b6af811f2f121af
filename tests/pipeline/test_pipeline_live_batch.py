"""A batch read of a live topic, its tasks run by hand: transactions, what goes away meanwhile, damage, reports.

That the rows are those of Spark's own connector is shown by test_pipeline_official.py.
"""

from __future__ import annotations

import json
import pathlib
import pickle
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.raw_client import RawClient

from kafkatools import Producer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import delete_records, delete_topics
from kafkatools.core.clock import SystemClock
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.recorded_stream import _CommittedBatches, _read_source
from kafkatools.pipeline.run.reports import read_reports
from kafkatools.pipeline.run.spec import Source
from kafkatools.pipeline.sources.live.options import read_options
from kafkatools.pipeline.sources.live.reader import close_idle
from kafkatools.pipeline.sources.live.source import LiveReader
from kafkatools.pipeline.sources.schema import spark_schema
from kafkatools.pipeline.uris import Cluster, Uri


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("live")


@pytest.fixture(scope="module")
def broker(directory: pathlib.Path) -> Iterator[str]:
    with embedded_broker(directory, auto_create_topics_enable="false") as bootstrap:
        yield bootstrap
    close_idle()


@pytest.fixture
def topic(broker: str) -> str:
    """One partition, twenty records in batches of five."""
    name = f"batch-{uuid.uuid4().hex[:8]}"
    with RawClient(broker) as client:
        client.create_topic(name, 1)
        for first in range(0, 20, 5):
            client.produce_rows(name, 0, [(1000 + n, b"k", b"%d" % n, ()) for n in range(first, first + 5)])
    return name


def reader(bootstrap: str, topic: str, columns: str = "", **options: str) -> LiveReader:
    """As a planner makes it; a `kafka_` in an option's name is `kafka.`."""
    schema = spark_schema(True, True)
    if columns:
        schema = type(schema)([schema[name] for name in columns.split(",")])
    given = {name.replace("kafka_", "kafka.").replace("__", "."): value for name, value in options.items()}
    given |= {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return LiveReader(schema, read_options(given, is_streaming=False))


def offsets(topic: str, offset: int, partition: int = 0) -> str:
    """As options have them."""
    return json.dumps({topic: {str(partition): offset}})


def rows(planned: LiveReader, splits: Any = None) -> list[dict[str, Any]]:
    """What the executors give, each with a copy of the reader."""
    splits = planned.partitions() if splits is None else splits
    batches = [batch for split in splits for batch in pickle.loads(pickle.dumps(planned)).read(split)]
    return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row.get("offset", 0))


def transactional(bootstrap: str, topic: str) -> tuple[dict[int, str | None], Producer]:
    """Transactions of two producers between plain records; what became of each record, and a producer whose
    transaction is open."""
    name = uuid.uuid4().hex
    ones = [Producer(bootstrap_servers=bootstrap, transactional_id=f"{name}-{n}") for n in range(2)]
    fates: dict[int, str | None] = dict.fromkeys(range(20))
    with Producer(bootstrap_servers=bootstrap) as plain:
        for one in ones:
            one.init_transactions()
        for turn, ends in enumerate([("aborted", "committed"), ("committed", "aborted"), ("aborted", "open")]):
            for one in ones:
                one.begin_transaction()
            sent: list[tuple[int, str | None]] = []
            for number in range(4):
                for one, end in zip(ones, ends, strict=True):
                    sent.append((one.send(topic, b"turn %d" % turn).result().offset, end))
                if number == 2:
                    sent.append((plain.send(topic, b"plain").result().offset, None))
            fates.update(sent)
            for one, end in zip(ones, ends, strict=True):
                if end == "committed":
                    one.commit_transaction()
                elif end == "aborted":
                    one.abort_transaction()
    ones[0].close()
    return fates, ones[1]


def test_what_became_of_transactions_is_told(broker: str, topic: str) -> None:
    fates, opened = transactional(broker, topic)
    told = {row["offset"]: row["transaction"] for row in rows(reader(broker, topic, "offset,transaction"))}
    assert told == fates
    # Wherever a range begins, and whichever task reads it.
    split = reader(broker, topic, "offset,transaction", minPartitions="9")
    assert {row["offset"]: row["transaction"] for row in rows(split)} == fates
    stable = min(offset for offset, fate in fates.items() if fate == "open")
    kept = {offset: fate for offset, fate in fates.items() if offset < stable and fate != "aborted"}
    committed = reader(broker, topic, "offset,transaction", kafka_isolation__level="read_committed")
    assert {row["offset"]: row["transaction"] for row in rows(committed)} == kept
    assert [row["offset"] for row in rows(reader(broker, topic, "offset", isolationLevel="read_committed"))] == [*kept]
    assert [row["offset"] for row in rows(reader(broker, topic, "offset"))] == [*fates]
    opened.close(0)


def test_metadata_is_that_of_the_batches(broker: str) -> None:
    name = f"batch-{uuid.uuid4().hex[:8]}"
    with RawClient(broker) as client:
        client.create_topic(name, 1)
    with Producer(bootstrap_servers=broker, compression_type="zstd", linger_ms=10_000) as producer:
        for _ in range(2):
            sent = [producer.send(name, b"v", headers=[("h", None)]) for _ in range(3)]
            producer.flush()
            assert [one.result().offset for one in sent][0] in (0, 3)
    found = rows(reader(broker, name, endingOffsets=offsets(name, 5)))
    assert [(row["batchPosition"], row["sequence"]) for row in found] == [(0, 0), (0, 1), (0, 2), (3, 3), (3, 4)]
    assert {(row["leaderEpoch"], row["producerEpoch"], row["transaction"]) for row in found} == {(0, 0, None)}
    assert found[0]["headers"] == [{"key": "h", "value": None}]


def test_ends_are_taken_once(broker: str, topic: str) -> None:
    planned = reader(broker, topic, "offset")
    splits = planned.partitions()
    with RawClient(broker) as client:
        client.produce_rows(topic, 0, [(1, None, b"late", ())])
    assert [row["offset"] for row in rows(planned, splits)] == list(range(20))


def test_a_topic_deleted_meanwhile_is_an_error_or_the_end(broker: str, topic: str) -> None:
    strict, lenient = reader(broker, topic, "offset"), reader(broker, topic, "offset", failOnDataLoss="false")
    splits = strict.partitions()
    with AdminClient(broker, {}, SystemClock()) as admin:
        assert delete_topics(admin, [topic])[topic].error is None
    with pytest.raises(
        PipelineError, match=rf"Offsets 0 to 19 of {topic}-0 cannot be read: the topic no longer exists"
    ):
        rows(strict, splits)
    assert rows(lenient, splits) == []
    with pytest.raises(PipelineError, match=f"subscribe: topic {topic} does not exist"):
        strict.partitions()


def test_a_start_that_retention_moves_is_an_error_or_the_new_start(broker: str, topic: str) -> None:
    strict, lenient = reader(broker, topic, "offset"), reader(broker, topic, "offset", failOnDataLoss="false")
    splits = strict.partitions()
    with AdminClient(broker, {}, SystemClock()) as admin:
        assert delete_records(admin, {(topic, 0): 8})[topic, 0].error is None
    with pytest.raises(PipelineError, match=rf"Offsets 0 to 7 of {topic}-0 cannot be read: the log starts at offset 8"):
        rows(strict, splits)
    assert [row["offset"] for row in rows(lenient, splits)] == list(range(8, 20))


def test_rows_before_lost_offsets_are_read_and_counted(broker: str, topic: str, tmp_path: pathlib.Path) -> None:
    """The end of the log is lost after the query was planned."""
    planned = reader(broker, topic, "offset", failOnDataLoss="false", reportPath=str(tmp_path))
    (split,) = planned.partitions()
    found = rows(planned, [replace(split, end=25, whole_end=25)])  # type: ignore[type-var]
    assert [row["offset"] for row in found] == list(range(20))
    (report,) = read_reports(str(tmp_path))
    assert (report.records, report.first_offset, report.last_offset) == (20, 0, 19)


def test_offsets_that_a_topic_has_no_more_are_not_counted_for_the_manifest_of_a_stream(broker: str, topic: str) -> None:
    source = Source("input", Uri("topic", topic), cluster=Cluster(broker, {}))
    committed = _CommittedBatches(0, {"input": {topic: {"0": 5}}}, {"input": {topic: {"0": 25}}})
    found, reason = _read_source(None, source, "", committed, {})  # type: ignore[arg-type]
    assert reason == f"offsets 5 to 24 of {topic}-0 are needed, and the log has 0 to 20"
    (row,) = found.partitions
    assert (found.records, row["start_offset"], row["end_offset"], row["records"]) == (None, 5, 25, None)


def test_offsets_outside_of_the_log_are_named(broker: str, topic: str) -> None:
    outside = {"endingOffsets": offsets(topic, 25)}
    with pytest.raises(
        PipelineError, match=f"endingOffsets: offset 25 of {topic}-0 is not in the log, which has 0 to 20"
    ):
        reader(broker, topic, **outside).partitions()
    assert len(rows(reader(broker, topic, "offset", failOnDataLoss="false", **outside))) == 20
    missing = {"startingOffsets": offsets(topic, 0, partition=1)}
    with pytest.raises(PipelineError, match=f"startingOffsets must name every partition that is read: {topic}-0"):
        reader(broker, topic, **missing).partitions()


@pytest.mark.parametrize("ending", ["endingTimestamp", "endingOffsets"])
def test_an_end_before_the_start_is_an_error_that_names_both(broker: str, topic: str, ending: str) -> None:
    end = "1003" if ending == "endingTimestamp" else offsets(topic, 3)
    message = f"{ending}: {topic}-0 would end at offset 3, before offset 10, with which it begins by startingTimestamp"
    with pytest.raises(PipelineError, match=message):
        reader(broker, topic, startingTimestamp="1010", **{ending: end}).partitions()


def test_damage_is_an_error_or_in_the_report(
    broker: str, topic: str, directory: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    segment = directory / f"{topic}-0" / f"{0:020d}.log"
    with segment.open("r+b") as file:
        file.seek(-1, 2)  # the last byte of the last batch: the number of its last record's headers
        file.write(b"\x07")
    with pytest.raises(PipelineError, match=rf"{topic}-0: the batch at offset 15 is damaged: .*crc"):
        rows(reader(broker, topic, "offset"))
    kept = reader(broker, topic, "offset", reportPath=str(tmp_path), startingOffsets=offsets(topic, 2))
    assert [row["offset"] for row in rows(kept)] == list(range(2, 15))
    (report,) = read_reports(str(tmp_path))
    assert (report.records, report.first_offset, report.last_offset, report.batches) == (13, 2, 14, 2)
    (damage,) = report.damages
    assert (damage.file, damage.position, damage.kind) == (f"{topic}-0", 15, "checksum")
    assert damage.text().startswith(f"{topic}-0 at offset 15: the batch is damaged: ")
    with pytest.raises(PipelineError, match="at offset 15 is damaged"):
        rows(reader(broker, topic, "offset", reportPath=str(tmp_path), strict="true"))


def test_a_report_counts_each_batch_once_whatever_the_splits(broker: str, topic: str, tmp_path: pathlib.Path) -> None:
    totals = set()
    for parts in ("1", "7"):
        assert len(rows(reader(broker, topic, "offset", reportPath=str(tmp_path / parts), minPartitions=parts))) == 20
        reports = list(read_reports(str(tmp_path / parts)))
        assert len(reports) == int(parts)
        total = sum(one.records for one in reports), sum(one.batches for one in reports)
        totals.add((*total, sum(one.checksum for one in reports) % 2**64))
    ((records, batches, _),) = totals
    assert (records, batches) == (20, 4)
