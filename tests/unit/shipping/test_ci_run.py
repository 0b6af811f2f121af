"""`.ci/run` fails when one of its parts fails, and leaves no process behind when it is interrupted."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
from support import spark_classes
from support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.processes

CI = pathlib.Path(__file__).parents[3] / ".ci"
# dash can miss a signal that comes just before it starts a program
MAKE = """#!/usr/bin/env bash
for target; do
    case " $HANDLING " in *" $target "*) trap 'kill $!; exit 2' INT ;; esac
    echo "$target $$" >>made
    case " $FAILING " in *" $target "*) exit 1 ;; esac
    case " $KILLED " in *" $target "*) kill -9 $PPID ;; esac
    case " $ENDLESS " in *" $target "*) sleep 600 ;; esac
    case " $HANDLING " in *" $target "*) sleep 600 & wait ;; esac
done
"""


def start(directory: pathlib.Path, **environ: str) -> subprocess.Popen[bytes]:
    """`.ci/run` in a process group of its own, with a `make` that notes its targets, and this as the only Python."""
    (directory / ".ci").mkdir()
    for name in ("run", "venv-for"):
        shutil.copy(CI / name, directory / ".ci" / name)
    (directory / ".ci" / "find-pythons").write_text(f"echo '{sys.executable}'\n")
    (directory / "bin").mkdir()
    make = directory / "bin" / "make"
    make.write_text(MAKE)
    make.chmod(0o755)
    path = f"{make.parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        [directory / ".ci" / "run"],
        env={**os.environ, "PATH": path, **environ},
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )


def made(directory: pathlib.Path) -> dict[str, int]:
    """The targets that were begun, with their processes."""
    path = directory / "made"
    lines = path.read_text().splitlines() if path.exists() else []
    return {target: int(pid) for target, pid in map(str.split, lines)}


def lives(pid: int) -> bool:
    """Whether the process has not ended."""
    ps = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(ps.stdout.strip()) and not ps.stdout.startswith("Z")


PARTS = ("prepare-large", "setup-oldest", "lint", "install-check", "demo", "test-newest", "test-large", "test-oldest")


def test_the_demo_starts_spark_as_the_tests_do() -> None:
    """With other options the tests would leave out the archive of classes."""
    assert f'SPARK_SUBMIT_OPTS="${{SPARK_SUBMIT_OPTS:-{spark_classes.QUICK}}}"' in (CI / "run").read_text()


def test_all_parts_run(tmp_path: pathlib.Path) -> None:
    assert start(tmp_path).wait() == 0
    assert {*PARTS, "test-alone"} <= made(tmp_path).keys()


@pytest.mark.parametrize("part", [*PARTS, "test-alone", "bytecode-newest"])
def test_part_that_fails_fails_the_run(tmp_path: pathlib.Path, part: str) -> None:
    assert start(tmp_path, FAILING=part).wait() != 0


@pytest.mark.parametrize("part", ["prepare-large", "lint"])
def test_background_part_whose_shell_is_killed_fails_the_run(tmp_path: pathlib.Path, part: str) -> None:
    assert start(tmp_path, KILLED=part).wait() != 0


@pytest.mark.parametrize(
    ("kill", "number"), [(os.killpg, signal.SIGINT), (os.killpg, signal.SIGTERM), (os.kill, signal.SIGTERM)]
)
@pytest.mark.parametrize(
    "endless", [("prepare-large", "test-newest"), ("lint", "test-large"), ("test-oldest", "test-alone")]
)
def test_no_process_is_left_after_an_interrupt(
    tmp_path: pathlib.Path, endless: Sequence[str], kill: Callable[[int, int], None], number: signal.Signals
) -> None:
    run = start(tmp_path, ENDLESS=" ".join(endless))
    eventually(lambda: made(tmp_path).keys() >= {*endless})
    kill(run.pid, number)
    assert run.wait(PATIENCE_S) == -number
    pids = made(tmp_path)
    eventually(lambda: not any(lives(pids[target]) for target in endless), 10)


def test_an_interrupt_that_a_part_handles_itself_ends_the_others_too(tmp_path: pathlib.Path) -> None:
    run = start(tmp_path, ENDLESS="test-oldest", HANDLING="test-alone")
    eventually(lambda: made(tmp_path).keys() >= {"test-oldest", "test-alone"})
    os.killpg(run.pid, signal.SIGINT)
    try:
        assert run.wait(PATIENCE_S) == -signal.SIGINT
        eventually(lambda: not lives(made(tmp_path)["test-oldest"]), 10)
    finally:
        run.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(os.getpgid(made(tmp_path)["test-oldest"]), signal.SIGKILL)
