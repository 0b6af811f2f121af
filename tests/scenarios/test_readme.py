"""The README's Python lines run as they stand there."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

README = pathlib.Path(__file__).parents[2] / "README.md"
SANDBOX = "localhost:29092"


def test_the_python_example_sends_a_record(broker: Any) -> None:
    code = README.read_text().partition("```python\n")[2].partition("```")[0]
    assert SANDBOX in code
    program = code.replace(SANDBOX, broker.bootstrap)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    arguments = ("--topic", "first", "--from-beginning", "--exit-at-end", "--bootstrap-server", broker.bootstrap)
    assert broker.kt("console-consumer", *arguments).stdout == b"hello\n"
