"""Inputs that coverage guides, with atheris where it is installed (`pip install atheris`: Linux on x86-64 only)."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

TARGETS = ("records", "messages", "segments", "snapshots", "frames")
TESTS = pathlib.Path(__file__).parent.parent
STARTUP_S = 300

pytestmark = pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")


@pytest.mark.parametrize("target", TARGETS)
def test_no_input_that_coverage_finds_breaks_a_property(
    run: Any, findings: pathlib.Path, tmp_path: pathlib.Path, target: str
) -> None:
    findings.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_total_time={max(1, round(run.seconds))}", f"-artifact_prefix={findings}/guided-{target}-"]
    if run.frames:
        limits.append(f"-runs={run.frames}")
    command = [sys.executable, "-m", "support.fuzz.guided", target, str(tmp_path / "inputs"), *limits, "-timeout=60"]
    path = os.pathsep.join((str(TESTS), str(TESTS.parent)))
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=run.seconds + STARTUP_S,
        check=False,
    )
    ended = re.search(r"Done (\d+) runs in (\d+) second", done.stderr)
    features = re.findall(r"cov: (\d+) ft: \d+ corp: (\d+)", done.stderr) or [("0", "0")]
    if ended:
        run.tell(f"{ended[1]} inputs, {features[-1][0]} branches reached, {features[-1][1]} inputs kept")
    assert done.returncode == 0, done.stderr[-3000:]
    assert ended
