"""The start of Spark: announced before it takes its time, and a Ctrl-C during it leaves no process behind."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import uuid

import pytest
from support.recorded_logs import unpack_log
from support.waiting import eventually

pytest.importorskip("pyspark", reason="PySpark is not installed")

KT = str(pathlib.Path(sys.executable).parent / "kt")


def _command(tmp_path: pathlib.Path) -> list[str]:
    return [KT, "pipeline", "count", f"log:{unpack_log('codec-lz4-java', tmp_path)}", "--master", "local[1]"]


def _processes_of(mark: str) -> list[str]:
    """The command lines of the processes that have the mark in their environment."""
    found = []
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"KT_TEST_MARK={mark}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def test_the_start_of_spark_is_announced(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(_command(tmp_path), capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[0] == "Starting Spark (local[1]) ..."
    assert "Starting" not in done.stdout
    quiet = subprocess.run([*_command(tmp_path / "json"), "--json"], capture_output=True, text=True, check=True)
    assert "Starting" not in quiet.stderr


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_the_start_leaves_no_jvm_behind(tmp_path: pathlib.Path, signal_number: int) -> None:
    mark = uuid.uuid4().hex
    environ = {**os.environ, "KT_TEST_MARK": mark}
    with subprocess.Popen(_command(tmp_path), env=environ, stderr=subprocess.PIPE, text=True) as run:
        # the JVM is there, and has not yet reported its port: PySpark waits for that report
        eventually(lambda: any("spark-submit" in line or "SparkSubmit" in line for line in _processes_of(mark)), 60)
        run.send_signal(signal_number)
        _, said = run.communicate(timeout=120)
    assert run.returncode == 130
    assert "Traceback" not in said
    eventually(lambda: not _processes_of(mark), 30)
    assert _processes_of(mark) == []
