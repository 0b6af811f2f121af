"""`.ci/pytest` keeps the files of tests in memory, where there is room."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

CI = pathlib.Path(__file__).parents[3] / ".ci"
TESTS = "import pathlib, tempfile\ndef test_it():\n    pathlib.Path('place').write_text(tempfile.gettempdir())\n"


def place_of_tests(directory: pathlib.Path, tests: str, **environ: str) -> tuple[pathlib.Path, str]:
    """Where the tests had their files, and what was printed."""
    (directory / "test_it.py").write_text(tests)
    command = [
        sys.executable,
        str(CI / "pytest"),
        "-q",
        "-p",
        "no:kafkatools",
        "--rootdir",
        str(directory),
        "test_it.py",
    ]
    inherited = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    inherited |= {"KT_TEST_AGAIN": "0", **environ}
    ran = subprocess.run(command, cwd=directory, env=inherited, capture_output=True, text=True, check=False)
    return pathlib.Path((directory / "place").read_text()), ran.stdout + ran.stderr


@pytest.fixture
def memory() -> pathlib.Path:
    """The directory in memory; skips without one."""
    found = subprocess.run(["sh", str(CI / "find-memory")], capture_output=True, text=True, check=False).stdout.strip()
    if not found:
        pytest.skip("this machine has no directory in memory with 6 GB of room")
    return pathlib.Path(found)


def test_files_are_in_memory_and_gone_afterwards(memory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    place, _ = place_of_tests(tmp_path, TESTS)
    assert place.parent == memory and not place.exists()


def test_files_of_a_failed_test_are_kept_and_named(memory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    place, printed = place_of_tests(tmp_path, TESTS + "    assert 0\n")
    try:
        assert place.parent == memory and f"The files of the tests are in {place}, in memory." in printed
    finally:
        place.rmdir()


def test_a_given_directory_is_used(tmp_path: pathlib.Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    place, _ = place_of_tests(tmp_path, TESTS, TMPDIR=str(given))
    assert place == given
