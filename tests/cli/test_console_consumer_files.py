"""kt console-consumer --from log:DIRECTORY on recorded directories, held against what Apache Kafka's tool dumped of
them, and on directories that were damaged."""

from __future__ import annotations

import json
import os
import pathlib
import shutil

import crc32c
import pytest
from support import dumped_records, recorded_segments
from support.dumped_records import DumpedBatch
from support.kt import Ran, run_kt
from support.recorded_logs import unpack_log

from kafkatools.core.records.batch import read_batches
from kafkatools.exit_status import ExitStatus

SOUND = ("topics", "codecs", "compacted", "internal-topics", "message-sets", "recovery")
NAMES = set(recorded_segments.names())
RECORDED = sorted(
    (archive, directory, "log-all-print" if (archive, directory, "log-all-print") in NAMES else case)
    for archive, directory, case in NAMES
    if archive in SOUND and case == "log-print" and directory != "cluster-metadata"
)


def read(place: pathlib.Path, *options: str) -> Ran:
    return run_kt("console-consumer", "--from", f"log:{place}", *options)


def offsets(ran: Ran) -> list[int]:
    return [json.loads(line)["offset"] for line in ran.out.splitlines()]


def expected_offsets(batches: list[DumpedBatch], *, committed: bool) -> list[int]:
    """The offsets of the records of data; `committed`: up to the first open transaction, without aborted ones."""
    states = dumped_records.transaction_states(batches)
    stable = min((offset for offset, state in states.items() if state == "open"), default=1 << 63)
    return [
        record.offset
        for batch in batches
        if not batch.is_control
        and (not committed or batch.base_offset < stable and states.get(batch.base_offset) != "aborted")
        for record in batch.records
    ]


@pytest.mark.parametrize(("archive", "directory", "case"), RECORDED)
def test_the_records_are_those_that_kafka_dumps(archive: str, directory: str, case: str) -> None:
    batches = dumped_records.batches_of(archive, directory, case)
    log = recorded_segments.case(archive, directory, case).log
    files = sorted({batch.file for batch in batches})
    place = log if case == "log-all-print" or len(list(log.glob("*.log"))) == 1 else log / files[0]
    for level, committed in (("read_uncommitted", False), ("read_committed", True)):
        ran = read(place, "--json", "--isolation-level", level)
        assert ran.status == ExitStatus.OK, ran.err
        if place == log or not committed:
            assert offsets(ran) == expected_offsets(batches, committed=committed)


@pytest.fixture
def transfers(tmp_path: pathlib.Path) -> pathlib.Path:
    """Three segments of a transactional producer, with an open transaction at offset 70."""
    directory = tmp_path / "transfers-3"
    shutil.copytree(unpack_log("txn-java", tmp_path), directory)
    return directory


@pytest.mark.parametrize("suffixes", [[".txnindex"], [".snapshot"], [".txnindex", ".snapshot", ".index", ".timeindex"]])
def test_transactions_are_found_without_their_files(transfers: pathlib.Path, suffixes: list[str]) -> None:
    whole = read(transfers, "--isolation-level", "read_committed", "--json")
    for suffix in suffixes:
        for path in transfers.glob(f"*{suffix}"):
            path.unlink()
    without = read(transfers, "--isolation-level", "read_committed", "--json")
    assert without == whole
    assert 0 < len(offsets(whole)) < len(offsets(read(transfers, "--json")))


def test_the_open_transaction_is_named(transfers: pathlib.Path) -> None:
    ran = read(transfers, "--isolation-level", "read_committed")
    assert "transfers-3 ends at offset 70: the transaction of producer 10 that begins there is open" in ran.err


def test_one_partition_directory_needs_no_topic(transfers: pathlib.Path) -> None:
    ran = read(transfers, "--offset", "60", "--max-messages", "2", "--json")
    assert ran.status == ExitStatus.OK
    assert [json.loads(line)["topic"] for line in ran.out.splitlines()] == ["transfers", "transfers"]
    assert offsets(ran)[0] == 60


def test_one_file_is_read_alone(transfers: pathlib.Path) -> None:
    ran = read(transfers / f"{33:020}.log", "--json")  # the last offset, 65, is a marker's
    assert (min(offsets(ran)), max(offsets(ran))) == (33, 64)
    last = read(transfers / f"{33:020}.log", "--last", "1", "--json")
    assert offsets(last) == offsets(ran)[-1:]


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> pathlib.Path:
    """Eight segments with records 0 to 1196, one for each offset."""
    directory = tmp_path / "ledger-0"
    shutil.copytree(unpack_log("multi-segment", tmp_path), directory)
    return directory


def test_missing_indexes_are_named_and_not_needed(ledger: pathlib.Path) -> None:
    options = ["--offset", "1050:1055", "--json"]
    whole = read(ledger, *options)
    assert offsets(whole) == [1050, 1051, 1052, 1053, 1054]
    for path in ledger.glob("*index"):
        path.write_bytes(bytes(range(256)) * 3)
    damaged = read(ledger, *options)
    assert damaged.out == whole.out
    assert "index does not fit its segment: searched without it" in damaged.err
    for path in ledger.glob("*index"):
        path.unlink()
    missing = read(ledger, *options)
    assert missing.out == whole.out


def test_deleted_segments_move_the_start(ledger: pathlib.Path) -> None:
    segments = sorted(ledger.glob("*.log"))
    for path in segments[:2]:
        path.rename(f"{path}.deleted")
    (ledger / f"{5000:020}.log.cleaned").write_bytes(b"half a cleaned segment")
    ran = read(ledger, "--json")
    assert offsets(ran) == list(range(int(segments[2].stem), 1197))
    checkpoint = ledger.parent / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\nledger 0 1000\n")
    assert offsets(read(ledger.parent, "--topic", "ledger", "--json")) == list(range(1000, 1197))


def test_a_swap_file_replaces_its_segments(ledger: pathlib.Path) -> None:
    first, second = sorted(ledger.glob("*.log"))[:2]
    merged = first.read_bytes() + second.read_bytes()
    first.with_name(first.name + ".swap").write_bytes(merged)
    assert offsets(read(ledger, "--json")) == list(range(1197))


def test_damage_names_file_and_position(ledger: pathlib.Path) -> None:
    path = sorted(ledger.glob("*.log"))[1]
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[8:12], "big") + 12
    second = size + int.from_bytes(data[size + 8 : size + 12], "big") + 12
    data[size + 100] ^= 4
    path.write_bytes(data)
    first_lost = int.from_bytes(data[size : size + 8], "big")
    behind = int.from_bytes(data[second : second + 8], "big")
    ran = read(ledger, "--json")
    assert ran.status == ExitStatus.FAILED
    assert offsets(ran) == list(range(first_lost))
    assert f"at byte {size} of {path}" in ran.err
    assert f"Offsets {first_lost} to {behind - 1} of ledger-0 cannot be read" in ran.err
    skipped = read(ledger, "--json", "--skip-corrupt")
    assert skipped.status == ExitStatus.FAILED
    assert offsets(skipped) == [*range(first_lost), *range(behind, 1197)]
    assert f"Skipped offsets {first_lost} to {behind - 1} of ledger-0" in skipped.err
    assert f"at byte {size} of {path}" in skipped.err
    before = read(ledger, "--json", "--offset", f"0:{first_lost}")
    assert (before.status, offsets(before)) == (ExitStatus.OK, list(range(first_lost)))


def test_records_that_do_not_fit_their_batch_are_damage_below_a_valid_checksum(ledger: pathlib.Path) -> None:
    path = sorted(ledger.glob("*.log"))[1]
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[8:12], "big") + 12
    second = size + int.from_bytes(data[size + 8 : size + 12], "big") + 12
    data[size + 61] = 0x7E  # the length of the first record: 63 bytes, more than it has
    data[size + 17 : size + 21] = crc32c.crc32c(bytes(data[size + 21 : second])).to_bytes(4, "big")
    path.write_bytes(data)
    lost = range(int.from_bytes(data[size : size + 8], "big"), int.from_bytes(data[second : second + 8], "big"))
    ran = read(ledger, "--json")
    assert (ran.status, offsets(ran)) == (ExitStatus.FAILED, list(range(lost[0])))
    assert f"at byte {size} of {path}. Offsets {lost[0]} to {lost[-1]} of ledger-0 cannot be read" in ran.err
    skipped = read(ledger, "--json", "--skip-corrupt")
    assert offsets(skipped) == [*range(lost[0]), *range(lost[-1] + 1, 1197)]
    assert f"Skipped offsets {lost[0]} to {lost[-1]} of ledger-0" in skipped.err
    behind = read(ledger, "--json", "--offset", f"{lost[1]}:", "--skip-corrupt")
    assert offsets(behind) == list(range(lost[-1] + 1, 1197))


@pytest.mark.parametrize("at", ["length", "magic", "zeros"])
def test_reading_goes_on_at_the_next_valid_batch(ledger: pathlib.Path, at: str) -> None:
    path = sorted(ledger.glob("*.log"))[2]
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[8:12], "big") + 12
    lost = int.from_bytes(data[size : size + 8], "big")
    second = size + int.from_bytes(data[size + 8 : size + 12], "big") + 12
    behind = int.from_bytes(data[second : second + 8], "big")
    data[{"length": slice(size + 8, size + 12), "magic": slice(size + 16, size + 17)}.get(at, slice(size, second))] = {
        "length": b"\x7f\0\0\0",
        "magic": b"\x09",
    }.get(at, bytes(second - size))
    path.write_bytes(data)
    ran = read(ledger, "--json", "--skip-corrupt")
    assert ran.status == ExitStatus.FAILED
    assert offsets(ran) == [*range(lost), *range(behind, 1197)]
    assert f"Skipped offsets {lost} to {behind - 1} of ledger-0" in ran.err


def test_a_truncated_tail_is_the_end_of_the_log(ledger: pathlib.Path) -> None:
    path = sorted(ledger.glob("*.log"))[-1]
    data = path.read_bytes()
    path.write_bytes(data + bytes(5000))  # preallocated
    assert offsets(read(ledger, "--json")) == list(range(1197))
    path.write_bytes(data[:-10])
    ran = read(ledger, "--json")
    assert ran.status == ExitStatus.OK
    assert offsets(ran) == list(range(len(offsets(ran))))
    assert 1150 < len(offsets(ran)) < 1197
    assert f"{path}: the last " in ran.err


def test_a_slice_by_time_ends_with_the_last_batch_that_begins_before_its_end(ledger: pathlib.Path) -> None:
    rows = [json.loads(line) for line in read(ledger, "--json").out.splitlines()]
    times = sorted(row["timestamp"] for row in rows)
    since, until = times[300], times[700]
    batches = [batch for path in sorted(ledger.glob("*.log")) for batch in read_batches(path.read_bytes())]
    end = max(batch.last_offset for batch in batches if min(batch.base_timestamp, batch.max_timestamp) < until)
    assert any(row["timestamp"] < until for row in rows[end - 20 :])
    sliced = read(ledger, "--json", "--since", str(since), "--until", str(until))
    assert offsets(sliced) == [
        row["offset"] for row in rows if since <= row["timestamp"] < until and row["offset"] <= end
    ]


def test_nothing_is_written_and_a_directory_may_be_read_only(ledger: pathlib.Path) -> None:
    before = {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in ledger.iterdir()}
    os.chmod(ledger, 0o500)
    try:
        assert read(ledger, "--last", "3").status == ExitStatus.OK
    finally:
        os.chmod(ledger, 0o700)
    assert {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in ledger.iterdir()} == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--group", "g"], "--group is for reading from brokers"),
        (["--bootstrap-server", "localhost:9092"], "--bootstrap-server is for reading from brokers"),
        (["--timeout-ms", "5"], "--timeout-ms is for reading from brokers"),
        (["--command-property", "fetch.min.bytes=1"], "--command-property is for reading from brokers"),
        (["--topic", "a", "--include", "b"], "Options topic and include cannot be specified together."),
    ],
)
def test_options_of_brokers_are_refused(ledger: pathlib.Path, options: list[str], message: str) -> None:
    ran = read(ledger, *options)
    assert (ran.status, ran.out) == (ExitStatus.USAGE, "")
    assert message in ran.err


def test_what_is_no_log_is_refused(ledger: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "empty").mkdir()
    for place, message in (
        (tmp_path / "absent", "absent does not exist"),
        (tmp_path / "empty", "contains neither segments nor partition directories"),
        (ledger / "leader-epoch-checkpoint", "is not a segment"),
    ):
        ran = read(place)
        assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
        assert message in ran.err
    ran = run_kt("console-consumer", "--from", str(ledger))
    assert ran.status == ExitStatus.USAGE
    assert f"Did you mean log:{ledger}?" in ran.err
    assert "Topic other is not in" in read(ledger, "--topic", "other").err
