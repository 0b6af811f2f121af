"""Figures of the producer performance test: the words are those of kafka-producer-perf-test.sh (Apache Kafka 4.3.1)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatools.tools.perf.latency_stats import LatencyStats


def test_runs_count_as_often_as_they_have_records() -> None:
    stats = LatencyStats(1000, 5000)
    stats.record(98, 9800, 3, 1010)
    stats.record(1, 100, 40, 1020)
    stats.record(1, 100, 286, 1446)
    line = stats.total(1446).total_line()
    assert line == (
        "100 records sent, 224.215247 records/sec (0.02 MB/sec), 6.20 ms avg latency, 286.00 ms max latency, "
        "3 ms 50th, 3 ms 95th, 286 ms 99th, 286 ms 99.9th."
    )


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 30)), min_size=1, max_size=20))
def test_percentiles_are_those_of_the_single_latencies(runs: list[tuple[int, int]]) -> None:
    stats = LatencyStats(0, 5000)
    single: list[int] = []
    for count, latency in runs:
        stats.record(count, count, latency, 1)
        single += [latency] * count
    single.sort()
    expected = tuple(single[int(part * len(single))] for part in (0.5, 0.95, 0.99, 0.999))  # ProducerPerformance.Stats
    assert stats.total(10).percentiles == expected


def test_nothing_acknowledged_has_no_average() -> None:
    assert LatencyStats(0, 5000).total(1000).total_line() == (
        "0 records sent, 0.000000 records/sec (0.00 MB/sec), NaN ms avg latency, 0.00 ms max latency, "
        "0 ms 50th, 0 ms 95th, 0 ms 99th, 0 ms 99.9th."
    )


def test_a_window_ends_with_the_run_that_comes_after_the_interval() -> None:
    stats = LatencyStats(0, 1000)
    stats.record(200, 20000, 5, 999)
    assert not stats.windows
    stats.record(1, 100, 16, 1004)
    [window] = stats.windows
    assert window.window_line() == (
        "201 records sent, 200.2 records/sec (0.02 MB/sec), 5.1 ms avg latency, 16.0 ms max latency."
    )
    stats.record(1, 100, 2, 1005)
    assert len(stats.windows) == 1
    assert stats.records == 202


def test_the_steady_state_is_told_apart() -> None:
    stats = LatencyStats(0, 5000, is_steady_state=True)
    stats.record(900, 9000, 17, 32)
    assert re.match(r"900 steady state records sent, 28125\.000000 records/sec \(0\.27 ", stats.total(32).total_line())


def test_a_silent_count_reports_no_windows() -> None:
    stats = LatencyStats(0, 10)
    stats.is_silent = True
    stats.record(1, 1, 1, 50)
    assert not stats.windows
