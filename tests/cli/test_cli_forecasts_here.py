"""kt retention-forecast and kt compact-forecast against the log's own retention and cleaner, over its directory."""

from __future__ import annotations

import json
import pathlib
import random
import shutil
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from support import recorded_segments
from support.compacted_logs import CONFIG, append, clean, data_offsets, put, put_in_transaction, write_rounds
from support.kt import run_kt
from support.log_batches import NOW_MS, make_batch, make_marker
from support.manual_clock import ManualClock

from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog

pytest.importorskip("duckdb")
HOUR_MS = 3_600_000


def forecast(command: str, *words: str, now_ms: int = NOW_MS) -> list[dict[str, Any]]:
    ran = run_kt(command, *words, "--json", clock=ManualClock(wall_ms=now_ms))
    assert ran.status == 0, ran
    return [json.loads(line) for line in ran.out.splitlines()]


def write_by_chance(directory: pathlib.Path, chance: random.Random) -> int:
    """Segments of records up to 20 hours old, not in order, some without a batch at the end; returns the log end."""
    log = PartitionLog.open(str(directory), LogConfig.from_values({"segment.bytes": 1 << 20}), now_ms=NOW_MS)
    for _ in range(chance.randint(2, 7)):
        for _ in range(chance.randint(1, 3)):
            times = [NOW_MS - chance.randint(0, 20) * HOUR_MS]
            batch = make_batch([b"x" * chance.randint(1, 400)], keys=[b"k"], timestamps=times)
            log.append_as_leader(memoryview(batch), leader_epoch=0, now_ms=NOW_MS)
        if chance.random() < 0.8:
            log.roll(NOW_MS)
    end = log.log_end_offset
    log.close()
    return end


def retained(
    source: pathlib.Path, directory: pathlib.Path, config: dict[str, Any], now_ms: int, start: int
) -> set[int]:
    """The segments that a log keeps, opened over a copy of a directory, when retention runs at this time."""
    shutil.copytree(source, directory)
    for file in source.glob("*.log"):
        shutil.copystat(file, directory / file.name)
    values = {"segment.bytes": 1 << 20, "message.timestamp.after.max.ms": (1 << 63) - 1} | config
    log = PartitionLog.open(str(directory), LogConfig.from_values(values), RealFileSystem(), now_ms)
    log.update_high_watermark(log.log_end_offset)
    log.increment_log_start_offset(start)
    log.delete_retention_segments(now_ms)
    kept = {segment.base_offset for segment in log.segments}
    log.close()
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_retention_keeps_what_is_forecast(seed: int, tmp_path: pathlib.Path) -> None:
    chance = random.Random(seed)
    source = tmp_path / "data" / "t-0"
    source.parent.mkdir()
    if seed == 0:
        shutil.copytree(recorded_segments.log_directory("multi-segment"), source)
        start, end = 0, None
    else:
        end = write_by_chance(source, chance)
        start = chance.choice((0, chance.randint(0, end)))
    (source.parent / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
    retention_ms, retention_bytes = chance.choice((-1, 3 * HOUR_MS, 12 * HOUR_MS)), chance.choice((-1, 300, 900))
    words = ("--retention-ms", str(retention_ms), "--retention-bytes", str(retention_bytes))
    config = {"retention.ms": retention_ms, "retention.bytes": retention_bytes}
    first = forecast("retention-forecast", str(source), *words)
    instants = sorted({NOW_MS, *(row["due"] for row in first if row["due"] is not None)})
    for number, now_ms in enumerate([*instants, *(instant - 1 for instant in instants[1:])]):
        rows = forecast("retention-forecast", f"log:{source.parent}", *words, now_ms=now_ms)
        kept = retained(source, tmp_path / f"copy-{number}" / "t-0", config, now_ms, start)
        told = {row["base_offset"] for row in rows if not row["is_due"]}
        empty_end = {end} if end is not None else {max(kept)}  # a new active segment, or one that is empty
        assert kept - empty_end == told - empty_end, (rows, kept, now_ms)


def by_segment(offsets: set[int], bases: list[int]) -> dict[int, int]:
    return Counter(max(base for base in bases if base <= offset) for offset in offsets)


def _committed(log: PartitionLog) -> None:
    put(log, (b"k0", b"in the active segment"))


def _open(log: PartitionLog) -> None:
    """Keeps the segments from its own on from being cleaned."""
    put(log, (b"k5", b"before"))
    put_in_transaction(log, 300, (b"k1", b"open"))
    log.roll(NOW_MS)
    put(log, *((b"k%d" % number, b"behind it") for number in range(20)))
    log.roll(NOW_MS)
    put(log, (b"k9", b"in the active segment"))


def _aborted_later(log: PartitionLog) -> None:
    """A transaction whose marker is in a later segment."""
    put_in_transaction(log, 300, (b"k1", b"aborted"), (b"k2", None))
    log.roll(NOW_MS)
    append(log, make_marker(300, 0, commit=False))
    log.roll(NOW_MS)
    put(log, (b"k0", b"in the active segment"))


def _deleted_records(log: PartitionLog) -> None:
    """The log start offset is within a segment behind the clean ones."""
    log.increment_log_start_offset(log.segments.first.base_offset + 137)
    put(log, (b"k0", b"in the active segment"))


@pytest.mark.slow
@pytest.mark.parametrize("ending", [_committed, _open, _aborted_later, _deleted_records])
def test_the_cleaner_removes_what_is_forecast(ending: Callable[[PartitionLog], None], tmp_path: pathlib.Path) -> None:
    directory = tmp_path / "profiles-0"
    log = PartitionLog.open(str(directory), CONFIG, RealFileSystem(), NOW_MS)
    write_rounds(log, 0)
    clean(log)
    first_dirty = log.first_dirty_offset
    write_rounds(log, 3)
    ending(log)
    start = log.log_start_offset
    log.close()
    (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n1\nprofiles 0 {first_dirty}\n")
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\nprofiles 0 {start}\n")
    rows = forecast("compact-forecast", str(tmp_path), "--min-cleanable-dirty-ratio", "0.01")
    log = PartitionLog.open(str(directory), CONFIG, RealFileSystem(), NOW_MS)
    log.first_dirty_offset = first_dirty
    log.update_high_watermark(log.log_end_offset)
    log.increment_log_start_offset(start)
    bases = [segment.base_offset for segment in log.segments]
    before, end = data_offsets(log), min(log.last_stable_offset, bases[-1])
    uncleanable = max(base for base in bases if base <= end)
    clean(log)
    removed = by_segment(before - data_offsets(log), bases)
    log.close()
    assert {row["base_offset"]: row["records"] for row in rows} == by_segment(
        {offset for offset in before if offset < uncleanable}, bases
    )
    told = {row["base_offset"]: row["superseded"] + row["aborted"] + row["without_key"] for row in rows}
    assert {base: number for base, number in told.items() if number} == removed
    assert sum(row["superseded"] for row in rows) > 20 and all(row["is_due"] for row in rows)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("retention-forecast", "topic:orders"), "topic:orders: this command reads log files; use log:PATH"),
        (("retention-forecast", "gone"), "gone does not exist"),
        (("retention-forecast", "gone", "--retention-ms", "-2"), "--retention-ms -2 must be at least -1"),
        (("retention-forecast", "gone", "--retention-bytes", "-2"), "--retention-bytes -2 must be at least -1"),
        (("compact-forecast", "gone", "--max-compaction-lag-ms", "0"), "--max-compaction-lag-ms 0 must be at least 1"),
        (
            ("compact-forecast", "gone", "--min-compaction-lag-ms", "-1"),
            "--min-compaction-lag-ms -1 must be at least 0",
        ),
        (
            ("compact-forecast", "gone", "--min-cleanable-dirty-ratio", "nan"),
            "--min-cleanable-dirty-ratio takes a number from 0 to 1, not nan",
        ),
        (("compact-forecast", "gone", "--master", "local[1]"), "--master needs --engine spark"),
    ],
)
def test_wrong_input_is_refused(words: tuple[str, ...], message: str, tmp_path: pathlib.Path) -> None:
    ran = run_kt(*words, cwd=tmp_path)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err.splitlines()[0]


def test_damage_is_reported(tmp_path: pathlib.Path) -> None:
    shutil.copytree(recorded_segments.log_directory("damaged-zero-middle"), tmp_path / "t-0")
    for command in ("retention-forecast", "compact-forecast"):
        ran = run_kt(command, str(tmp_path))
        assert ran.status == 3 and "1 damaged range skipped, the first: " in ran.err, ran
