"""A Python worker that differs from the driver fails before the rest of its task is unpickled."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from kafkatools.pipeline import python_check
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.python_check import PythonCheck


class Reader:
    """As the readers: the check is the first attribute."""

    def __init__(self) -> None:
        self.check = PythonCheck()
        self.rest = Rest()


class Rest:
    """What cannot be unpickled by another version."""

    def __reduce__(self) -> tuple[object, ...]:
        return int, ("not a number",)


def test_the_same_python_passes() -> None:
    assert isinstance(pickle.loads(pickle.dumps(PythonCheck())), PythonCheck)


def test_another_version_of_the_package_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = pickle.dumps(Reader())
    with pytest.raises(ValueError, match="not a number"):
        pickle.loads(pickled)
    monkeypatch.setattr(python_check, "__version__", "0.0.1")
    python_check._checked.cache_clear()
    try:
        with pytest.raises(PipelineError, match=r"has kafkatools 0.0.1, and the driver's \(Python 3[\d.]+\) has "):
            pickle.loads(pickled)
    finally:
        python_check._checked.cache_clear()


def test_a_codec_that_the_executor_lacks_is_told() -> None:
    """In a process without any installed package."""
    pickled = pickle.dumps(PythonCheck())
    program = (
        f"import pickle, sys; sys.path.insert(0, {str(python_check.__file__).rpartition('/kafkatools/')[0]!r});"
        f"pickle.loads({pickled!r})"
    )
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=False)
    assert "PipelineError: The Python of the executor on " in done.stderr
    assert "lacks crc32c, lz4, zstandard, python-snappy" in done.stderr and "pip install crc32c" in done.stderr
