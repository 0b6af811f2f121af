"""Apache Kafka's own tools and broker read the log directories that are written here."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.apache_kafka import ApacheKafka
from support.kafkas_reader import read_to_end
from support.log_batches import NOW_MS, TRANSACTIONAL, make_batch, make_marker

from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.producers.append import AppendOrigin
from kafkatools.core.log.recovery.salvage import salvage_partition
from kafkatools.core.records.batch import RecordBatch, read_batches

Tool = Callable[..., subprocess.CompletedProcess[bytes]]

pytestmark = pytest.mark.real_kafka

CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=300)


def write_story(log: PartitionLog, count: int = 120) -> int:
    """Plain records and transactions, committed, aborted and one left open; gives the number of plain records."""
    sequences = {1: 0, 2: 0}
    for number in range(count):
        plain = make_batch([b"plain %d" % number], keys=[b"k"], timestamps=[NOW_MS + number])
        log.append_as_leader(memoryview(plain), leader_epoch=0, now_ms=NOW_MS)
        if number % 10 == 5:
            producer = 1 + number // 10 % 2
            data = make_batch(
                [b"transactional %d" % number],
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequences[producer],
                attributes=TRANSACTIONAL,
            )
            sequences[producer] += 1
            log.append_as_leader(memoryview(data), leader_epoch=0, now_ms=NOW_MS)
        if number % 10 == 9 and number < count - 10:
            marker = make_marker(1 + number // 10 % 2, 0, commit=number % 20 > 10)
            log.append_as_leader(memoryview(marker), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    return count


def test_the_dump_tool_finds_nothing_wrong_with_written_files(kafka_tool: Tool, tmp_path: Path) -> None:
    log = PartitionLog.open(str(tmp_path / "t-0"), CONFIG, now_ms=NOW_MS)
    log.assign_topic_id("5bgrR_PIS02H3Z7S0u6hOQ")
    write_story(log)
    log.close()
    directory = tmp_path / "t-0"
    logs = ",".join(sorted(path.name for path in directory.glob("*.log")))
    indexes = ",".join(sorted(path.name for path in directory.glob("*index")))
    snapshots = ",".join(sorted(path.name for path in directory.glob("*.snapshot")))
    assert logs.count(",") >= 2 and ".txnindex" in indexes and snapshots
    for arguments in (
        ("--files", logs, "--deep-iteration"),
        ("--files", indexes),
        ("--files", indexes.replace(".txnindex", ".index"), "--index-sanity-check"),
        ("--files", indexes, "--verify-index-only"),
        ("--files", snapshots),
    ):
        done = kafka_tool("dump-log", *arguments, cwd=directory)
        text = (done.stdout + done.stderr).decode()
        assert done.returncode == 0, text
        # the tool says this of every segment that does not begin at offset 0, its own included
        complaints = [line for line in done.stderr.decode().splitlines() if "Non-consecutive" in line]
        assert "isvalid: false" not in text
        for word in ("Mismatch", "mismatch", "out of order", "Exception", "not found", "corrupt"):
            assert word not in text, text
        assert len(complaints) <= logs.count(",")
    deep = kafka_tool("dump-log", "--files", logs, "--deep-iteration", "--print-data-log", cwd=directory).stdout
    assert deep.count(b"payload: plain ") == 120


def test_the_dump_tool_stops_at_the_preallocated_tail_of_a_live_index(kafka_tool: Tool, tmp_path: Path) -> None:
    log = PartitionLog.open(str(tmp_path / "t-0"), LogConfig(index_interval_bytes=300), now_ms=NOW_MS)
    write_story(log)
    log.flush()
    name = "00000000000000000000"
    assert (tmp_path / "t-0" / f"{name}.index").stat().st_size == 10 * 1024 * 1024
    done = kafka_tool(
        "dump-log", "--files", f"{name}.index,{name}.timeindex", "--verify-index-only", cwd=tmp_path / "t-0"
    )
    assert done.returncode == 0 and b"ismatch" not in done.stdout + done.stderr
    log.close()


@pytest.mark.slow
@pytest.mark.parametrize("is_clean", [True, False])
def test_the_broker_opens_a_log_that_was_continued_here(is_clean: bool, new_kafka: Callable[..., ApacheKafka]) -> None:
    cluster = new_kafka()
    cluster.start()
    after = "message.timestamp.after.max.ms=9000000000000"
    cluster.tool("topics", "--create", "--topic", "handed-over", "--config", after)
    cluster.tool("console-producer", "--topic", "handed-over", stdin=b"first\nsecond\n")
    cluster.stop()
    directory = cluster.log_dir() / "handed-over-0"
    log = PartitionLog.open(str(directory), CONFIG, now_ms=NOW_MS)
    assert log.log_end_offset == 2
    count = write_story(log, 40)
    end = log.log_end_offset
    log.flush()
    if is_clean:
        log.close()
    else:
        (cluster.log_dir() / ".kafka_cleanshutdown").unlink()
    cluster.start(format_first=False)
    offsets = cluster.tool("get-offsets", "--topic", "handed-over")
    assert offsets.strip() == f"handed-over:0:{end}"
    text = cluster.tool(
        "console-consumer",
        "--topic",
        "handed-over",
        "--from-beginning",
        "--max-messages",
        str(count + 2),
        "--timeout-ms",
        "120000",
        "--isolation-level",
        "read_uncommitted",
    )
    assert text.splitlines()[:4] == ["first", "second", "plain 0", "plain 1"]
    cluster.tool("console-producer", "--topic", "handed-over", stdin=b"last\n")
    cluster.stop()
    again = PartitionLog.open(str(directory), CONFIG, now_ms=NOW_MS)
    assert again.log_end_offset == end + 1
    assert b"last" in again.read(end, 1000).read()
    again.close()


@pytest.mark.slow
def test_the_broker_opens_what_was_salvaged_of_a_damaged_log(
    new_kafka: Callable[..., ApacheKafka], tmp_path: Path
) -> None:
    cluster = new_kafka()
    cluster.start()
    after = "message.timestamp.after.max.ms=9000000000000"
    cluster.tool("topics", "--create", "--topic", "rescued", "--config", after)
    cluster.stop()
    directory = cluster.log_dir() / "rescued-0"
    log = PartitionLog.open(str(directory), CONFIG, now_ms=NOW_MS)
    write_story(log, 60)
    end = log.log_end_offset
    log.flush()
    log.close()
    segments = sorted(directory.glob("*.log"))
    damaged = bytearray(segments[1].read_bytes())
    batches = list(read_batches(bytes(damaged)))
    start = batches[0].size_bytes + batches[1].size_bytes
    damaged[start + 62 : start + 66] = bytes(4)
    segments[1].write_bytes(damaged)
    (lost,) = salvage_partition(str(directory), str(tmp_path / "rescued-0")).lost
    assert (lost.first_offset, lost.last_offset) == (batches[2].base_offset, batches[2].last_offset)
    controls = {batch.base_offset for segment in segments for batch in _batches(segment) if batch.is_control}
    shutil.rmtree(directory)
    shutil.copytree(tmp_path / "rescued-0", directory)
    (cluster.log_dir() / ".kafka_cleanshutdown").unlink()  # so that the broker recovers it
    cluster.start(format_first=False)
    assert cluster.tool("get-offsets", "--topic", "rescued").strip() == f"rescued:0:{end}"
    shown = ("--formatter-property", "print.offset=true", "--formatter-property", "print.value=false")
    text = read_to_end(cluster, "rescued", *shown)
    offsets = {int(line.removeprefix("Offset:")) for line in text.splitlines()}
    assert offsets == set(range(end)) - controls - {lost.first_offset}


def _batches(segment: Path) -> list[RecordBatch]:
    return [batch for batch in read_batches(segment.read_bytes()) if isinstance(batch, RecordBatch)]
