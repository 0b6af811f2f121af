"""A faulty node's wall clock and disk are wrong as its faults say, while its timers and its reads stay right."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable

import pytest
from support.history.nodes import faults_of

from kafkatools.sandbox.faults.disk_and_clock import FaultyClock
from kafkatools.sandbox.faults.machine import Machine


def _refused(operation: Callable[[], object]) -> int | None:
    try:
        operation()
    except OSError as error:
        return error.errno
    return None


@pytest.mark.parametrize(
    ("faults", "skew_ms", "error"),
    [({}, 0, None), ({"skew_ms": -3_600_000}, -3_600_000, None), ({"is_full": True}, 0, 28)],
    ids=["sound", "wrong clock", "full disk"],
)
def test_faults_of_a_node(
    tmp_path: pathlib.Path, faults: dict[str, int | bool], skew_ms: int, error: int | None
) -> None:
    faults_of(str(tmp_path), None, **faults)
    path = tmp_path / "log"
    path.write_bytes(b"a")
    machine = Machine(str(tmp_path), FaultyClock(), 100)
    clock, files = machine.clock, machine.files
    assert abs(clock.wall_ms() - time.time_ns() // 1_000_000 - skew_ms) < 10_000
    assert abs(clock.now_ms() - time.monotonic_ns() // 1_000_000) < 10_000
    assert _refused(lambda: files.open(str(path)).append(b"x")) == error
    assert _refused(lambda: files.write_bytes(f"{path}2", b"x", sync=False)) == error
    assert _refused(lambda: files.open(str(path)).read_at(0, 1)) is None
    files.close()
