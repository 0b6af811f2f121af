"""What a script may rely on, for every command there is: exit statuses, what goes to stdout and what to stderr, and
how a run ends when nobody answers or nobody reads."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from json_runs import NOBODY, OTHERWISE, SERVER, UNREACHABLE
from support import recorded_segments
from support.kt import run_kt
from support.kt_process import KT, environment, error_lines

from kafkatools.cli import main
from kafkatools.commands import COMMANDS, load
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options.table import Command
from kafkatools.tools.backup.manifest import Manifest, PartitionBackup, TopicBackup, encode_manifest, manifest_name

pytestmark = pytest.mark.processes

BOUND_S = 20
"""How long a command may try to reach a broker that is not there: some seconds, on a machine that is busy too. The
start of the interpreter and the imports come before: many at a time on few cores they take as long as they take."""

TIMED = """
import pathlib, sys, time
place = sys.argv.pop(1)

def hook(event, arguments):
    global place
    if event == "socket.connect" and arguments[1] == ("127.0.0.1", 1) and place:
        file, place = place, None
        pathlib.Path(file).write_text(repr(time.monotonic()))

sys.addaudithook(hook)
from kafkatools.__main__ import main
main()
"""
"""`kt` that writes into a file when it first tried to reach NOBODY."""

COUNTS = {
    "console-producer": "0 sent, 0 failed",
    "console-consumer": "Processed a total of 0 messages",
    "console-share-consumer": "Processed a total of 0 messages",
    "producer-perf-test": "1 of 1 records were not sent",
    "consumer-perf-test": "WARNING: Exiting before consuming the expected number of records: "
    "timeout (3000 ms) exceeded. You can use the --timeout option to increase the timeout.",
    "share-consumer-perf-test": "WARNING: Exiting before consuming the expected number of records: "
    "timeout (3000 ms) exceeded. You can use the --timeout option to increase the timeout.",
}
"""The line that these have on stderr besides the error: how far they came."""


class Ended:
    """How a process ended, and how long that took it from its first try to reach NOBODY."""

    def __init__(self, home: pathlib.Path, words: tuple[str, ...]) -> None:
        with tempfile.NamedTemporaryFile(dir=home) as first_try:
            self.run = subprocess.run(
                [sys.executable, "-c", TIMED, first_try.name, *words],
                input=b"line\n",
                env=environment(home),
                cwd=home,
                capture_output=True,
                timeout=120,
                check=False,
            )
            ended = time.monotonic()
            # Infinite when it never tried.
            self.seconds = ended - float(pathlib.Path(first_try.name).read_text() or "-inf")
        self.status, self.lines = self.run.returncode, error_lines(self.run.stderr)


@pytest.fixture(scope="module")
def unreached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, bool], Future[Ended]]]:
    """Every command without a broker, with and without --json, many at a time: most of their time they wait."""
    home = tmp_path_factory.mktemp("home")
    (home / "empty.properties").touch()
    (home / "records.json").write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": 1}]}')
    topic = TopicBackup(None, 0, 1, {}, [], [PartitionBackup("logs", 0, 0)])
    (home / "stored").mkdir()
    (home / "stored" / manifest_name(1)).write_bytes(encode_manifest(Manifest(1, "other", 0, topics={"t": topic})))
    with ThreadPoolExecutor(10) as pool:
        yield {
            (name, as_json): pool.submit(Ended, home, (name, *words, *(["--json"] if as_json else [])))
            for name, words in UNREACHABLE.items()
            for as_json in (False, True)
        }


def leaf(command: Command) -> tuple[list[str], Command]:
    """The words to the first command without subcommands, and that command."""
    words = [command.name]
    while command.subcommands and command.run is None:
        command = command.subcommands[0]
        words.append(command.name)
    return words, command


def test_all_commands_are_looked_at() -> None:
    assert {*UNREACHABLE, *OTHERWISE} == set(COMMANDS)
    assert not UNREACHABLE.keys() & OTHERWISE.keys()


# -- the command line --


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_is_a_usage_error(name: str) -> None:
    words, _ = leaf(load(name))
    ran = run_kt(*words, "--no-such-option")
    assert (ran.status, ran.stdout) == (ExitStatus.USAGE, b"")
    first, *rest = ran.err.splitlines()
    assert "no-such-option" in first
    assert all("See kt" in line for line in rest)


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_with_a_slip_is_told_the_right_one(name: str) -> None:
    words, command = leaf(load(name))
    known = next((option.name for option in command.options if len(option.long) > 4), "--json")
    slip = known[:-1] if known[-1] == known[-2] else known[:-2] + known[-1] + known[-2]
    ran = run_kt(*words, slip)
    assert (ran.status, ran.stdout) == (ExitStatus.USAGE, b"")
    assert f"Did you mean {known}?" in ran.err


@pytest.mark.parametrize("name", COMMANDS)
def test_a_usage_error_is_one_object_with_json(name: str) -> None:
    words, _ = leaf(load(name))
    for order in (["--json", "--no-such-option"], ["--no-such-option", "--json"]):
        ran = run_kt(*words, *order)
        assert (ran.status, ran.stdout) == (ExitStatus.USAGE, b"")
        (line,) = ran.err.splitlines()
        error = json.loads(line)["error"]
        assert (error["kind"], error["exit"]) == ("USAGE", 2) and "no-such-option" in error["message"]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_goes_to_stdout(name: str) -> None:
    words, _ = leaf(load(name))
    for asked in ([name, "--help"], [*words, "--help"], [*words, "--help", "--json"]):
        ran = run_kt(*asked)
        assert (ran.status, ran.stderr) == (ExitStatus.OK, b"")
        assert ran.out.startswith("Usage: kt") or "kt " + name in ran.out


@pytest.mark.parametrize("name", [name for name in COMMANDS if load(name).needs_arguments])
def test_nothing_at_all_is_a_usage_error_with_the_help(name: str) -> None:
    ran = run_kt(name)
    assert (ran.status, ran.stdout) == (ExitStatus.USAGE, b"")
    assert ran.err == run_kt(name, "--help").out


# -- no broker --


@pytest.mark.parametrize("name", UNREACHABLE)
def test_an_unreachable_broker_is_named_in_one_line(
    name: str, unreached: dict[tuple[str, bool], Future[Ended]]
) -> None:
    ended = unreached[name, False].result()
    assert ended.status == ExitStatus.FAILED
    assert ended.seconds < BOUND_S
    about = [line for line in ended.lines if NOBODY in line]
    assert len(about) == 1 and about[0].endswith(f"Connection to {NOBODY} failed: Connection refused")
    rest = [line for line in ended.lines if line not in about and not line.startswith("Is the address right")]
    assert rest == ([COUNTS[name]] if name in COUNTS else [])


@pytest.mark.parametrize("name", UNREACHABLE)
def test_an_unreachable_broker_is_one_object_with_json(
    name: str, unreached: dict[tuple[str, bool], Future[Ended]]
) -> None:
    ended = unreached[name, True].result()
    assert ended.status == ExitStatus.FAILED
    rows = [json.loads(line) for line in [*ended.lines, *ended.run.stdout.decode().splitlines()]]
    errors = [row["error"] for row in rows if "error" in row and isinstance(row["error"], dict)]
    (about,) = [error for error in errors if error["kind"] == "CONNECTION_FAILED"]
    assert NOBODY in about["message"]
    texts = [error["message"] for error in errors if error is not about] + [
        row["note"] for row in rows if "note" in row
    ]
    assert texts == ([COUNTS[name]] if name in COUNTS else [])


def test_those_that_do_not_fail_without_a_broker(tmp_path: pathlib.Path) -> None:
    looked = run_kt("doctor", *SERVER)
    assert looked.status is ExitStatus.FINDINGS and NOBODY in looked.out and not looked.err
    names = run_kt("completion", *SERVER, "--topics", environ={"KT_HOME": str(tmp_path)})
    assert (names.status, names.stdout, names.stderr) == (ExitStatus.OK, b"", b"")


def test_a_stack_trace_is_there_for_the_asking() -> None:
    ran = run_kt("dump-log", "--files", "no-such-file", "--offsets-decoder", "--no-such-option")
    assert "Traceback" not in ran.err
    ran = run_kt("topics", *SERVER, "--create", environ={"KT_DEBUG": "1"})
    assert ran.status is ExitStatus.USAGE and "Traceback (most recent call last)" in ran.err
    ran = run_kt("topics", *SERVER, "--create", "--json", environ={"KT_DEBUG": "1"})
    assert all(isinstance(json.loads(line), dict) for line in ran.err.splitlines())
    assert "Traceback" in ran.err


# -- stdout --


def main_on(place: str | int, *words: str) -> tuple[ExitStatus, str]:
    """Runs `kt WORDS` in this process with stdout there; the status and stderr."""
    stdout, stderr = open(place, "wb"), io.BytesIO()  # noqa: SIM115 - to close it fails
    status = main(words, Console(io.BytesIO(), stdout, stderr, {"KT_SANDBOX": "off"}))
    with contextlib.suppress(OSError):
        stdout.close()  # what it holds still cannot be written
    return status, stderr.getvalue().decode()


def closed_pipe() -> int:
    """The end to write to of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_behind_stdout_is_a_failure(name: str) -> None:
    status, told = main_on("/dev/full", name, "--help")
    (line,) = told.splitlines()
    assert status is ExitStatus.FAILED and line.endswith("No space left on device")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_closed_pipe_behind_stdout_ends_quietly(name: str) -> None:
    status, told = main_on(closed_pipe(), name, "--help")
    assert (status, told) == (ExitStatus.OK, "")


BULKY = {
    "help-json": (),
    "completion": ("--shell", "bash"),
    "dump-log": ("--files", "LOG", "--print-data-log"),
    "doctor": SERVER,
    "verifiable-producer": UNREACHABLE["verifiable-producer"],
}
"""Commands that print without a broker."""


def bulky(name: str) -> list[str]:
    log = recorded_segments.log_directory("plain-java") / "00000000000000000000.log"
    return [*KT, name, *(str(log) if word == "LOG" else word for word in BULKY[name])]


@pytest.mark.parametrize("name", BULKY)
def test_a_process_on_a_full_disk_fails(name: str, tmp_path: pathlib.Path) -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            bulky(name), env=environment(tmp_path), stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert ran.returncode == ExitStatus.FAILED
    assert [line for line in error_lines(ran.stderr) if "No space left on device" in line]


@pytest.mark.parametrize("name", BULKY)
def test_a_process_that_nobody_reads_ends_quietly(name: str, tmp_path: pathlib.Path) -> None:
    with open(closed_pipe(), "wb") as pipe:
        ran = subprocess.run(
            bulky(name), env=environment(tmp_path), stdout=pipe, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert (ran.returncode, ran.stderr) == (ExitStatus.OK, b"")


def test_a_pipe_that_is_closed_in_the_middle_ends_quietly(tmp_path: pathlib.Path) -> None:
    with subprocess.Popen(
        bulky("dump-log"), env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith(b"Dumping ")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == ExitStatus.OK
