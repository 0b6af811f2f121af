"""Batches that a search rules out by their bytes: what is found and counted is the same as with all batches decoded."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.core.consumer.completed_fetch import CompletedFetch, FetchedColumns, FetchOptions
from kafkatools.core.consumer.fetch_messages import ZERO_UUID, FetchedPartition
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.compression import CompressionType
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.tools.search.grep import PARTS, Grep
from kafkatools.tools.search.key_filter import KeyFilter
from kafkatools.tools.search.search import Filter, Search

PART = TopicPartition("orders", 0)
WORDS = st.sampled_from([b"ab", b"needle", b"Needle", b"xy", b"nee", b"dle", b""])
BATCHES = st.lists(st.tuples(st.booleans(), st.lists(WORDS, min_size=1, max_size=4)), min_size=1, max_size=8)
FILTERS = st.sampled_from(["needle", "NEEDLE", "needle|xy", "n.*le", "key", "none"])


def log_of(batches: Sequence[tuple[bool, Sequence[bytes]]]) -> tuple[bytes, int]:
    data, offset = bytearray(), 0
    for is_compressed, values in batches:
        codec = CompressionType.GZIP if is_compressed else CompressionType.NONE
        builder = BatchBuilder(1 << 20, codec, base_offset=offset)
        for value in values:
            builder.append(1000 + offset, b"k" + value, value, ((("h", value),)))
            offset += 1
        data += builder.close()
    return bytes(data), offset


def filter_of(name: str) -> Filter:
    if name == "key":
        return KeyFilter(b"kneedle")
    pattern = "no such text" if name == "none" else name
    return Grep(pattern.lower().encode(), sum(PARTS.values()), ignores_case=name.isupper())


def read(data: bytes, start: int, end: int, search: Search, *, passes_over: bool) -> list[int]:
    """The offsets before `end` that the search selects, read from `start` on."""
    fetched = FetchedPartition(PART.topic, ZERO_UUID, PART.partition)
    fetched.records = memoryview(data)
    fetched.high_watermark = end
    fetch = CompletedFetch(PART, fetched, start, FetchOptions(pass_over=search.pass_over if passes_over else None))
    found: list[int] = []
    while not fetch.is_consumed:
        for columns in fetch.fetch_columns(1 << 30):
            before_end = columns.slice(0, sum(offset < end for offset in columns.offsets))
            found += search.apply(FetchedColumns(*PART, before_end)).columns.offsets
    return found


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(BATCHES, FILTERS, st.integers(0, 8), st.integers(0, 8))
def test_the_same_records_are_found_and_counted(
    batches: list[tuple[bool, list[bytes]]], name: str, start: int, before_end: int
) -> None:
    data, next_offset = log_of(batches)
    start, end = min(start, next_offset), max(0, next_offset - before_end)
    plain = Search([filter_of(name)])
    expected = read(data, start, end, plain, passes_over=False)
    fast = Search([filter_of(name)])
    fast.pass_over_from_now(lambda part: end)
    assert read(data, start, end, fast, passes_over=True) == expected
    assert (fast.count, fast.searched) == (plain.count, plain.searched)


def test_batches_without_the_text_are_not_decoded() -> None:
    data, _ = log_of([(False, [b"ab"] * 3)] * 4 + [(False, [b"needle"])] + [(False, [b"xy"])] * 2)
    search = Search([filter_of("needle")])
    search.pass_over_from_now(lambda part: 100)
    decoded: list[int] = []
    fetched = FetchedPartition(PART.topic, ZERO_UUID, PART.partition)
    fetched.records = memoryview(data)
    fetch = CompletedFetch(PART, fetched, 0, FetchOptions(pass_over=search.pass_over))
    while not fetch.is_consumed:
        for columns in fetch.fetch_columns(1 << 30):
            decoded += columns.offsets
    assert decoded == [12, 13, 14]
    assert search.searched[PART].record_count == 12
    assert re.search("12 records of 1 partition", search.summary(0, 1)) is not None
