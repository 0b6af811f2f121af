"""A broker with 2,000 partitions starts soon after a kill and after a clean stop, in little memory, with few files."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def step(name: str, directory: pathlib.Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scale", name, str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_two_thousand_partitions(tmp_path: pathlib.Path) -> None:
    made = step("make", tmp_path)
    assert len(list((tmp_path / "data").glob("topic-*"))) == 2000
    unclean = step("start", tmp_path)
    clean = step("start", tmp_path)
    assert unclean["start_processor_s"] < 10
    assert clean["start_processor_s"] < 4
    assert unclean["stop_processor_s"] < 5
    for figures in (made, unclean, clean):
        assert figures["peak_mib"] < 256
        assert figures["open_files"] < 600
