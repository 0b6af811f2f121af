"""Sets of offsets as ranges, against Python's sets."""

from __future__ import annotations

import base64
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatools.tools.redrive.offset_ranges import OffsetRanges

PAIRS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)))


def expected_ranges(offsets: set[int]) -> list[tuple[int, int]]:
    starts = sorted(offset for offset in offsets if offset - 1 not in offsets)
    ends = sorted(offset + 1 for offset in offsets if offset + 1 not in offsets)
    return list(zip(starts, ends, strict=True))


@pytest.mark.slow
@given(PAIRS)
def test_ranges_are_those_of_the_set(pairs: list[tuple[int, int]]) -> None:
    ranges, offsets = OffsetRanges(), set[int]()
    for start, length in pairs:
        ranges.add(start, start + length)
        offsets |= set(range(start, start + length))
    assert list(ranges) == expected_ranges(offsets)
    for offset in range(80):
        assert (offset in ranges) == (offset in offsets)
        assert ranges.first_missing(offset) == next(number for number in range(offset, 200) if number not in offsets)


@pytest.mark.slow
@given(PAIRS, st.integers(0, 80))
def test_offsets_from_an_end_on_are_removed(pairs: list[tuple[int, int]], end: int) -> None:
    ranges = OffsetRanges((start, start + length) for start, length in pairs)
    offsets = {offset for start, length in pairs for offset in range(start, start + length)}
    assert ranges.cut(end) == any(offset >= end for offset in offsets)
    assert list(ranges) == expected_ranges({offset for offset in offsets if offset < end})


@pytest.mark.slow
@given(PAIRS, st.integers(0, 1 << 61))
def test_the_text_of_ranges_is_read_back(pairs: list[tuple[int, int]], base: int) -> None:
    ranges = OffsetRanges((base + 1 + start, base + 1 + start + length) for start, length in pairs)
    assert list(OffsetRanges.decoded(ranges.encoded(base), base)) == list(ranges)


def test_half_of_the_records_at_random_take_a_third_of_a_byte_each() -> None:
    chance = random.Random(5)
    ranges = OffsetRanges((number, number + 1) for number in range(1, 60_000) if chance.random() < 0.5)
    assert len(ranges.encoded(0)) < 20_000


@pytest.mark.parametrize(
    "text",
    [
        "?",
        "AAAA",
        base64.b64encode(zlib.compress(b"\x02")).decode(),
        base64.b64encode(zlib.compress(b"\0\x02")).decode(),
    ],
)
def test_a_foreign_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        OffsetRanges.decoded(text, 0)


def test_a_text_that_was_cut_off_is_refused() -> None:
    text = OffsetRanges((number, number + 1) for number in range(3, 999, 7)).encoded(0)
    with pytest.raises(ValueError, match=r"."):
        OffsetRanges.decoded(text[: len(text) // 8 * 4], 0)
