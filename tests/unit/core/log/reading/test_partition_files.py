"""The reader of a partition's files while a broker changes them."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from support.recorded_logs import unpack_log

from kafkatools.core.log.reading.directories import UnreadableLog, find_partitions
from kafkatools.core.log.reading.partition_files import PartitionFiles, Place
from kafkatools.core.log.reading.segment_reader import Run
from kafkatools.core.records.batch import read_batches

CHUNK = 4096


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> pathlib.Path:
    """Eight segments with offsets 0 to 1196."""
    directory = tmp_path / "ledger-0"
    shutil.copytree(unpack_log("multi-segment", tmp_path), directory)
    return directory


def open_files(directory: pathlib.Path, notes: list[str] | None = None) -> PartitionFiles:
    [partition] = find_partitions(str(directory))
    return PartitionFiles(partition, ([] if notes is None else notes).append)


def read_to_end(files: PartitionFiles, place: Place) -> list[int]:
    """The base offsets of all batches from a place on."""
    offsets = []
    while True:
        found, place = files.run(place, CHUNK)
        if found is None:
            return offsets
        assert isinstance(found, Run)
        offsets += [batch.base_offset for batch in read_batches(found.data)]


def base_offsets(paths: list[pathlib.Path]) -> list[int]:
    return [batch.base_offset for path in paths for batch in read_batches(path.read_bytes())]


def test_a_segment_that_is_deleted_while_it_is_read_moves_on_to_the_next(ledger: pathlib.Path) -> None:
    paths = sorted(ledger.glob("*.log"))
    files = open_files(ledger)
    found, place = files.run(files.place_of(0), CHUNK)
    assert isinstance(found, Run)
    for path in paths[:2]:
        path.rename(f"{path}.deleted")
    assert read_to_end(files, place) == base_offsets(paths[2:])


def test_a_segment_that_is_cleaned_while_it_is_read_continues_at_its_offset(ledger: pathlib.Path) -> None:
    path = min(ledger.glob("*.log"))
    data = path.read_bytes()
    batches = [data[batch.position : batch.position + batch.size_bytes] for batch in read_batches(data)]
    files = open_files(ledger)
    found, place = files.run(files.place_of(0), CHUNK)
    assert isinstance(found, Run)
    cleaned = ledger / f"{0:020}.log.swap"
    cleaned.write_bytes(b"".join(batches[::2]))
    expected = [batch.base_offset for batch in read_batches(cleaned.read_bytes())]
    cleaned.replace(path)
    rest = base_offsets(sorted(ledger.glob("*.log"))[1:])
    assert read_to_end(files, place) == [offset for offset in expected if offset >= found.next_offset] + rest


def test_what_is_appended_after_the_log_was_opened_is_not_read(ledger: pathlib.Path) -> None:
    last = max(ledger.glob("*.log"))
    data = last.read_bytes()
    first_size = int.from_bytes(data[8:12], "big") + 12
    last.write_bytes(data[:first_size])
    files = open_files(ledger)
    end = files.log_end_offset
    with last.open("ab") as out:
        out.write(data[first_size:])
    assert read_to_end(files, files.place_of(0))[-1] == int(last.stem)
    assert files.log_end_offset == end


def test_a_file_that_is_cut_while_it_is_read_is_an_error_with_its_name(ledger: pathlib.Path) -> None:
    path = min(ledger.glob("*.log"))
    files = open_files(ledger)
    found, place = files.run(files.place_of(0), CHUNK)
    assert isinstance(found, Run)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(5000)
    with pytest.raises(UnreadableLog, match=f"{path} was cut from {size} to 5000 bytes"):
        read_to_end(files, place)


def test_a_large_segment_without_an_index_is_named(ledger: pathlib.Path) -> None:
    last = max(ledger.glob("*.log"))
    last.with_suffix(".index").unlink()
    with last.open("ab") as file:
        file.truncate(1 << 20)
    notes: list[str] = []
    assert open_files(ledger, notes).log_end_offset == 1197
    assert notes == [f"{last.with_suffix('.index')} is missing: searched without it"]


@pytest.mark.parametrize("name", ["orders-0.5f3c-delete", "orders-0.5f3c-future", "orders-0.5f3c-stray"])
def test_a_partition_set_aside_is_read_only_by_its_own_name(ledger: pathlib.Path, name: str) -> None:
    aside = ledger.rename(ledger.parent / name)
    with pytest.raises(UnreadableLog, match="neither segments nor partition directories"):
        find_partitions(str(ledger.parent))
    [partition] = find_partitions(str(aside))
    assert partition.topic_partition == ("orders", 0)


def test_a_partition_in_two_directories_is_refused(ledger: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shutil.copytree(ledger, tmp_path / "other" / "ledger-0")
    with pytest.raises(UnreadableLog, match="ledger-0 is in both"):
        find_partitions(f"{ledger.parent},{tmp_path / 'other'}")
