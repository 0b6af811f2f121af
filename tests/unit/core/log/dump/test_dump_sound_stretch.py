"""The quick way shows what the slow way shows, for any records; compiled and plain."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.core.log.dump.damage import Finding
from kafkatools.core.log.dump.decoders import plain_decoder, value_decoder
from kafkatools.core.log.dump.file_dump import FileDump
from kafkatools.core.log.dump.gaps import GapFinder
from kafkatools.core.log.dump.options import DumpOptions
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.dump.text_lines import TextLines
from kafkatools.core.records import _dump_kernel as dump_kernel
from kafkatools.core.records.batch import stamp_crc
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import TimestampType
from kafkatools.core.records.compression import CompressionType
from kafkatools.core.records.layout import HEADER_SIZE

_CELLS = st.none() | st.binary(max_size=20) | st.text(max_size=12).map(lambda text: text.encode())
_HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
_RECORDS = st.lists(st.tuples(st.integers(-(2**40), 2**45), _CELLS, _CELLS, _HEADERS), min_size=1, max_size=6)
_BATCHES = st.lists(
    st.tuples(
        _RECORDS,
        st.sampled_from([CompressionType.NONE, CompressionType.GZIP]),
        st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]),
        st.sampled_from([-1, 0, 2**31 - 2]),
        st.integers(0, 3),
    ),
    max_size=4,
)


class _SlowLines(TextLines):
    def stretch(self, file: SegmentFile, end: int, gaps: GapFinder, limits: object) -> None:
        return None


def segment(batches: list[tuple]) -> bytes:  # type: ignore[type-arg]
    data = b""
    offset = 0
    for records, codec, timestamp_type, base_sequence, hole in batches:
        offset += hole
        builder = BatchBuilder(
            1 << 16,
            codec=codec,
            timestamp_type=timestamp_type,
            base_offset=offset,
            producer_id=5 if base_sequence >= 0 else -1,
            producer_epoch=0 if base_sequence >= 0 else -1,
            base_sequence=base_sequence,
        )
        for timestamp, key, value, headers in records:
            builder.append(timestamp, key, value, headers)
        data += bytes(builder.close())
        offset += len(records)
    return data


def wrapping_batch() -> tuple:  # type: ignore[type-arg]
    """A batch of three records at the largest offsets; that of the last one overflows."""
    return [(1, None, b"v", [])] * 3, CompressionType.NONE, TimestampType.CREATE_TIME, 0, 2**63 - 2


def dumped(path: pathlib.Path, lines: type[TextLines], options: DumpOptions) -> tuple[bytes, list[str], list[Finding]]:
    out = bytearray()
    findings: list[Finding] = []
    dump = FileDump(options, lines(options, out.extend), findings.append)
    dump.dump(str(path))
    return bytes(out), list(dump.summary.lines()), findings


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(batches=_BATCHES, contents=st.booleans(), skip=st.booleans(), deep=st.booleans())
def test_quick_and_slow_show_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple],
    contents: bool,
    skip: bool,
    deep: bool,  # type: ignore[type-arg]
) -> None:
    path = tmp_path_factory.mktemp("dump") / "00000000000000000000.log"
    path.write_bytes(segment(batches))
    text = value_decoder("StringDecoder")
    assert text is not None
    options = DumpOptions(
        print_contents=contents,
        deep=deep or contents,
        skip_metadata=skip,
        decoder=lambda: plain_decoder(text, text),
        is_plain_text=True,
    )
    assert dumped(path, TextLines, options) == dumped(path, _SlowLines, options)


def test_last_sequence_wraps_to_zero(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    records = [(1, None, b"v", [])] * 4
    path.write_bytes(segment([(records, CompressionType.NONE, TimestampType.CREATE_TIME, 2**31 - 2, 0)]))
    out, _, findings = dumped(path, TextLines, DumpOptions())
    assert b" baseSequence: 2147483646 lastSequence: 1 " in out
    assert findings == []


@pytest.mark.parametrize("lines", [TextLines, _SlowLines])
def test_offsets_wrap_as_a_java_long(tmp_path: pathlib.Path, lines: type[TextLines]) -> None:
    """The base offset is outside the checksum: a changed one may be the largest long."""
    path = tmp_path / "00000000000000000005.log"
    records = [(1, None, b"v", []), (2, None, b"w", [("h", b"x")])]
    create_time, none = TimestampType.CREATE_TIME, CompressionType.NONE
    path.write_bytes(
        segment([(records, none, create_time, -1, 2**63 - 1)]) + segment([(records, none, create_time, -1, 5)])
    )
    out, _, _ = dumped(path, lines, DumpOptions(deep=True, print_contents=True))
    assert b"baseOffset: 9223372036854775807 lastOffset: -9223372036854775808 " in out
    assert [line.split()[2] for line in out.splitlines() if line.startswith(b"| offset: ")] == [
        b"9223372036854775807", b"-9223372036854775808", b"5", b"6",
    ]  # fmt: skip


@pytest.mark.parametrize("lines", [TextLines, _SlowLines])
def test_sequences_do_not_wrap_with_the_offsets(tmp_path: pathlib.Path, lines: type[TextLines]) -> None:
    path = tmp_path / "09223372036854775806.log"
    path.write_bytes(segment([wrapping_batch()]))
    out, _, _ = dumped(path, lines, DumpOptions(deep=True))
    assert b" lastOffset: -9223372036854775808 count: 3 baseSequence: 0 lastSequence: 2 " in out
    assert [line.split()[10] for line in out.splitlines() if line.startswith(b"| offset: ")] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("lines", [TextLines, _SlowLines])
@pytest.mark.parametrize("length", [b"\x81\x80\x80\x80\x08", b"\xff\xff\xff\xff\x0f", b"\x81\x80\x80\x80\x10"])
def test_any_negative_length_of_a_header_value_is_null(
    tmp_path: pathlib.Path, lines: type[TextLines], length: bytes
) -> None:
    """A varint of five bytes has more than 32 bits, and the excess is cut off as by ByteUtils.readVarint."""
    path = tmp_path / "00000000000000000000.log"
    body = b"\0\0\0\x02k\x02v" + b"\x04" + b"\x04ab" + length + b"\x04cd" + b"\x02x"
    builder = BatchBuilder(1 << 10)
    builder.append(0, b"k", bytes(len(body) - 7))
    batch = bytearray(builder.close())
    assert len(batch) == HEADER_SIZE + 1 + len(body)
    batch[HEADER_SIZE:] = bytes((2 * len(body),)) + body
    stamp_crc(batch, 0, len(batch))
    path.write_bytes(batch)
    out, _, findings = dumped(path, lines, DumpOptions(deep=True, print_contents=True))
    assert b" headerKeys: [ab,cd]\n" in out
    assert findings == []


@pytest.mark.parametrize("number", [0, 7, 10, -1, -10, 2**63 - 1, -(2**63)])
def test_numbers_are_shown_in_decimal(number: int) -> None:
    table = array("q", [0, 0, 61, 2, 0, 0, 0, 0, 0, number, 0, 0, -1, 0])
    target = bytearray(dump_kernel.BATCH_LINE_BYTES)
    size = dump_kernel.format_batches(target, table, 0, 1, 0)
    assert b" CreateTime: %d size: 61 " % number in target[:size]


def test_kernel_refuses_a_target_that_is_too_short() -> None:
    table = array("q", [0] * 28)
    assert dump_kernel.format_batches(bytearray(dump_kernel.BATCH_LINE_BYTES), table, 0, 2, 0) == -1


@pytest.mark.slow
def test_plain_kernel_shows_the_same(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    records = [(1_700_000_000_000, "clé".encode(), b"v", [("h", b"x"), ("i", None)]), (2, None, None, [])]
    path.write_bytes(segment([(records, CompressionType.NONE, TimestampType.CREATE_TIME, 0, 0)]))
    last = tmp_path / "09223372036854775806.log"
    last.write_bytes(segment([wrapping_batch()]))
    files = f"{path.name},{last.name}"
    command = [sys.executable, "-m", "kafkatools", "dump-log", "--print-data-log", "--files", files]
    plain = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "KT_PURE_PYTHON": "1"}, capture_output=True, check=True
    )
    usual = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert plain.stdout == usual.stdout
    assert b"headerKeys: [h,i] key: cl\xc3\xa9 payload: v\n" in plain.stdout
