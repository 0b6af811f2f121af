"""The README's Python lines run as they stand there, on a machine where no broker runs."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

from support.waiting import PATIENCE_S

README = pathlib.Path(__file__).parents[2] / "README.md"


def test_each_python_example_runs_without_a_broker_of_the_reader(tmp_path: pathlib.Path) -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.M | re.S)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    printed = []
    for code in examples:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        printed.append(done.stdout)
    assert printed == ["0\n"]
