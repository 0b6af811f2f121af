"""What a query has read, from plans and reports, and the words for it."""

from __future__ import annotations

import pathlib
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.manual_clock import ManualClock
from support.requirements import require
from support.waiting import eventually

try:
    import numpy  # noqa: F401 - reports need it
except ImportError:
    require("numpy is not installed: pip install '.[spark]'")

from kafkatools.commands.pipeline.spark_progress import detail_text
from kafkatools.pipeline.run.read_progress import BYTES, OFFSETS, ReadProgress, ReadState, write_plan
from kafkatools.pipeline.run.reports import SplitReport, write_report


def report(place: pathlib.Path, start: int, end: int) -> None:
    write_report(str(place), SplitReport("orders", 0, "file", start, end))


@pytest.fixture
def progress(tmp_path: pathlib.Path, clock: ManualClock) -> ReadProgress:
    return ReadProgress(str(tmp_path), clock.now_ms)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_ended_splits_count(tmp_path: pathlib.Path, clock: ManualClock, progress: ReadProgress) -> None:
    assert progress.state() is None
    clock.advance_ms(1000)
    write_plan(str(tmp_path / "run" / "input"), [(0, 1000), (1000, 5000)], BYTES)
    assert progress.state() == ReadState(0, 5000, BYTES, 0)
    clock.advance_ms(2000)
    report(tmp_path / "run" / "input", 0, 1000)
    state = progress.state()
    assert state == ReadState(1000, 5000, BYTES, 2)
    assert (state.rate, state.remaining_s) == (500, 8)
    clock.advance_ms(1000)
    report(tmp_path / "run" / "input", 1000, 5000)
    report(tmp_path / "run" / "input", 1000, 5000)
    state = progress.state()
    assert state is not None and (state.done, state.total, state.remaining_s) == (5000, 5000, 0)


def test_plans_of_several_sources_add_up_and_one_made_again_counts_once(
    tmp_path: pathlib.Path, progress: ReadProgress
) -> None:
    for source in ("orders", "users", "orders"):
        write_plan(str(tmp_path / source), [(10, 30)], OFFSETS)
    assert progress.state() == ReadState(0, 40, OFFSETS, 0)


def test_what_a_deleted_directory_had_is_not_known(
    tmp_path: pathlib.Path, clock: ManualClock, progress: ReadProgress
) -> None:
    write_plan(str(tmp_path / "run"), [(0, 1000)], BYTES)
    report(tmp_path / "run", 0, 1000)
    assert progress.state() == ReadState(1000, 1000, BYTES, 0)
    shutil.rmtree(tmp_path / "run")
    clock.advance_ms(1000)
    assert progress.state() is None
    write_plan(str(tmp_path / "next"), [(0, 70)], BYTES)
    clock.advance_ms(1000)
    assert progress.state() == ReadState(0, 70, BYTES, 0)


def test_bytes_and_offsets_have_no_sum(tmp_path: pathlib.Path, progress: ReadProgress) -> None:
    write_plan(str(tmp_path / "orders"), [(0, 30)], OFFSETS)
    write_plan(str(tmp_path / "log"), [(0, 30)], BYTES)
    assert progress.state() is None


def test_a_store_that_hangs_is_not_waited_for(clock: ManualClock) -> None:
    """The caller draws, and holds the lock of the terminal."""
    fsspec = pytest.importorskip("fsspec")
    goes_on = threading.Event()

    class Hanging(fsspec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "hanging"

        def find(self, path: str, *_: object, **__: object) -> list[str]:
            assert goes_on.wait(600)
            return [f"{path}/x.plan"]

        def cat_file(self, path: str, *_: object, **__: object) -> bytes:
            return b'{"total": 70, "unit": "bytes"}'

    fsspec.register_implementation("hanging", Hanging, clobber=True)
    progress = ReadProgress("hanging://reports", clock.now_ms)
    with ThreadPoolExecutor(1) as pool:
        try:
            assert pool.submit(progress.state).result(60) is None
        finally:
            goes_on.set()
    eventually(lambda: progress.state() is not None)
    assert progress.state() == ReadState(0, 70, BYTES, 0)


def test_progress_is_unknown_if_a_plan_cannot_be_read(tmp_path: pathlib.Path, progress: ReadProgress) -> None:
    (tmp_path / "x.plan").write_text("{")
    assert progress.state() is None


@pytest.mark.parametrize(
    ("state", "finished", "tasks", "text"),
    [
        (None, 0, 0, ""),
        (None, 0, 8, "0 of 8 tasks, time left unknown"),
        (None, 3, 8, "3 of 8 tasks, about 10 s left"),
        (None, 8, 8, "8 of 8 tasks"),
        (ReadState(0, 4_000_000_000, BYTES, 1), 0, 8, "0 B of 4 GB read, time left unknown"),
        (ReadState(0, 4_000_000_000, BYTES, 1), 2, 8, "2 of 8 tasks, about 18 s left"),
        (
            ReadState(1_000_000_000, 4_000_000_000, BYTES, 5),
            2,
            8,
            "1 GB of 4 GB read, about 200 MB/s, about 15 s left",
        ),
        (
            ReadState(1000, 721_000, OFFSETS, 10),
            0,
            0,
            "1,000 of 721,000 offsets read, about 100 offsets/s, about 2 h 0 min left",
        ),
        (
            ReadState(1000, 61_000, OFFSETS, 10),
            0,
            0,
            "1,000 of 61,000 offsets read, about 100 offsets/s, about 10 min left",
        ),
        (ReadState(4_000_000_000, 4_000_000_000, BYTES, 1), 8, 10, "4 GB read, 8 of 10 tasks"),
    ],
)
def test_text_of_a_progress_line(state: ReadState | None, finished: int, tasks: int, text: str) -> None:
    assert detail_text(state, finished, tasks, 6) == text
