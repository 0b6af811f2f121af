"""The forecasts against what the log itself does: its retention and its cleaner's measure, over logs made by chance."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.log_batches import make_batch

from kafkatools.core.log.cleaner.planning import measure
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.pipeline.jobs.compaction_rules import Compaction, cleanable_range
from kafkatools.pipeline.jobs.retention_rules import (
    KEPT,
    SIZE,
    START_OFFSET,
    TIME,
    Retention,
    SegmentSize,
    forecast_retention,
)

NOW_MS = 1_795_230_000_000
HOUR_MS = 3_600_000


def log_of(directory: Path, chance: random.Random, config: dict[str, Any]) -> PartitionLog:
    """A log of some segments whose records are up to 20 hours old, not in order; sometimes an empty active one."""
    directory.mkdir()
    values = {"segment.bytes": 1 << 20, "message.timestamp.before.max.ms": (1 << 63) - 1} | config
    values["message.timestamp.after.max.ms"] = (1 << 63) - 1
    log = PartitionLog.open(str(directory), LogConfig.from_values(values), now_ms=NOW_MS)
    for _ in range(chance.randint(1, 7)):
        for _ in range(chance.randint(1, 3)):
            age = chance.randint(-2, 20) * HOUR_MS
            batch = make_batch([b"x" * chance.randint(1, 400)], keys=[b"k"], timestamps=[NOW_MS - age])
            log.append_as_leader(memoryview(batch), leader_epoch=0, now_ms=NOW_MS)
        if chance.random() < 0.8:
            log.roll(NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return log


def sizes_of(log: PartitionLog) -> list[SegmentSize]:
    return [
        SegmentSize(each.base_offset, each.size_bytes, each.largest_timestamp, -1, each.first_batch_timestamp)
        for each in log.segments
    ]


@pytest.fixture
def chances() -> Iterator[random.Random]:
    """The same logs in every run."""
    return (random.Random(seed) for seed in range(40))


def test_retention_goes_as_forecast(tmp_path: Path, chances: Iterator[random.Random]) -> None:
    reasons = set()
    for number, chance in enumerate(chances):
        retention = Retention(
            chance.choice((-1, 3 * HOUR_MS, 12 * HOUR_MS)),
            chance.choice((-1, 300, 900)),
            is_deleted=chance.random() < 0.8,
        )
        config = {"retention.ms": retention.retention_ms, "retention.bytes": retention.retention_bytes}
        config["cleanup.policy"] = "delete" if retention.is_deleted else "compact"
        log = log_of(tmp_path / f"t-{number}", chance, config)
        start = chance.randint(0, log.log_end_offset)
        log.increment_log_start_offset(start)
        forecast = forecast_retention(sizes_of(log), retention, NOW_MS, log_start_offset=start)
        reasons |= {each.reason for each in forecast}
        instants = sorted({NOW_MS, *(each.due_ms for each in forecast if each.due_ms is not None)})
        for instant in instants:
            if instant > NOW_MS:
                log.delete_retention_segments(instant - 1)
                gone = {each.segment.base_offset for each in forecast if each.due_ms and each.due_ms < instant}
                assert not gone & {each.base_offset for each in log.segments if each.size_bytes}
                later = [each for each in forecast if each.due_ms is None or each.due_ms >= instant]
                there = {each.base_offset for each in log.segments}
                assert {each.segment.base_offset for each in later} <= there
            log.delete_retention_segments(instant)
            gone = {each.segment.base_offset for each in forecast if each.due_ms and each.due_ms <= instant}
            assert not gone & {each.base_offset for each in log.segments if each.size_bytes}
        kept = {each.segment.base_offset for each in forecast if each.due_ms is None}
        assert kept <= {each.base_offset for each in log.segments}
        log.close()
    assert reasons == {KEPT, SIZE, START_OFFSET, TIME}


def test_bytes_until_retention_by_size() -> None:
    segments = [SegmentSize(0, 100, 5), SegmentSize(10, 50, 6), SegmentSize(20, 30, 7)]
    forecast = forecast_retention(segments, Retention(-1, 120), 1000)
    assert [(each.reason, each.bytes_until_size) for each in forecast] == [(KEPT, 40), (KEPT, 90), (KEPT, None)]
    grown = [*segments[:2], SegmentSize(20, 70, 7)]
    assert forecast_retention(grown, Retention(-1, 120), 1000)[0].reason == SIZE
    assert forecast_retention([*segments[:2], SegmentSize(20, 69, 7)], Retention(-1, 120), 1000)[0].reason == KEPT


def test_a_segment_from_the_future_keeps_those_behind_it() -> None:
    segments = [SegmentSize(0, 10, 5000), SegmentSize(10, 10, 100), SegmentSize(20, 10, -1, 200)]
    forecast = forecast_retention(segments, Retention(1000), 3000)
    assert [(each.due_ms, each.waits_for) for each in forecast] == [(6001, None), (6001, 0), (6001, 0)]
    assert forecast_retention(segments[2:], Retention(1000), 0)[0].due_ms == 1201


def test_cleanable_range_is_the_cleaners(tmp_path: Path, chances: Iterator[random.Random]) -> None:
    seen = set()
    for number, chance in enumerate(chances):
        settings = Compaction(
            min_compaction_lag_ms=chance.choice((0, 4 * HOUR_MS)),
            max_compaction_lag_ms=chance.choice(((1 << 63) - 1, 10 * HOUR_MS)),
        )
        config = {"cleanup.policy": "compact", "min.compaction.lag.ms": settings.min_compaction_lag_ms}
        config["max.compaction.lag.ms"] = settings.max_compaction_lag_ms
        log = log_of(tmp_path / f"c-{number}", chance, config)
        log.first_dirty_offset = chance.choice((None, chance.randint(0, log.log_end_offset)))
        expected = measure(log, NOW_MS)
        found = cleanable_range(sizes_of(log), settings, NOW_MS, first_dirty_offset=log.first_dirty_offset)
        assert found.first_dirty_offset == expected.first_dirty_offset
        assert found.first_uncleanable_offset == expected.first_uncleanable_offset
        assert (found.clean_bytes, found.cleanable_bytes) == (expected.clean_bytes, expected.cleanable_bytes)
        assert found.is_overdue == expected.needs_compaction_now
        seen.add((found.is_overdue, found.is_due))
        log.close()
    assert len(seen) >= 3
