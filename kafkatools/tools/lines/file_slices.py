"""Find which part of each segment file belongs to a slice, for dumps of files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from kafkatools.core.consumer.completed_fetch import FetchOptions
from kafkatools.core.log.dump.options import FileSlice, RecordRange
from kafkatools.core.log.reading.directories import PartitionDirectory, partition_named_by
from kafkatools.core.log.reading.segment_reader import SegmentReader
from kafkatools.tools.lines.log_files import LogFilesReader
from kafkatools.tools.lines.slice import LOG_END, Slice
from kafkatools.tools.lines.slices import NewestRecords, SliceFinder


def slices_of(paths: Iterable[str], requested: Slice, note: Callable[[str], None]) -> dict[str, FileSlice]:
    """Return the part of each segment file that has records of the slice, without files that have none. The files of
    one directory are one log. `note` prints a line about offsets that a log does not have. Raises OSError and the
    KafkaError of files that cannot be read."""
    directories: dict[str, list[str]] = {}
    for path in paths:
        directories.setdefault(os.path.dirname(path), []).append(path)
    found: dict[str, FileSlice] = {}
    for directory, files in directories.items():
        found |= _in_directory(directory, files, requested, note)
    return found


def _in_directory(
    directory: str, paths: list[str], requested: Slice, note: Callable[[str], None]
) -> dict[str, FileSlice]:
    part = partition_named_by(directory or ".")
    names = tuple(os.path.basename(path) for path in paths)
    ended = requested if requested.end or requested.last else requested._replace(end=LOG_END)
    options = FetchOptions(skip_corrupt=lambda damage: None)  # the dump reports it
    with LogFilesReader([PartitionDirectory(part, directory or ".", names)], options, note) as reader:
        reader.assign([part])
        bounds = SliceFinder(reader, ended, note).bounds([part])
        if requested.last is not None:
            bounds = NewestRecords(reader, requested).of_each(bounds, requested.last)
        start, end = bounds.starts[part], (bounds.ends or {})[part]
        records = RecordRange(start, end, *requested.times)
        is_to_end = end >= reader.end_offsets([part])[part]
        segments = reader.segments_of(part)
    path_of = {os.path.basename(path): path for path in paths}
    found = {}
    for index, segment in enumerate(segments):
        next_base = segments[index + 1].base_offset if index + 1 < len(segments) else end
        if segment.base_offset < end and next_base > start:
            cut = _cut(segment, records, is_whole_end=is_to_end or next_base <= end and index + 1 < len(segments))
            if cut is not None:
                found[path_of[os.path.basename(segment.path)]] = cut
    return found


def _cut(segment: SegmentReader, records: RecordRange, *, is_whole_end: bool) -> FileSlice | None:
    """Return the part of one segment, None if no batch has records of the slice. `is_whole_end`: the slice goes on at
    the end of the file, so bytes that are no batch are dumped too."""
    start = 0 if records.start <= segment.base_offset else segment.position_of(records.start)
    whole_from, first = start, segment.extent(start)
    if first is not None and first[0] < records.start:
        whole_from = start + first[2]
    end = whole_to = segment.size_bytes
    if not is_whole_end:
        end = whole_to = segment.position_of(records.end)
        last = segment.extent(end)
        if last is not None and last[0] < records.end:
            end += last[2]
    return FileSlice(start, end, whole_from, max(whole_to, whole_from), records) if start < end else None
