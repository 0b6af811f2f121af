"""The checksum of a copy: the same for the same records, however they are divided into batches, and for no others."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import RecordColumns
from kafkatools.tools.copying.checksum import RecordChecksum

CELLS = st.none() | st.binary(max_size=20)
HEADERS = st.lists(st.tuples(st.binary(max_size=4), CELLS), max_size=2)
ROWS = st.lists(st.tuples(st.integers(0, 2**40), CELLS, CELLS, HEADERS), min_size=1, max_size=12)
Row = tuple[int, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]


def columns_of(rows: list[Row], codec: int = 0) -> RecordColumns:
    builder = BatchBuilder(100_000, codec)
    for row in rows:
        builder.append(*row)
    return RecordBatch(builder.close()).columns()


def checksum(rows: list[Row], cuts: set[int], codec: int) -> RecordChecksum:
    places = sorted({0, len(rows), *(cut % len(rows) for cut in cuts)})
    total = RecordChecksum()
    for start, stop in itertools.pairwise(places):
        total = total.plus(columns_of(rows[start:stop], codec))
    return total


@pytest.mark.slow
@given(ROWS, st.sets(st.integers(0, 11)), st.sets(st.integers(0, 11)), st.sampled_from([0, 1]))
def test_batches_do_not_matter(rows: list[Row], cuts: set[int], others: set[int], codec: int) -> None:
    assert checksum(rows, cuts, 0) == checksum(rows, others, codec)
    assert checksum(rows, cuts, 0).records == len(rows)


PLAIN: Row = (5, b"k", b"value", [(b"h", b"1")])


@pytest.mark.parametrize(
    "other",
    [
        (6, b"k", b"value", [(b"h", b"1")]),
        (5, b"kv", b"alue", [(b"h", b"1")]),
        (5, None, b"value", [(b"h", b"1")]),
        (5, b"k", b"valuf", [(b"h", b"1")]),
        (5, b"k", None, [(b"h", b"1")]),
        (5, b"k", b"value", []),
        (5, b"k", b"value", [(b"h", b"2")]),
    ],
)
def test_another_record_has_another_checksum(other: Row) -> None:
    plain = RecordChecksum().plus(columns_of([PLAIN, PLAIN]))
    assert RecordChecksum().plus(columns_of([PLAIN, other])) != plain
    assert RecordChecksum().plus(columns_of([other, PLAIN])) != plain


def test_null_and_empty_are_not_the_same() -> None:
    assert RecordChecksum().plus(columns_of([(1, None, b"", [])])) != RecordChecksum().plus(
        columns_of([(1, b"", None, [])])
    )


def test_the_order_matters() -> None:
    one, two = (1, b"a", b"x", []), (1, b"b", b"y", [])
    assert RecordChecksum().plus(columns_of([one, two])) != RecordChecksum().plus(columns_of([two, one]))
