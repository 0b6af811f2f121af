"""`pytest --forks`: copies of one process run the tests, and its reports are those of one process."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
from support.forks import NOTHING, Queue, Shares

pytestmark = pytest.mark.processes

TESTS_DIRECTORY = pathlib.Path(__file__).parents[1]

CONFTEST = """
from support import forks

def pytest_addoption(parser):
    parser.addoption("--forks", type=int, default=0)

def pytest_configure(config):
    config.pluginmanager.register(forks.Forks(config, config.option.forks, lambda: None))
"""

TESTS = """
import gc, os, pathlib, sys, time, pytest

@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    path = tmp_path_factory.mktemp("shared")
    yield path
    (pathlib.Path(__file__).parent / f"ended-{os.getpid()}").touch()

@pytest.mark.parametrize("number", range(40))
def test_passes(number, shared, tmp_path):
    print("never shown")
    (tmp_path / "file").touch()

def test_fails():
    print("what it printed")
    assert 1 == 2

@pytest.mark.skip(reason="because")
def test_is_skipped(): ...

@pytest.mark.xfail
def test_is_expected_to_fail():
    assert False

@pytest.fixture
def breaks():
    yield
    raise ValueError("at the end")

def test_breaks_at_its_end(breaks): ...
"""

BUNDLES = """
import os, pathlib, time, pytest

PLACE = pathlib.Path(__file__).parent

def note(name):
    with (PLACE / f"begun-{os.getpid()}").open("a") as file:
        print(name, file=file)
    time.sleep(0.02)

@pytest.fixture(scope="module")
def made():
    (PLACE / f"made-{os.getpid()}").touch()

@pytest.mark.parametrize("number", range(0, 30, 2))
def test_alone(number):
    note(number)

@pytest.mark.parametrize("number", range(1, 30, 2))
def test_shared(number, made):
    note(number)

@pytest.mark.slow
@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_slow(name):
    note(name)
"""


NAMES = 'group_of=lambda item: item.get_closest_marker("xdist_group").args[0]'
BY_GROUP = CONFTEST.replace("lambda: None)", f"lambda: None, {NAMES})")
GROUPS = """
import os, pathlib, pytest

def pytest_generate_tests(metafunc):
    marks = [pytest.mark.xdist_group(str(number % 7)) for number in range(42)]
    metafunc.parametrize("number", [pytest.param(number, marks=mark) for number, mark in enumerate(marks)])

def test_of_a_group(number):
    place = pathlib.Path(__file__).parent
    with (place / f"group-{number % 7}").open("a") as file:
        print(os.getpid(), file=file)
    if number == 23:
        os.kill(os.getpid(), 9)
"""


def run_pytest(directory: pathlib.Path, tests: str, *arguments: str, conftest: str = CONFTEST) -> tuple[int, str]:
    """The exit status and the output of `pytest --forks 3`."""
    (directory / "conftest.py").write_text(conftest)
    (directory / "test_some.py").write_text(tests)
    support = str(pathlib.Path(__file__).parents[1])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:kafkatools",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "--forks",
        "3",
    ]
    ran = subprocess.run(
        [*command, "--rootdir", str(directory), "-ra", *arguments, "test_some.py"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": support},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_reports_are_those_of_one_process(tmp_path: pathlib.Path) -> None:
    status, out = run_pytest(tmp_path, TESTS)
    assert status == 1
    assert "1 failed, 41 passed, 1 skipped, 1 xfailed, 1 error" in out
    assert "what it printed" in out and "assert 1 == 2" in out and "never shown" not in out
    assert "at the end" in out and "because" in out
    assert list(tmp_path.glob("ended-*")), "fixtures of modules end in the copies"


def test_a_copy_that_dies_fails_its_test_and_the_others_go_on(tmp_path: pathlib.Path) -> None:
    status, out = run_pytest(tmp_path, TESTS + "\ndef test_dies(): os.kill(os.getpid(), 9)\n")
    assert status == 1
    assert "2 failed, 41 passed, 1 skipped, 1 xfailed, 1 error" in out
    assert re.search("the process of this test ended with status -9", out)


def test_garbage_that_no_test_collected_fails_the_run(tmp_path: pathlib.Path) -> None:
    left = "def test_leaves_garbage():\n    class Broken:\n        def __del__(self): 1 / 0\n    gc.disable()\n"
    left += "    broken = Broken()\n    broken.itself = broken\n"
    status, out = run_pytest(tmp_path, "import gc\n" + left)
    assert status not in (0, 1) and "ZeroDivisionError" in out


def test_the_first_failure_ends_all_copies_when_asked(tmp_path: pathlib.Path) -> None:
    slow = "import time, pytest\n@pytest.mark.parametrize('n', range(300))\ndef test_it(n):\n    time.sleep(0.01)\n"
    status, out = run_pytest(tmp_path, slow + "    assert n != 2\n", "-x")
    assert status == 1
    passed = re.search("1 failed, ([0-9]+) passed", out)
    assert passed is not None and int(passed[1]) < 250, out


def test_each_test_is_taken_once_and_consecutive_ones_by_the_same_worker() -> None:
    shares = Shares([[1] * 4, [1] * 4, [1] * 2])
    assert [shares.take(0) for _ in range(4)] == [0, 1, 2, 3]
    assert shares.take(1) == 4
    assert sorted(iter(lambda: shares.take(2), NOTHING)) == [5, 6, 7, 8, 9]
    assert [shares.take(worker) for worker in range(3)] == [NOTHING] * 3
    shares.close()


def test_a_bundle_that_has_begun_stays_with_its_worker() -> None:
    shares = Shares([[3, 1, 2], [1]])
    assert [shares.take(0), shares.take(1)] == [0, 6]
    assert [shares.take(1), shares.take(1)] == [4, 5]
    assert [shares.take(1), shares.take(1)] == [3, NOTHING]
    assert [shares.take(0) for _ in range(3)] == [1, 2, NOTHING]
    shares.close()


def test_long_tests_begin_first_and_a_shared_fixture_is_made_once(tmp_path: pathlib.Path) -> None:
    status, out = run_pytest(tmp_path, BUNDLES, "-o", "markers=slow")
    assert status == 0, out
    begun = [path.read_text().split() for path in tmp_path.glob("begun-*")]
    assert sorted(name for names in begun for name in names) == sorted([*map(str, range(30)), "a", "b", "c"])
    assert {names[0] for names in begun} == {"a", "b", "c"}
    assert sorted(sum(int(name) % 2 for name in names[1:]) for names in begun) == [0, 0, 15]
    assert len([*tmp_path.glob("made-*")]) == 1


def test_bundles_begin_in_one_order_for_all_workers() -> None:
    queue = Queue([2, 1, 3], 2)
    assert [queue.take(worker) for worker in (0, 1, 1, 0, 0, 1, 1, 1)] == [0, 2, 3, 1, NOTHING, 4, 5, NOTHING]
    queue.close()


def test_a_worker_begins_no_bundle_before_its_last_one_has_ended() -> None:
    queue = Queue([2, 1, 1], 2)
    assert [queue.take(0), queue.take_following(0), queue.take_following(0)] == [0, 1, NOTHING]
    assert [queue.take(1), queue.take_following(1), queue.take(1)] == [2, NOTHING, 3]
    assert [queue.take(0), queue.take(1)] == [NOTHING, NOTHING]
    queue.close()


def test_the_bundle_of_a_dead_worker_is_taken_up_by_its_successor() -> None:
    queue = Queue([3, 3], 2)
    assert [queue.take(0), queue.take(0), queue.take(1)] == [0, 1, 3]
    queue.note_running(0, 0, 1)
    queue.give_back(0)
    assert [queue.take(worker) for worker in (1, 1, 1, 0, 0, 0)] == [4, 5, NOTHING, 1, 2, NOTHING]
    queue.close()


def test_a_group_runs_in_one_process_until_that_dies(tmp_path: pathlib.Path) -> None:
    status, out = run_pytest(tmp_path, GROUPS, "-o", "markers=xdist_group", conftest=BY_GROUP)
    assert status == 1 and "1 failed, 41 passed" in out
    processes = {path.name: path.read_text().split() for path in tmp_path.glob("group-*")}
    assert [len(pids) for pids in processes.values()] == [6] * 7
    assert {name: len({*pids}) for name, pids in processes.items()} == {
        f"group-{n}": 2 if n == 2 else 1 for n in range(7)
    }


def test_the_longest_groups_begin_first() -> None:
    """In the order of tests/conftest.py, with the names of its lists."""
    in_turn = ["test_real_fixture.py", "test_real_three_nodes.py", "test_refused_bootstrap.py", "test_disk_faults.py"]
    files = [str(next(TESTS_DIRECTORY.rglob(name))) for name in reversed(in_turn)]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q"]
    ran = subprocess.run(
        [*command, "--forks", "2", "--groups", *files],
        cwd=TESTS_DIRECTORY.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    order = list(dict.fromkeys(re.findall(r"/(test_\w+\.py)::", ran.stdout)))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert order == in_turn
    named = re.findall(r'"(test_\w+\.py)"', (TESTS_DIRECTORY / "conftest.py").read_text())
    assert named and all(any(TESTS_DIRECTORY.rglob(name)) for name in named)


def test_no_test_begins_after_the_end_of_all() -> None:
    shares = Shares([[1] * 10, [], []])
    shares.clear()
    assert [shares.take(worker) for worker in range(3)] == [NOTHING] * 3
    shares.close()


def test_a_fixture_of_the_session_that_fails_at_its_end_is_an_error_of_one_test(tmp_path: pathlib.Path) -> None:
    tests = GROUPS.replace("if number == 23:", "if False:").replace("(number)", "(number, broken)")
    tests += "\n@pytest.fixture(scope='session')\ndef broken():\n    yield\n    assert 0, 'the end is missing'\n"
    status, out = run_pytest(tmp_path, tests, "-o", "markers=xdist_group", conftest=BY_GROUP)
    assert status == 1 and re.search("42 passed, [123] errors?", out) and "the end is missing" in out


@pytest.mark.parametrize("ending", ["interrupted", "broken"])
def test_a_copy_with_much_to_say_does_not_keep_the_run_from_its_end(tmp_path: pathlib.Path, ending: str) -> None:
    """The first process no longer reads what copies send, and waits for their ends."""
    tests = (
        "import os, pathlib, signal, time, pytest\nPLACE = pathlib.Path(__file__).parent\n"
        "@pytest.mark.xdist_group('a')\ndef test_says_much():\n    (PLACE / 'begun').touch()\n    time.sleep(1)\n"
        "    print('x' * 300_000)\n    assert 0\n"
        "@pytest.mark.xdist_group('b')\ndef test_ends():\n    while not (PLACE / 'begun').exists(): time.sleep(0.01)\n"
    )
    if ending == "interrupted":
        tests += "    os.kill(os.getppid(), signal.SIGINT)\n"
    else:
        tests += "    import gc\n    class Broken:\n        def __del__(self): 1 / 0\n    gc.disable()\n"
        tests += "    broken = Broken()\n    broken.itself = broken\n"
    status, _ = run_pytest(tmp_path, tests, "-o", "timeout=20", "-o", "markers=xdist_group", conftest=BY_GROUP)
    assert status not in (0, 1)


def test_nothing_that_was_taken_begins_after_the_end_of_all(tmp_path: pathlib.Path) -> None:
    tests = "import contextlib, os, pathlib, signal, time\nPLACE = pathlib.Path(__file__).parent\n"
    for name in "abcdef":
        tests += f"def test_{name}():\n    (PLACE / f'begun-{name}-{{os.getpid()}}').touch()\n"
        tests += "    with contextlib.suppress(FileExistsError):\n        (PLACE / 'once').touch(exist_ok=False)\n"
        tests += "        os.kill(os.getppid(), signal.SIGINT)\n    time.sleep(3)\n"
    status, _ = run_pytest(tmp_path, tests)
    copies = [path.name.split("-")[2] for path in tmp_path.glob("begun-*")]
    assert status == 2 and len(copies) == len({*copies}) > 0, "one in each copy"


def test_fixtures_end_when_a_run_ends_early(tmp_path: pathlib.Path) -> None:
    """After Ctrl-C, too: processes that fixtures started would live on."""
    tests = TESTS + "\ndef test_is_interrupted(shared): raise KeyboardInterrupt\n"
    status, _ = run_pytest(tmp_path, tests, "-k", "interrupted")
    assert status != 0 and len([*tmp_path.glob("ended-*")]) == 1
