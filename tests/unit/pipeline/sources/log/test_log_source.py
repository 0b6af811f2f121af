"""`kafka-log` as Spark's workers ask it, without a session: options, tables, offsets and times, memory."""

from __future__ import annotations

import json
import pathlib
import pickle
import shutil
import subprocess
import sys
from array import array
from collections.abc import Mapping
from typing import Any

import pytest
from support.recorded_segments import log_directory
from support.requirements import require

try:
    import pyarrow as pa
    import pyspark  # noqa: F401
except ImportError:
    require("PySpark is not installed: pip install '.[spark]'")

sys.path.append(str(pathlib.Path(__file__).parents[3] / "core" / "records"))

from records_truth import true_records  # noqa: E402
from support.file_batches import read_file_batches  # noqa: E402

from kafkatools.core.records.batch import RecordBatch  # noqa: E402
from kafkatools.core.records.builder import BatchBuilder  # noqa: E402
from kafkatools.core.records.columns import RowColumns  # noqa: E402
from kafkatools.core.records.compression import CompressionType  # noqa: E402
from kafkatools.pipeline.errors import PipelineError  # noqa: E402
from kafkatools.pipeline.run.reports import read_reports  # noqa: E402
from kafkatools.pipeline.sources.log.source import KafkaLogDataSource  # noqa: E402
from kafkatools.pipeline.sources.schema import struct_of  # noqa: E402
from kafkatools.pipeline.sources.spark_api import InputPartition  # noqa: E402


def read(options: Mapping[str, str], columns: Mapping[str, str] | None = None) -> Any:
    """The table, by way of everything that Spark pickles."""
    source = KafkaLogDataSource(dict(options))
    reader = source.reader(struct_of(columns) if columns else source.schema())
    tasks = [pickle.loads(pickle.dumps(task)) for task in reader.partitions()]
    reader = pickle.loads(pickle.dumps(reader))
    batches = [batch for task in tasks for batch in reader.read(task)]
    return pa.Table.from_batches(batches) if batches else None


def offsets(path: pathlib.Path | str, **options: str) -> list[int]:
    table = read({"path": str(path), **options}, {"offset": "bigint"})
    return [] if table is None else sorted(table.column(0).to_pylist())


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> pathlib.Path:
    """A partition of nine segments whose offsets go from 0 to 1196."""
    return pathlib.Path(shutil.copytree(log_directory("multi-segment"), tmp_path / "ledger-0"))


# -- options --


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "The option path is missing"),
        (
            {"path": "/x", "startingOfsets": "earliest"},
            "no option startingofsets for reading; did you mean startingOffsets",
        ),
        (
            {"path": "/x", "startingOffsets": "latest"},
            r"startingOffsets cannot be latest \(-1\): there would be nothing to read",
        ),
        (
            {"path": "/x", "endingOffsets": '{"t":{"0":-2}}'},
            r"endingOffsets cannot be earliest \(-2\): there would be nothing to read",
        ),
        ({"path": "/x", "startingOffsets": "{"}, "startingOffsets must be like earliest, latest or"),
        ({"path": "/x", "table": "rows"}, "table must be one of records, batches, errors"),
        ({"path": "/x", "isolationLevel": "none"}, "isolationLevel must be one of read_uncommitted, read_committed"),
        ({"path": "/x", "minPartitions": "0"}, "minPartitions must be an integer of at least 1"),
        ({"path": "/x", "splitBytes": "7"}, "splitBytes must be an integer of at least 1024"),
        ({"path": "/x", "strict": "yes"}, "strict must be true or false"),
        ({"path": "/x", "subscribe": "a", "assign": "{}"}, "The options assign and subscribe cannot be used together"),
    ],
)
def test_options_are_refused_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        KafkaLogDataSource(options).schema()


def test_a_schema_that_does_not_fit_is_refused_by_column() -> None:
    source = KafkaLogDataSource({"path": "/x"})
    for columns, message in (
        ({"valeu": "string"}, "There is no column valeu; the columns are key, value"),
        ({"value": "string"}, "column value is binary, not string"),
        ({"value": "binary", "VALUE": "binary"}, "column VALUE is in the schema twice"),
    ):
        with pytest.raises(PipelineError, match=message):
            source.reader(struct_of(columns))


def test_the_schema_is_that_of_sparks_kafka_source_and_what_was_asked_for() -> None:
    spark = "key binary value binary topic string partition int offset bigint timestamp timestamp timestampType int"
    schema = KafkaLogDataSource({"path": "/x"}).schema()
    assert " ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields) == spark
    more = KafkaLogDataSource({"path": "/x", "includeheaders": "true", "includeMetadata": "true"}).schema()
    assert more.names[7:] == [
        "headers", "leaderEpoch", "producerId", "producerEpoch", "sequence", "transaction", "batchPosition",
    ]  # fmt: skip


def test_nothing_to_read_is_no_rows(ledger: pathlib.Path) -> None:
    reader = KafkaLogDataSource({"path": str(ledger)}).reader(struct_of({"offset": "bigint"}))
    assert list(reader.read(InputPartition(None))) == []
    assert offsets(ledger, startingOffsets='{"ledger":{"0":1197}}') == []


# -- offsets and times --


def test_offsets_start_and_end_where_they_say(ledger: pathlib.Path) -> None:
    every = list(range(1197))
    assert offsets(ledger) == every
    between = {"startingOffsets": '{"ledger":{"0":151}}', "endingOffsets": '{"ledger":{"0":311}}'}
    assert offsets(ledger, **between) == every[151:311]
    assert offsets(ledger, startingOffsets='{"ledger":{"0":-2}}', endingOffsets='{"ledger":{"0":-1}}') == every


def test_offsets_that_are_not_there_are_data_loss(ledger: pathlib.Path) -> None:
    for file in ledger.glob("00000000000000000000.*"):
        file.unlink()
    low, high = {"startingOffsets": '{"ledger":{"0":3}}'}, {"endingOffsets": '{"ledger":{"0":1198}}'}
    first = min(offsets(ledger))
    with pytest.raises(
        PipelineError, match=f"startingOffsets: ledger-0 begins with offset {first}, so offset 3 is deleted"
    ):
        offsets(ledger, **low)
    with pytest.raises(PipelineError, match="endingOffsets: ledger-0 ends at offset 1197, before offset 1198"):
        offsets(ledger, **high)
    assert offsets(ledger, **low, **high, failOnDataLoss="false") == list(range(first, 1197))


def test_offsets_by_partition_name_the_partitions_that_are_read(ledger: pathlib.Path) -> None:
    with pytest.raises(
        PipelineError, match="startingOffsets must name every partition that is read; missing: ledger-0"
    ):
        offsets(ledger, startingOffsets='{"other":{"0":3}}')
    with pytest.raises(PipelineError, match="startingOffsets names partitions that are not read: ledger-7"):
        offsets(ledger, startingOffsets='{"ledger":{"0":3,"7":1}}')


@pytest.mark.parametrize("name", ["multi-segment", "plain-java", "message-set-v1-segments"])
def test_a_timestamp_is_the_first_offset_that_is_not_older(name: str, tmp_path: pathlib.Path) -> None:
    path = shutil.copytree(log_directory(name), tmp_path / "ledger-0")
    records = true_records(name)
    times = sorted({record[1] for record in records})
    for time in (times[0], times[len(times) // 3], times[2 * len(times) // 3] + 1, times[-1]):
        first = next(record[0] for record in records if record[1] >= time)
        assert offsets(path, startingTimestamp=str(time)) == [record[0] for record in records if record[0] >= first]
        ends = json.dumps({"ledger": {"0": time}})
        assert offsets(path, endingOffsetsByTimestamp=ends) == [record[0] for record in records if record[0] < first]
    late = str(times[-1] + 1)
    with pytest.raises(PipelineError, match=f"startingTimestamp: ledger-0 has no record at or after {late} "):
        offsets(path, startingTimestamp=late)
    assert offsets(path, startingTimestamp=late, startingOffsetsByTimestampStrategy="latest") == []
    assert len(offsets(path, endingTimestamp=late)) == len(records)


# -- tables and reports --


@pytest.mark.parametrize("name", ["txn-java", "codec-lz4-java", "log-append-time", "message-set-v1-gzip"])
def test_batches_are_their_headers(name: str) -> None:
    path = log_directory(name)
    found = read({"path": str(path), "table": "batches"}).to_pylist()
    want = [
        (pathlib.Path(file).name, batch)
        for file in sorted(map(str, path.glob("*.log")))
        for batch in read_file_batches(pathlib.Path(file).read_bytes())
    ]
    assert len(found) == len(want)
    for row, (file, batch) in zip(found, want, strict=True):
        assert (pathlib.Path(row["file"]).name, row["position"], row["size"]) == (
            file,
            batch.position,
            batch.size_bytes,
        )
        assert (row["lastOffset"], row["crc"], row["magic"]) == (batch.last_offset, batch.crc, batch.magic)
        assert row["maxTimestamp"].timestamp() * 1000 == pytest.approx(batch.max_timestamp)
        assert (row["timestampType"], row["codec"]) == (int(batch.timestamp_type), batch.compression_type.label)
        assert (row["producerId"], row["producerEpoch"]) == (batch.producer_id, batch.producer_epoch)
        assert (row["baseSequence"], row["leaderEpoch"]) == (batch.base_sequence, batch.partition_leader_epoch)
        assert (row["isTransactional"], row["isControl"]) == (batch.is_transactional, batch.is_control)
        if isinstance(batch, RecordBatch):
            assert (row["baseOffset"], row["count"]) == (batch.base_offset, batch.record_count)
        else:
            assert row["count"] is None  # a wrapper tells nobody how many it holds
    if name == "txn-java":
        assert {row["transaction"] for row in found} == {None, "open", "committed", "aborted"}


@pytest.mark.slow
def test_damage_is_a_row_and_in_the_report_and_reports_do_not_depend_on_splits(
    ledger: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    def totals(name: str, **options: str) -> tuple[Any, ...]:
        count = len(offsets(ledger, reportPath=str(tmp_path / name), **options))
        reports = list(read_reports(str(tmp_path / name)))
        assert sum(report.records for report in reports) == count
        damages = [damage for report in reports for damage in report.damages]
        checksum = sum(report.checksum for report in reports) % 2**64
        first = min(report.first_offset for report in reports if report.records)
        return count, first, max(report.last_offset for report in reports), checksum, damages

    whole = totals("whole")
    assert whole[:3] == (1197, 0, 1196) and whole[4] == []
    assert totals("split", splitBytes="2048") == whole
    file = sorted(ledger.glob("*.log"))[3]
    data = bytearray(file.read_bytes())
    batch = list(read_file_batches(data))[5]
    data[batch.position + 80] ^= 4
    file.write_bytes(data)
    lossy = totals("lossy")
    assert lossy[0] == 1197 - batch.record_count and lossy[3] != whole[3]
    assert totals("lossy split", splitBytes="2048") == lossy
    rows = read({"path": str(ledger), "table": "errors"}).to_pylist()
    assert [(row["file"], row["position"], row["length"], row["kind"]) for row in rows] == [
        (str(file), batch.position, batch.size_bytes, "checksum")
    ]
    assert [row["reason"] for row in rows] == [damage.reason for damage in lossy[4]]


def test_a_tail_that_is_cut_off_is_told(ledger: pathlib.Path) -> None:
    file = sorted(ledger.glob("*.log"))[-1]
    data = file.read_bytes()
    last = list(read_file_batches(data))[-1]
    file.write_bytes(data[: last.position + 40])
    rows = read({"path": str(ledger), "table": "errors"}).to_pylist()
    assert [(row["position"], row["length"], row["kind"]) for row in rows] == [(last.position, 40, "truncated")]
    assert rows[0]["reason"] == f"the log ends within a batch: 40 of {last.size_bytes} bytes are present"


def test_a_file_that_shrinks_during_a_query_is_told(ledger: pathlib.Path, tmp_path: pathlib.Path) -> None:
    options = {"path": str(ledger), "reportPath": str(tmp_path / "reports")}
    reader = KafkaLogDataSource(options).reader(struct_of({"offset": "bigint"}))
    tasks = reader.partitions()
    file = sorted(ledger.glob("*.log"))[-1]
    size = file.stat().st_size
    batches = list(read_file_batches(file.read_bytes()))
    with file.open("r+b") as out:
        out.truncate(batches[3].position)
    rows = sum(batch.num_rows for task in tasks for batch in reader.read(task))
    assert rows == 1197 - sum(batch.record_count for batch in batches[3:])
    damages = [damage for report in read_reports(str(tmp_path / "reports")) for damage in report.damages]
    lost = size - batches[3].position
    assert [(each.position, each.length, each.kind) for each in damages] == [(batches[3].position, lost, "truncated")]
    assert damages[0].reason == f"the file is {lost} bytes shorter than when the query began"
    file.unlink()
    with pytest.raises(PipelineError, match=f"{file.name} cannot be read: No such file"):
        [list(reader.read(task)) for task in tasks]


# -- size --


def big_segment(path: pathlib.Path, total: int, codec: CompressionType = CompressionType.NONE) -> None:
    """Batches of 100 KiB."""
    size, count = 1000, 100
    rows = RowColumns(
        bytes(97 + i % 26 for i in range(size)) * count,
        array("i", range(0, size * count, size)),
        array("i", [size] * count),
    )
    builder = BatchBuilder(1 << 20, codec)
    assert builder.append_columns(rows, 0, count, 1_700_000_000_000) == count
    batch = bytes(builder.close())
    with path.open("wb") as out:
        for _ in range(total // len(batch)):
            out.write(batch)


@pytest.mark.slow
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.LZ4], ids=lambda codec: codec.label)
def test_memory_does_not_grow_with_the_segment(codec: CompressionType, tmp_path: pathlib.Path) -> None:
    total = (300 if codec is CompressionType.NONE else 4) << 20  # as much when it is unpacked
    big_segment(tmp_path / "00000000000000000000.log", total, codec)
    program = f"""
import resource
from kafkatools.pipeline.sources.log.source import KafkaLogDataSource
source = KafkaLogDataSource({{"path": {str(tmp_path)!r}, "splitBytes": "9999999999"}})
reader = source.reader(source.schema())
import pyarrow, numpy
from kafkatools.pipeline.sources.log import reader as log_reader
(task,) = reader.partitions()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
rows = sum(batch.num_rows for batch in reader.read(task))
print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10) - before)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    rows, grown = map(int, done.stdout.split())
    assert rows * 1000 > 250 << 20
    assert grown < 100


def test_markers_have_timestamps_too() -> None:
    """As for a broker: the first transaction that ended after a time is where to start, however old its records."""
    path = log_directory("txn-java")
    # markers from offset 15 on were written long after the times that the records were given
    assert min(offsets(path, startingTimestamp="1700000000500")) == 17
    assert max(offsets(path, endingTimestamp="1700000000500")) == 14
