"""Format the records of a valid batch as JSON lines, a batch at a time: the text that the rows of json_lines give."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.dump.batch_headers import V2Header
from kafkatools.core.log.dump.gaps import GapFinder
from kafkatools.core.log.dump.options import DumpOptions
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.header import increment_sequence
from kafkatools.core.records.json_cells import cells, header_lists, quoted


def record_lines(path: str, header: V2Header, options: DumpOptions, gaps: GapFinder) -> str | None:
    """Return the JSON lines of a batch's records, without the last newline. None for a batch that must be shown record
    by record: damaged, empty, of control records, or with a decoder."""
    is_decoded = options.print_contents and not options.is_plain_text
    if is_decoded or header.is_control or not header.is_valid or header.record_count <= 0:
        return None
    try:
        columns = RecordBatch(header.view).columns()
    except (KafkaError, ValueError):
        return None
    headers = header_lists(columns) if options.print_contents else []
    if headers is None:
        return None
    gaps.see_column(columns.offsets)
    start = f'{{"type":"record","file":{quoted(path)},"offset":'
    middle = f',"timestamp_type":{quoted(header.timestamp_type)},"sequence":'
    sequences: Iterable[object] = repeat("", columns.count)
    if header.base_sequence < 0:
        middle += "-1"
    else:
        first = header.base_offset
        sequences = [increment_sequence(header.base_sequence, offset - first) for offset in columns.offsets]
    times = repeat(header.max_timestamp, columns.count) if header.attributes & 8 else columns.timestamps
    sizes = columns.key_lengths, columns.value_lengths
    if not options.print_contents:
        return "\n".join(
            [
                f'{start}{offset},"timestamp":{time}{middle}{sequence},"key_size":{key_size},"value_size":{value_size}}}'
                for offset, time, sequence, key_size, value_size in zip(
                    columns.offsets, times, sequences, *sizes, strict=True
                )
            ]
        )
    keys = cells(columns.buffer, columns.key_positions, columns.key_lengths)
    values = cells(columns.buffer, columns.value_positions, columns.value_lengths)
    return "\n".join(
        [
            f'{start}{offset},"timestamp":{time}{middle}{sequence},"key_size":{key_size},"value_size":{value_size}'
            f',"key":{key},"value":{value},"headers":{header_list}}}'
            for offset, time, sequence, key_size, value_size, key, value, header_list in zip(
                columns.offsets, times, sequences, *sizes, keys, values, headers, strict=True
            )
        ]
    )
