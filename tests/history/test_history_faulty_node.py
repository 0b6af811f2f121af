"""A faulty node's wall clock and disk are wrong as the file says, while its timers and its reads stay right."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest
from support.history.nodes import FAULTY_NODE

LOOK = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
from faulty_node import Faults, install
from kafkatools.core.clock import SystemClock
from kafkatools.core.log.files import RealFileSystem

path = sys.argv[3]
faults = Faults(sys.argv[2])
faults.look()
install(faults)
clock, files = SystemClock(), RealFileSystem()

def refused(operation):
    try:
        operation()
    except OSError as error:
        return error.errno
    return None

print(json.dumps({
    "skew_ms": clock.wall_ms() - time.time_ns() // 1_000_000,
    "timer_ms": clock.now_ms() - time.monotonic_ns() // 1_000_000,
    "append": refused(lambda: files.open(path).append(b"x")),
    "write": refused(lambda: files.write_bytes(path + "2", b"x", sync=False)),
    "read": refused(lambda: files.open(path).read_at(0, 1)),
}))
"""


@pytest.mark.parametrize(
    ("faults", "skew_ms", "error"),
    [({}, 0, None), ({"skew_ms": -3_600_000}, -3_600_000, None), ({"is_full": True}, 0, 28)],
    ids=["sound", "wrong clock", "full disk"],
)
def test_faults_of_a_node(
    tmp_path: pathlib.Path, faults: dict[str, int | bool], skew_ms: int, error: int | None
) -> None:
    (tmp_path / "faults.json").write_text(json.dumps(faults))
    (tmp_path / "log").write_bytes(b"a")
    command = [
        sys.executable,
        "-c",
        LOOK,
        str(FAULTY_NODE.parent),
        str(tmp_path / "faults.json"),
        str(tmp_path / "log"),
    ]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert abs(found["skew_ms"] - skew_ms) < 10_000
    assert abs(found["timer_ms"]) < 10_000
    assert (found["append"], found["write"], found["read"]) == (error, error, None)
