"""JSON lines of whole batches are those of the rows, one record after the other."""

import json
import pathlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.core.log.dump.decoders import plain_decoder, value_decoder
from kafkatools.core.log.dump.file_dump import FileDump
from kafkatools.core.log.dump.json_lines import JsonLines
from kafkatools.core.log.dump.options import DumpOptions
from kafkatools.core.records import json_cells
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import TimestampType
from kafkatools.core.records.compression import CompressionType
from kafkatools.output import json_line

_TEXT = st.text(st.sampled_from('a"\\\n\x00\x1f\x7f\u0080\u2028é€😀\ufffd'), max_size=6).map(str.encode)
_CELL = st.none() | _TEXT | st.binary(max_size=6)
_RECORDS = st.lists(
    st.tuples(st.integers(-(2**40), 2**45), _CELL, _CELL, st.lists(st.tuples(st.text(max_size=3), _CELL), max_size=2)),
    min_size=1,
    max_size=5,
)
_STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"


def dumped(path: pathlib.Path, contents: bool, quick: bool) -> tuple[list[str], list[str]]:
    decoder = value_decoder(_STRING_DECODER)
    assert decoder is not None
    options = DumpOptions(
        print_contents=contents, deep=True, is_plain_text=True, decoder=lambda: plain_decoder(decoder, decoder)
    )
    lines: list[str] = []
    batches: list[str] = []

    def whole(text: str) -> None:
        batches.append(text)
        lines.extend(text.split("\n"))

    rows = JsonLines(options, lambda row: lines.append(json_line(row)), whole if quick else None)
    dump = FileDump(options, rows, lambda finding: lines.append(str(finding)))
    dump.dump(str(path))
    if quick:
        assert batches
    return lines, list(dump.summary.lines())


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    records=_RECORDS,
    codec=st.sampled_from([CompressionType.NONE, CompressionType.GZIP]),
    timestamp_type=st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]),
    base_sequence=st.sampled_from([-1, 0, 2**31 - 2]),
    holes=st.booleans(),
    contents=st.booleans(),
)
def test_whole_batches_give_the_lines_of_single_records(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[Any],
    codec: CompressionType,
    timestamp_type: TimestampType,
    base_sequence: int,
    holes: bool,
    contents: bool,
) -> None:
    builder = BatchBuilder(
        1 << 16,
        codec=codec,
        timestamp_type=timestamp_type,
        producer_id=5,
        producer_epoch=0,
        base_sequence=base_sequence,
    )
    for number, record in enumerate(records):
        builder.append_with_offset(number * (1 + holes), *record)
    path = tmp_path_factory.mktemp("segment") / "00000000000000000000.log"
    plain = BatchBuilder(1 << 10, base_offset=100)
    plain.append(1, b"k", b"v")
    path.write_bytes(bytes(builder.close()) + bytes(plain.close()))
    assert dumped(path, contents, quick=True) == dumped(path, contents, quick=False)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (None, "null"),
        (b"", '""'),
        (b"a", '"a"'),
        (b'"\\\n', '"\\"\\\\\\n"'),
        (b"\x7f", '"\\u007f"'),
        ("é\u2028".encode(), '"é\\u2028"'),
        (b"\xff\x00", '{"b64":"/wA="}'),
    ],
)
def test_cell_alone_and_among_others(data: bytes | None, shown: str) -> None:
    assert json_cells.cell(data) == shown
    for others in ([], [b"x"], [None, b"x"], [b"\xfe"], [b"", b""]):
        column = [*others, data]
        buffer = b"".join(part or b"" for part in column)
        lengths = [-1 if part is None else len(part) for part in column]
        positions = [sum(max(size, 0) for size in lengths[:row]) for row in range(len(column))]
        cells = json_cells.cells(buffer, positions, lengths)
        assert cells[-1] == shown
        assert len(cells) == len(column)
        assert (
            json_cells.cells(memoryview(bytes(1 << 16) + buffer), [p + (1 << 16) for p in positions], lengths) == cells
        )
    if data is not None and shown.startswith('"'):
        assert json.loads(shown) == data.decode()


def test_column_without_rows() -> None:
    assert json_cells.cells(b"", [], []) == []
