"""Transactions over files: against what Apache Kafka wrote into .txnindex and against a walk over every batch."""

from __future__ import annotations

import itertools
import pathlib
import pickle
import struct

import pytest
from support.recorded_logs import unpack_log

from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.core.records.control import ControlRecordType, EndTransactionMarker
from kafkatools.pipeline.sources.log.aborted import find_all_transactions, find_transactions
from kafkatools.pipeline.sources.log.files import LogFile, find_log_files
from kafkatools.pipeline.sources.record_bounds import MAX_LONG

ENTRY = struct.Struct(">hqqqq")
RECORDED = ("txn-java", "txn-librdkafka")


def batches_of(directory: pathlib.Path) -> list[tuple[str, int, RecordBatch]]:
    """Every batch with its file and position, in order."""
    found = []
    for path in sorted(directory.glob("*.log")):
        position = 0
        for batch in read_batches(path.read_bytes()):
            found.append((str(path), position, batch))
            position += batch.size_bytes
    return found


def states_of(directory: pathlib.Path) -> dict[tuple[int, int], str]:
    """What became of each batch of a transaction, by producer and offset: the next marker of its producer says it."""
    batches = [batch for _, _, batch in batches_of(directory)]
    states = {}
    for index, batch in enumerate(batches):
        if not batch.is_transactional or batch.is_control:
            continue
        states[batch.producer_id, batch.base_offset] = "open"
        for later in batches[index:]:
            if later.is_control and later.producer_id == batch.producer_id:
                marker = EndTransactionMarker.of_batch(later)
                assert marker is not None
                is_abort = marker.type is ControlRecordType.ABORT
                states[batch.producer_id, batch.base_offset] = "aborted" if is_abort else "committed"
                break
    return states


def told(directory: pathlib.Path) -> dict[tuple[int, int], str]:
    """The same from FileTransactions, each segment's having travelled."""
    files = find_log_files(str(directory))
    by_url = {file.url: pickle.loads(pickle.dumps(find_transactions(files).within(file))) for file in files}
    found = {}
    for url, position, batch in batches_of(directory):
        if batch.is_transactional and not batch.is_control:
            transactions = by_url[url]
            state = transactions.state(batch.producer_id, batch.base_offset, position)
            assert transactions.state(batch.producer_id, batch.base_offset) == state
            found[batch.producer_id, batch.base_offset] = state
    for transactions in by_url.values():
        transactions.close()
    return found


@pytest.fixture(params=RECORDED)
def recorded(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> pathlib.Path:
    return unpack_log(request.param, tmp_path)


def test_aborted_ranges_are_those_of_the_recorded_indexes(recorded: pathlib.Path) -> None:
    entries = []
    for path in recorded.glob("*.txnindex"):
        data = path.read_bytes()
        entries += [ENTRY.unpack_from(data, at)[1:4] for at in range(0, len(data), ENTRY.size)]
    assert len(entries) == 6
    found = find_transactions(find_log_files(str(recorded)))
    assert sorted(found.aborted) == sorted(entries)
    assert not found.unsure
    for path in recorded.glob("*.*"):
        if path.suffix != ".log":
            path.unlink()
    assert sorted(find_transactions(find_log_files(str(recorded))).aborted) == sorted(entries)


@pytest.mark.parametrize("without", ["", ".txnindex", ".snapshot", ".txnindex .snapshot"])
def test_states_are_the_same_whatever_lies_beside(without: str, recorded: pathlib.Path) -> None:
    """Every choice of segments that lost a file beside them."""
    expected = states_of(recorded)
    assert set(expected.values()) == {"open", "committed", "aborted"}
    paths = sorted(path for path in recorded.iterdir() if path.suffix in without.split())
    for lost in itertools.chain.from_iterable(itertools.combinations(paths, n) for n in range(len(paths) + 1)):
        kept = {path: path.read_bytes() for path in lost}
        for path in lost:
            path.unlink()
        assert told(recorded) == expected, lost
        for path, data in kept.items():
            path.write_bytes(data)


@pytest.mark.parametrize("kind", ["cut", "version", "order", "producer", "empty", "beyond"])
def test_an_index_that_does_not_fit_is_not_believed(kind: str, tmp_path: pathlib.Path) -> None:
    directory = unpack_log("txn-java", tmp_path)
    expected = states_of(directory)
    for path in directory.glob("*.txnindex"):
        data = bytearray(path.read_bytes())
        if kind == "cut":
            del data[-5:]
        elif kind == "version":
            data[1] = 1
        elif kind == "order":
            data[:] = data[ENTRY.size : 2 * ENTRY.size] + data[: ENTRY.size]
        elif kind == "producer":
            data[2] = 0xFF
        elif kind == "empty":
            data.clear()
        else:
            data[18:26] = struct.pack(">q", 9999)
        path.write_bytes(data)
    assert len(find_transactions(find_log_files(str(directory))).unsure) == 2
    assert told(directory) == expected


def test_a_spoiled_snapshot_is_not_believed(tmp_path: pathlib.Path) -> None:
    directory = unpack_log("txn-java", tmp_path)
    expected = find_transactions(find_log_files(str(directory)))
    for path in directory.glob("*.snapshot"):
        path.write_bytes(path.read_bytes()[:-1] + b"\xaa")
    assert find_transactions(find_log_files(str(directory))) == expected


def test_the_first_undecided_record_is_the_last_stable_offset(recorded: pathlib.Path) -> None:
    found = find_transactions(find_log_files(str(recorded)))
    opened = [offset for (_, offset), state in states_of(recorded).items() if state == "open"]
    assert found.last_stable_offset == min(opened)
    assert [first for _, first, _ in found.undecided] == [min(opened)]


def test_without_transactions_everything_is_stable(tmp_path: pathlib.Path) -> None:
    for name in ("plain-librdkafka", "message-set-v0-gzip", "compacted"):
        files = find_log_files(str(unpack_log(name, tmp_path)))
        found = find_transactions(files)
        assert (found.last_stable_offset, found.aborted, found.undecided) == (MAX_LONG, (), ())


def test_partitions_are_told_apart(tmp_path: pathlib.Path) -> None:
    for number, name in enumerate(RECORDED):
        unpack_log(name, tmp_path).rename(tmp_path / f"t-{number}")
    files = find_log_files([str(tmp_path / "t-0"), str(tmp_path / "t-1")])
    found = find_all_transactions(files)
    assert {key[1]: value for key, value in found.items()} == {
        number: find_transactions([file for file in files if file.partition == number]) for number in (0, 1)
    }
    assert found["t", 0].aborted != found["t", 1].aborted


def truncated(file: pathlib.Path, size: int) -> None:
    file.write_bytes(file.read_bytes()[:size])


def test_a_cut_off_tail_is_the_end_of_the_log(tmp_path: pathlib.Path) -> None:
    """As for a broker that starts on it: a transaction whose marker is cut off is open, and bounds what is stable."""
    directory = unpack_log("txn-java", tmp_path)
    last = sorted(directory.glob("*.log"))[-1]
    marker = next((at, batch) for path, at, batch in batches_of(directory) if path == str(last) and batch.is_control)
    truncated(last, marker[0] + 10)
    found = find_transactions(find_log_files(str(directory)))
    assert found.last_stable_offset == 66
    assert found.undecided == ((marker[1].producer_id, 66, MAX_LONG),)


def test_a_marker_that_is_damaged_hides_its_transaction_alone(tmp_path: pathlib.Path) -> None:
    directory = unpack_log("txn-java", tmp_path)
    for path in directory.glob("*.txnindex"):
        path.unlink()
    expected = states_of(directory)
    last = sorted(directory.glob("*.log"))[-1]
    at = next(at for path, at, batch in batches_of(directory) if path == str(last) and batch.is_control)
    data = bytearray(last.read_bytes())
    data[at + 70] ^= 0xFF
    last.write_bytes(data)
    found = find_transactions(find_log_files(str(directory)))
    assert found.last_stable_offset == 70, "the transaction that is open in the sound log"
    changed = {key: state for key, state in told(directory).items() if expected[key] != state}
    assert changed == {(8, 66): "open"}


def spoil_marker(directory: pathlib.Path, offset: int) -> None:
    name, at = next((name, at) for name, at, batch in batches_of(directory) if batch.base_offset == offset)
    data = bytearray(pathlib.Path(name).read_bytes())
    data[at + 70] ^= 0xFF
    pathlib.Path(name).write_bytes(data)


@pytest.mark.parametrize("without", ["", ".txnindex", ".txnindex .snapshot"])
def test_a_lost_marker_is_told_by_the_next_epoch_or_by_the_index(without: str, tmp_path: pathlib.Path) -> None:
    """Transactions of version 2 have an epoch each: the next marker of the producer is not taken for the lost one."""
    directory = unpack_log("txn-java", tmp_path)
    for path in [path for path in directory.iterdir() if path.suffix in without.split()]:
        path.unlink()
    expected = states_of(directory)
    spoil_marker(directory, 58)  # the end of 57, aborted; 61 commits
    assert told_states(directory, expected) == ({} if not without else {(8, 57): "open"})
    assert find_transactions(find_log_files(str(directory))).last_stable_offset == 70


def told_states(directory: pathlib.Path, expected: dict[tuple[int, int], str]) -> dict[tuple[int, int], str]:
    """Those that are told otherwise."""
    files = find_log_files(str(directory))
    transactions = find_transactions(files)
    found = {}
    for (producer_id, offset), state in expected.items():
        file = next(file for file in reversed(files) if file.base_offset <= offset)
        within = transactions.within(file)
        if within.state(producer_id, offset) != state:
            found[producer_id, offset] = within.state(producer_id, offset)
        within.close()
    return found


def test_a_lost_marker_of_the_last_segment_is_in_its_index(tmp_path: pathlib.Path) -> None:
    directory = unpack_log("txn-librdkafka", tmp_path)
    expected = states_of(directory)
    spoil_marker(directory, 58)
    assert told_states(directory, expected) == {}


@pytest.mark.slow
def test_a_wrong_length_hides_nothing_that_can_be_read(tmp_path: pathlib.Path) -> None:
    """The length of a batch leads into the middle of another: the markers behind are found all the same."""
    directory = unpack_log("txn-librdkafka", tmp_path)
    for path in directory.glob("*.txnindex"):
        path.unlink()
    expected = states_of(directory)
    (log,) = directory.glob("*.log")
    sound = log.read_bytes()
    places = [(at, batch) for _, at, batch in batches_of(directory)]
    for at, batch in places[:-1]:
        for change in (7, -3, 5000, -(1 << 20), 1 << 30):
            data = bytearray(sound)
            struct.pack_into(">i", data, at + 8, batch.length + change)
            log.write_bytes(data)
            files = find_log_files(str(directory))
            found = find_transactions(files).within(files[0])
            for (producer_id, offset), state in expected.items():
                if offset == batch.base_offset or (batch.is_control and batch.producer_id == producer_id):
                    continue
                assert found.state(producer_id, offset) == state, (at, change, producer_id, offset)


def test_a_large_batch_and_an_empty_file_are_walked_over(tmp_path: pathlib.Path) -> None:
    from kafkatools.core.records.builder import BatchBuilder

    def data_batch(offset: int, size: int) -> bytes:
        builder = BatchBuilder(
            size + 100, base_offset=offset, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        builder.append(0, None, b"x" * size)
        return bytes(builder.close())

    directory = tmp_path / "big-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(data_batch(0, 9 << 20) + data_batch(1, 10))
    (directory / f"{2:020}.log").touch()
    found = find_transactions(find_log_files(str(directory)))
    assert (found.last_stable_offset, found.undecided) == (0, ((5, 0, MAX_LONG),))


def test_a_segment_without_index_asks_the_files_only_from_there_on(tmp_path: pathlib.Path) -> None:
    directory = unpack_log("txn-java", tmp_path)
    (directory / f"{33:020}.txnindex").unlink()
    files = find_log_files(str(directory))
    found = find_transactions(files)
    assert found.unsure == frozenset({files[1].url})
    assert [found.within(file).unsure for file in files] == [(), tuple(files[1:]), ()]
    assert isinstance(files[0], LogFile)
