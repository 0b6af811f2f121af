"""What the producer performance test sends, and how fast it may."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatools.core.records.columns import RowColumns
from kafkatools.tools.perf.payloads import (
    CHUNK_BYTES,
    ListedPayloads,
    MonotonicPayloads,
    Payloads,
    RandomPayloads,
    split_payloads,
)
from kafkatools.tools.perf.throughput_throttler import UNLIMITED, ThroughputThrottler


def _values(rows: RowColumns) -> list[bytes]:
    places = zip(rows.value_positions, rows.value_lengths, strict=True)
    return [bytes(rows.buffer[start : start + length]) for start, length in places]


def _take(payloads: Payloads, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        found += _values(payloads.rows(len(found), count - len(found)))
    assert len(found) == count
    return found


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 100, CHUNK_BYTES + 1])
def test_random_values_are_letters_of_the_size_asked_for(size: int) -> None:
    values = _take(RandomPayloads(size), 5)
    assert all(re.fullmatch(rb"[A-Z]{%d}" % size, value) for value in values)
    assert size == 1 or len(set(values)) == 5


def test_rising_numbers_leave_none_out() -> None:
    assert _take(MonotonicPayloads(), 12_345) == [str(number).encode() for number in range(12_345)]


def test_every_payload_of_a_list_is_drawn() -> None:
    values = [b"a", b"", b"ccc"]
    assert set(_take(ListedPayloads(values), 1000)) == set(values)


@pytest.mark.parametrize(
    ("data", "delimiter", "expected"),
    [  # counts recorded from Apache Kafka 4.3.1 ("Number of records read")
        (b"a\nbb\nccc\n", "\n", [b"a", b"bb", b"ccc"]),
        (b"\n\na\n\nb\n\n", "\n", [b"", b"a", b"", b"b", b""]),
        (b"\n\na\n\nb\n\n", "[ab]+", [b"\n\n", b"\n\n", b"\n\n"]),
        (b"a,b\xff", ",", [b"a", b"b\xff"]),
    ],
)
def test_payload_files_are_split_as_a_java_scanner_does(data: bytes, delimiter: str, expected: list[bytes]) -> None:
    assert split_payloads(data, delimiter, re.compile(delimiter)) == expected
    if delimiter in "\n,":
        assert split_payloads(data, delimiter) == expected


def test_no_limit_allows_everything() -> None:
    assert ThroughputThrottler(-1, 0).allowance(10**9, 1) == UNLIMITED


def test_with_zero_nothing_goes_out_behind_the_first_record() -> None:
    throttler = ThroughputThrottler(0, 0)
    assert throttler.allowance(0, 0) == 1
    assert throttler.allowance(1, 10**6) == 0
    assert throttler.pause_ms(1, 10**6) is None


@given(st.floats(0.5, 10**6), st.integers(1, 10_000))
def test_the_average_stays_at_the_rate(rate: float, turns: int) -> None:
    """Kafka's rule: no more than `rate` a second since the start besides the first one, and no less."""
    throttler = ThroughputThrottler(rate, 500)
    sent = 0
    now_ms = 500
    for _ in range(min(turns, 50)):
        allowed = throttler.allowance(sent, now_ms)
        sent += allowed
        assert sent <= rate * (now_ms - 500) / 1000 + 1
        pause_ms = throttler.pause_ms(sent, now_ms)
        assert pause_ms is not None
        assert pause_ms >= 2
        now_ms += pause_ms
        assert throttler.allowance(sent, now_ms) >= 1
