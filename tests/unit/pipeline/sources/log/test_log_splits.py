"""How segments are cut into tasks, and what bounds leave out of them."""

from __future__ import annotations

import itertools
import pathlib
import shutil
import struct
import tracemalloc

import pytest
from support.recorded_segments import log_directory
from support.requirements import require

try:
    import pyarrow  # noqa: F401
    import pyspark  # noqa: F401
except ImportError:
    require("PySpark is not installed: pip install '.[spark]'")

from support.file_batches import read_file_batches

from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.legacy import LegacyBatch
from kafkatools.pipeline.sources.log.files import LogFile, find_log_files
from kafkatools.pipeline.sources.log.splits import LogSplit, make_tasks
from kafkatools.pipeline.sources.record_bounds import RecordBounds


def split_up(files: list[LogFile], bounds: RecordBounds | None = None, **sizes: int) -> list[LogSplit]:
    tasks = make_tasks(files, {file.topic_partition: bounds or RecordBounds() for file in files}, **sizes)
    return [split for task in tasks for split in task.splits]


def batches_of(file: LogFile) -> list[RecordBatch | LegacyBatch]:
    return list(read_file_batches(pathlib.Path(file.url).read_bytes()))


def copy(tmp_path: pathlib.Path, name: str, segments: int = 99) -> list[LogFile]:
    """A recorded partition in a directory that may be written to; its first segments only."""
    target = tmp_path / "ledger-0"
    target.mkdir()
    logs = sorted(log_directory(name).glob("*.log"))[:segments]
    for log in logs:
        for file in log.parent.glob(log.stem + "*"):
            shutil.copy(file, target / file.name)
    return find_log_files(str(target))


@pytest.mark.parametrize("index", ["as written", "none", "zeros", "shifted", "backwards", "cut"])
def test_splits_meet_at_batches_whatever_the_index(tmp_path: pathlib.Path, index: str) -> None:
    files = copy(tmp_path, "multi-segment")
    for path in (tmp_path / "ledger-0").glob("*.index"):
        entries = [struct.unpack_from(">ii", path.read_bytes(), at) for at in range(0, path.stat().st_size, 8)]
        changed = {
            "as written": entries,
            "none": [],
            "zeros": entries + [(0, 0)] * 9,
            "shifted": [(offset, position + 7) for offset, position in entries],
            "backwards": entries[::-1],
            "cut": entries[:3],
        }[index]
        path.unlink() if index == "none" else path.write_bytes(b"".join(struct.pack(">ii", *each) for each in changed))
    splits = split_up(files, split_bytes=4096)
    for file in files:
        mine = [split for split in splits if split.file == file]
        edges = [0, *(split.end_position for split in mine)]
        assert [split.start_position for split in mine] == edges[:-1]
        assert edges[-1] == file.size_bytes
        starts = {batch.position for batch in batches_of(file)}
        assert set(edges[:-1]) <= starts
        assert len(mine) == -(-file.size_bytes // 4096) or index not in ("as written", "none")
        assert (mine[-1].file.next_base_offset is None) == (file is files[-1])


def test_old_formats_are_cut_too(tmp_path: pathlib.Path) -> None:
    files = copy(tmp_path, "message-set-v1-none")
    splits = split_up(files, split_bytes=1024)
    starts = {batch.position for batch in batches_of(files[0])}
    assert len(splits) > 4
    assert {split.start_position for split in splits} <= starts


def test_an_index_entry_whose_batch_is_damaged_is_not_believed(tmp_path: pathlib.Path) -> None:
    files = copy(tmp_path, "multi-segment", 1)
    whole = split_up(files, min_partitions=2)
    assert len(whole) == 2
    edge = whole[1].start_position
    data = bytearray(pathlib.Path(files[0].url).read_bytes())
    data[edge + 70] ^= 1
    pathlib.Path(files[0].url).write_bytes(data)
    again = split_up(files, min_partitions=2)
    assert len(again) == 2 and again[1].start_position != edge


@pytest.mark.parametrize("bounds", [(0, 10), (200, 260), (310, 311), (1196, 1197), (5000, 9999), (151, 153)])
def test_offsets_are_found_through_names_and_indexes(tmp_path: pathlib.Path, bounds: tuple[int, int]) -> None:
    files = copy(tmp_path, "multi-segment")
    splits = split_up(files, RecordBounds(start_offset=bounds[0], end_offset=bounds[1]), split_bytes=1 << 20)
    needed = {
        (file.url, batch.position)
        for file in files
        for batch in batches_of(file)
        if batch.base_offset < bounds[1] and batch.last_offset >= bounds[0]
    }
    read = {
        (split.file.url, batch.position)
        for split in splits
        for batch in batches_of(split.file)
        if split.start_position <= batch.position < split.end_position
    }
    assert needed <= read
    # an entry each 512 bytes: little more than what is needed
    assert sum(split.size_bytes for split in splits) <= sum(1 for _ in needed) * 700 + 4 * 2048


def test_timestamps_leave_segments_out(tmp_path: pathlib.Path) -> None:
    files = copy(tmp_path, "multi-segment")
    newest = [max(batch.max_timestamp for batch in batches_of(file)) for file in files]
    middle = batches_of(files[len(files) // 2])
    after = max(batch.max_timestamp for batch in middle[: len(middle) // 2]) + 1
    splits = split_up(files, RecordBounds(start_timestamp_ms=after), split_bytes=1 << 20)
    urls = {split.file.url for split in splits}
    for file, latest in zip(files, newest, strict=True):
        assert (file.url in urls) == (latest >= after or file is files[-1])
    for split in splits:
        before = [batch for batch in batches_of(split.file) if batch.position < split.start_position]
        assert all(batch.max_timestamp < after for batch in before)
    assert any(split.start_position for split in splits)


def test_small_segments_share_tasks(tmp_path: pathlib.Path) -> None:
    files = copy(tmp_path, "txn-java")
    assert len(files) == 3
    bounds = {files[0].topic_partition: RecordBounds()}
    together = make_tasks(files, bounds)
    assert [len(task.splits) for task in together] == [len(files)]
    apart = make_tasks(files, bounds, min_partitions=3)
    assert len(apart) >= 3
    flat = [(split.file.url, split.start_position) for task in apart for split in task.splits]
    assert flat == sorted(flat)
    assert make_tasks(files, {}) == []


@pytest.mark.parametrize("bounds", [RecordBounds(), RecordBounds(start_offset=3)])
def test_indexes_of_many_segments_are_not_in_memory_together(tmp_path: pathlib.Path, bounds: RecordBounds) -> None:
    source = copy(tmp_path, "multi-segment", 1)[0]
    index_bytes, segments = 4 << 20, 12
    for number in range(1, segments):
        name = tmp_path / "ledger-0" / f"{number * 100_000:020}"
        shutil.copy(source.url, f"{name}.log")
        with open(f"{name}.index", "wb") as index:
            index.truncate(index_bytes)
    files = find_log_files(str(tmp_path / "ledger-0"))
    assert len(files) == segments
    tracemalloc.start()
    try:
        split_up(files, bounds, split_bytes=4096)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * index_bytes


@pytest.mark.parametrize("first_bytes", [1, 5_000, 1 << 30])
def test_first_task_can_be_small(tmp_path: pathlib.Path, first_bytes: int) -> None:
    files = copy(tmp_path, "multi-segment", 2)
    starts = [batch.position for batch in batches_of(files[0])]
    tasks = make_tasks(files, {files[0].topic_partition: RecordBounds()}, first_bytes=first_bytes)
    (first,) = tasks[0].splits
    assert first.start_position == 0
    assert first.end_position in [*starts, files[0].size_bytes]
    assert min(first_bytes, files[0].size_bytes) <= first.end_position <= first_bytes + 20_000
    flat = [split for task in tasks for split in task.splits]
    covered = [(split.file.url, split.start_position, split.end_position) for split in flat]
    for (url, _, end), (next_url, start, _) in itertools.pairwise(covered):
        assert start == (end if url == next_url else 0)
    assert sum(split.size_bytes for split in flat) == sum(file.size_bytes for file in files)


def test_the_end_of_a_log_is_no_reason_to_read_more(tmp_path: pathlib.Path) -> None:
    files = copy(tmp_path, "multi-segment", 2)
    everything = sum(file.size_bytes for file in files)
    sizes = [split.size_bytes for split in split_up(files, min_partitions=7)]
    assert sum(sizes) == everything
    assert len(sizes) >= 7
    assert all(one.file != other.file or one.end_position == other.start_position
               for one, other in itertools.pairwise(split_up(files, min_partitions=7)))  # fmt: skip
