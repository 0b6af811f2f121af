"""kt dump-log --offset, --since, --until and --last: lines of the whole dump, and only those of the slice."""

from __future__ import annotations

import json
import pathlib
import random
import re
import shutil

import pytest
from support.kt import Ran, run_kt
from support.recorded_logs import unpack_log

from kafkatools.core.records.batch import read_batches
from kafkatools.exit_status import ExitStatus

NAMES = ("multi-segment", "compacted", "txn-java", "message-set-v0-gzip", "message-set-v1-segments", "codec-lz4-java")
_NUMBERS = re.compile(r"(?:offset|baseOffset): (\d+)(?: lastOffset: (\d+))?")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    target = tmp_path_factory.mktemp("slices")
    return {name: unpack_log(name, target) for name in NAMES}


def dump(log: pathlib.Path, *options: str) -> Ran:
    return run_kt("dump-log", "--files", ",".join(map(str, sorted(log.glob("*.log")))), *options)


def records(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| offset: ")]


def batches(text: str) -> list[tuple[int, int, str]]:
    """First and last offset and line of each batch."""
    found: list[tuple[int, int, str]] = []
    for line in text.splitlines():
        if line.startswith(("baseOffset: ", "offset: ")):
            first, last = _NUMBERS.match(line).groups()  # type: ignore[union-attr]
            is_wrapper = last is None and "compresscodec: none" not in line
            start = (found[-1][1] + 1 if found else 0) if is_wrapper else int(first)
            found.append((start, int(last or first), line))
    return found


def offset_of(line: str) -> int:
    return int(_NUMBERS.search(line)[1])  # type: ignore[index]


@pytest.mark.parametrize("name", NAMES)
def test_a_range_of_offsets_has_the_lines_of_the_whole_dump(logs: dict[str, pathlib.Path], name: str) -> None:
    ran = dump(logs[name], "--print-data-log")
    whole, all_gaps = ran.out, ran.err.splitlines()
    every, every_batch = records(whole), batches(whole)
    last = offset_of(every[-1])
    places = random.Random(5)
    for start, end in [(0, 1), (last, last + 1), *(sorted(places.sample(range(last + 2), 2)) for _ in range(6))]:
        ran = dump(logs[name], "--print-data-log", "--offset", f"{start}:{end}")
        assert ran.status == ExitStatus.OK
        assert {line for line in ran.err.splitlines() if "followed by" in line} <= set(all_gaps)
        assert records(ran.out) == [line for line in every if start <= offset_of(line) < end]
        headers = dump(logs[name], "--offset", f"{start}:{end}").out
        within = [line for first, stop, line in every_batch if first >= start and stop < end]
        lines = [line for _, _, line in batches(headers)]
        assert [line for line in lines if line in within] == within
        assert len(lines) <= len(within) + 2


def test_the_last_records_are_counted_without_markers(logs: dict[str, pathlib.Path]) -> None:
    every = [line for line in records(dump(logs["txn-java"], "--print-data-log").out) if "endTxnMarker" not in line]
    for count in (1, 7, 30, 1000):
        ran = dump(logs["txn-java"], "--print-data-log", "--last", str(count))
        assert [line for line in records(ran.out) if "endTxnMarker" not in line] == every[-count:]


def test_times_select_records_and_json_has_the_same(logs: dict[str, pathlib.Path]) -> None:
    rows = [json.loads(line) for line in dump(logs["multi-segment"], "--print-data-log", "--json").out.splitlines()]
    every = [row for row in rows if row["type"] == "record"]
    times = sorted(row["timestamp"] for row in every)
    since, until = times[100], times[200]
    options = ["--since", str(since), "--until", str(until), "--deep-iteration"]
    segments = [path.read_bytes() for path in sorted(logs["multi-segment"].glob("*.log"))]
    all_batches = [batch for data in segments for batch in read_batches(data)]
    # the slice ends with the last batch that begins before its end
    end = max(batch.last_offset for batch in all_batches if min(batch.base_timestamp, batch.max_timestamp) < until)
    expected = [row["offset"] for row in every if since <= row["timestamp"] < until and row["offset"] <= end]
    text = dump(logs["multi-segment"], *options)
    assert [offset_of(line) for line in records(text.out)] == expected
    lines = dump(logs["multi-segment"], *options, "--json").out.splitlines()
    found = [json.loads(line) for line in lines]
    assert [row["offset"] for row in found if row["type"] == "record"] == expected


def test_an_offset_is_one_record_and_files_without_it_are_left_out(logs: dict[str, pathlib.Path]) -> None:
    ran = dump(logs["multi-segment"], "--deep-iteration", "--offset", "700")
    assert [offset_of(line) for line in records(ran.out)] == [700]
    assert ran.out.count("Dumping ") == 1


def test_damage_in_the_slice_is_reported_and_damage_before_it_is_not(
    logs: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    directory = tmp_path / "ledger-0"
    shutil.copytree(logs["multi-segment"], directory)
    path = sorted(directory.glob("*.log"))[1]
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    base = int(path.stem)
    inside = run_kt("dump-log", "--files", str(directory), "--offset", f"{base}:{base + 60}")
    assert inside.status == ExitStatus.FINDINGS
    assert f"{path} at byte 0" in inside.err
    behind = run_kt("dump-log", "--files", str(directory), "--offset", f"{base + 60}:{base + 80}")
    assert (behind.status, behind.err) == (ExitStatus.OK, "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--offset", "x"], "'x' is not a range of offsets or times"),
        (["--last", "0"], "--last 0 must be at least 1"),
        (["--last", "2", "--max-bytes", "5"], "cannot be used with --max-bytes"),
        (["--offset", "1:", "--last", "2"], "Options offset and last cannot be specified together."),
    ],
)
def test_wrong_slices_are_refused(logs: dict[str, pathlib.Path], options: list[str], message: str) -> None:
    ran = dump(logs["compacted"], *options)
    assert (ran.status, ran.out) == (ExitStatus.USAGE, "")
    assert message in ran.err


def test_only_segments_have_slices(logs: dict[str, pathlib.Path]) -> None:
    index = next(logs["compacted"].glob("*.index"))
    assert "is not a log segment" in run_kt("dump-log", "--files", str(index), "--last", "1").err
    missing = run_kt("dump-log", "--files", "/absent/00000000000000000000.log", "--last", "1")
    assert (missing.status, missing.out) == (ExitStatus.FAILED, "")
    assert "no such file" in missing.err


def test_a_slice_of_a_missing_file_says_that_it_is_missing(tmp_path: pathlib.Path) -> None:
    for name in ("nothing", "00000000000000000000.log"):
        ran = run_kt("dump-log", "--files", str(tmp_path / name), "--last", "1")
        assert (ran.status, ran.err.splitlines()[0]) == (1, f"{tmp_path / name}: no such file")
