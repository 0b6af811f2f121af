"""`.ci/pytest` keeps the files of tests in memory, where there is room."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import pytest
from support.waiting import eventually

pytestmark = pytest.mark.processes

CI = pathlib.Path(__file__).parents[3] / ".ci"
TESTS = "import pathlib, tempfile\ndef test_it():\n    pathlib.Path('place').write_text(tempfile.gettempdir())\n"


SLOW = """
import pathlib, tempfile, time, pytest

@pytest.fixture
def slow_to_end():
    yield
    time.sleep(1)
    pathlib.Path("ended").touch()

def test_it(slow_to_end):
    pathlib.Path("place").write_text(tempfile.gettempdir())
    time.sleep(600)
"""


def start(directory: pathlib.Path, tests: str, **environ: str) -> subprocess.Popen[str]:
    """`.ci/pytest` with this file of tests, in a process group of its own."""
    (directory / "test_it.py").write_text(tests)
    options = ["-q", "-p", "no:kafkatools", "--rootdir", str(directory)]
    inherited = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    return subprocess.Popen(
        [sys.executable, str(CI / "pytest"), *options, "test_it.py"],
        cwd=directory,
        env=inherited | {"KT_TEST_AGAIN": "0", **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def place_of_tests(directory: pathlib.Path, tests: str, **environ: str) -> tuple[pathlib.Path, str]:
    """Where the tests had their files, and what was printed."""
    printed, _ = start(directory, tests, **environ).communicate()
    return pathlib.Path((directory / "place").read_text()), printed


def directory_in_memory(**environ: str) -> str:
    """The directory that find-memory prints; empty without one."""
    command = ["sh", str(CI / "find-memory")]
    found = subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, check=False)
    return found.stdout.strip()


@pytest.fixture
def memory() -> pathlib.Path:
    """The directory in memory; skips without one."""
    found = directory_in_memory()
    if not found:
        pytest.skip("this machine has no directory in memory with 6 GB of room")
    return pathlib.Path(found)


@pytest.mark.parametrize("file", ["memory.max", "memory/memory.limit_in_bytes"])
@pytest.mark.parametrize(
    ("limit", "fits"), [("max", True), (str(8 << 30), False), (str(64 << 30), True), (str((1 << 63) - 4096), True)]
)
def test_a_limit_of_the_container_counts(
    memory: pathlib.Path, tmp_path: pathlib.Path, file: str, limit: str, fits: bool
) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{limit}\n")
    assert directory_in_memory(KT_CGROUP=str(tmp_path)) == (str(memory) if fits else "")


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


@pytest.mark.parametrize("reaches_group", [True, False])
def test_fixtures_end_before_an_interrupted_run(
    memory: pathlib.Path, tmp_path: pathlib.Path, reaches_group: bool
) -> None:
    """Ctrl-C reaches pytest too; another process ends `.ci/pytest` alone."""
    run = start(tmp_path, SLOW)
    eventually(lambda: (tmp_path / "place").exists() and (tmp_path / "place").read_text() != "")
    if reaches_group:
        os.killpg(run.pid, signal.SIGINT)
    else:
        run.terminate()
    printed, _ = run.communicate()
    assert (run.returncode, (tmp_path / "ended").exists()) == (2, True), printed
    place = pathlib.Path((tmp_path / "place").read_text())
    assert place.parent == memory and not place.exists()
