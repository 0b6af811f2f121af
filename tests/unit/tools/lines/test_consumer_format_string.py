"""Formats of kcat: the kernel and the %-operation over columns write the bytes of single records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.errors import ConfigError, KafkaError
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.tools.lines.format_string import StringFormatter, parse_format

CELL = st.none() | st.binary(max_size=20)
HEADERS = st.lists(st.tuples(st.text(max_size=5), CELL), max_size=3)
ROWS = st.lists(st.tuples(st.integers(-1, 1 << 62), CELL, CELL, HEADERS), min_size=1, max_size=6)
TOKENS = st.lists(st.sampled_from(["%s", "%S", "%R", "%k", "%K", "%t", "%p", "%o", "%T", "%h", "%%", "\\n", "é", " "]))


def fetched(rows: Any) -> FetchedColumns:
    builder = BatchBuilder(1 << 16, base_offset=1 << 40)
    for row in rows:
        builder.append(*row)
    return FetchedColumns("odd.topic", 17, RecordBatch(builder.close()).columns())


def stop(error: KafkaError) -> bool:
    return False


def one_by_one(form: str, rows: Any) -> bytes:
    """The bytes of kcat's rules, without columns."""
    out = b""
    for index, (timestamp, key, value, headers) in enumerate(rows):
        sizes = {"S": -1 if value is None else len(value), "K": -1 if key is None else len(key)}
        pairs = [name.encode() + b"=" + (b"NULL" if cell is None else cell) for name, cell in headers]
        texts = {
            "s": value or b"", "k": key or b"", "t": b"odd.topic", "p": b"17", "o": b"%d" % ((1 << 40) + index),
            "T": b"%d" % timestamp, "h": b",".join(pairs), "S": b"%d" % sizes["S"], "K": b"%d" % sizes["K"],
            "R": sizes["S"].to_bytes(4, "big", signed=True),
        }  # fmt: skip
        out += b"".join(texts[part.token] if part.token else part.text for part in parse_format(form))
    return out


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(ROWS, TOKENS)
def test_columns_and_single_records_give_the_same_bytes(rows: Any, tokens: list[str]) -> None:
    form = "".join(tokens)
    columns = fetched(rows)
    out = bytearray(b"before")
    formatter = StringFormatter(form)
    assert formatter.write(out, columns, stop) == len(rows)
    assert out == b"before" + one_by_one(form, rows) == b"before" + formatter._formatted(columns)


def test_record_that_cannot_be_deserialized_leaves_nothing() -> None:
    def integer(data: bytes) -> bytes:
        if len(data) != 4:
            raise KafkaError("no integer")
        return b"%d" % int.from_bytes(data, "big")

    rows = [(1, None, b"\0\0\0\7", ()), (2, None, b"short", ()), (3, None, b"\0\0\0\10", ())]
    out = bytearray()
    assert StringFormatter("<%s>", value=integer).write(out, fetched(rows), lambda error: True) == 3
    assert out == b"<7><8>"
    assert StringFormatter("<%s>", value=integer).write(bytearray(), fetched(rows), stop) == 2


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("%s%", "The format ends with % at character 3; write %% for a percent sign"),
        ("é%q", "Unknown token %q at character 2 of the format"),
        ("%v", "Unknown token %v at character 1 of the format; %s is the value"),
        ("é\\x", "\\x at character 2 of the format has no number"),
        ("%s \\x%s", "\\x at character 4 of the format has no number"),
    ],
)
def test_wrong_format_names_the_place(form: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        StringFormatter(form)
    assert str(raised.value).startswith(message)
