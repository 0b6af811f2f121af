"""What holds for every command: exit statuses, where errors go, closed pipes, signals, start-up."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tomllib

import pytest
from support.kt import run_kt

from kafkatools import __version__, cli
from kafkatools.commands import ALIASES, COMMANDS, load
from kafkatools.core.errors import KafkaError
from kafkatools.core.net import api_version_check
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Command, Option
from kafkatools.options.table import ARGPARSE4J, all_options

KT = [sys.executable, "-m", "kafkatools"]
ROOT = pathlib.Path(__file__).parents[2]


class _Refused(KafkaError, code=None, name="TOPIC_AUTHORIZATION_FAILED"):
    """Not authorized."""


def _ending(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Makes `kt completion` end with this exception."""

    def run(console: object, args: object) -> ExitStatus:
        raise error

    command = Command("completion", "Sample.", run=run, error_prefix="Failed: ", needs_arguments=False)
    monkeypatch.setattr(cli, "load", lambda name: command)


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (UsageError("wrong"), ExitStatus.USAGE, "wrong"),
        (CommandError("broke"), ExitStatus.FAILED, "Failed: broke"),
        (CommandError("found", ExitStatus.FINDINGS), ExitStatus.FINDINGS, "Failed: found"),
        (_Refused(), ExitStatus.FAILED, "Failed: Not authorized."),
        (
            FileNotFoundError(2, "No such file or directory", "x.log"),
            ExitStatus.FAILED,
            "Failed: x.log: No such file or directory",
        ),
        (
            ZeroDivisionError("division by zero"),
            ExitStatus.FAILED,
            "Failed: internal error: ZeroDivisionError: division by zero",
        ),
    ],
)
def test_exceptions_become_a_line_and_a_status(
    monkeypatch: pytest.MonkeyPatch, error: Exception, status: ExitStatus, line: str
) -> None:
    _ending(monkeypatch, error)
    ran = run_kt("completion")
    assert (ran.status, ran.out, ran.err.splitlines()[0]) == (status, "", line)
    assert "Traceback" not in ran.err
    ran = run_kt("completion", "--json")
    assert json.loads(ran.err)["error"]["message"] == line
    assert json.loads(ran.err)["error"]["exit"] == int(status)
    assert "Traceback" in run_kt("completion", environ={"KT_DEBUG": "1"}).err


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _encoding(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Makes `kt completion` and its subcommand `sub` encode a text; they take pairs and an operand."""

    def run(console: object, args: object) -> ExitStatus:
        text.encode()
        return ExitStatus.OK

    pair = Option("--pair", "A pair.", value="NAME=VALUE", type=_pair, repeatable=True)
    title = Option("--title", "A title.", value="TEXT")
    sub = Command("sub", "Sample.", (title,), run, style=ARGPARSE4J, needs_arguments=False, operand="NAME")
    command = Command("completion", "Sample.", (pair,), run, needs_arguments=False, operand="NAME")
    outer = Command("features", "Sample.", (pair,), style=ARGPARSE4J, subcommands=(sub,))
    monkeypatch.setattr(cli, "load", lambda name: outer if name == "features" else command)


@pytest.mark.parametrize(
    ("words", "subject"),
    [
        (("completion", "--pair", "a=b", "--pair", "name=\udcff"), "The value of --pair"),
        (("completion", "name\udcff"), "An argument"),
        (("features", "--pair", "name=\udcff", "sub", "--title", "x"), "The value of --pair"),
        (("features", "sub", "--title", "x\udcff"), "The value of --title"),
    ],
)
def test_a_value_that_is_not_utf_8_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], subject: str
) -> None:
    _encoding(monkeypatch, "name\udcff")
    ran = run_kt(*words, "--json")
    error = json.loads(ran.err)["error"]
    assert (ran.status, error["kind"], error["exit"]) == (ExitStatus.USAGE, "USAGE", 2)
    assert error["message"] == f"{subject} is not UTF-8 text, as brokers need it: byte 0xff"


@pytest.mark.parametrize("words", [(), ("--pair", "a=b"), ("--pair", "a=\udcfe", "name\udcfe")])
def test_other_text_that_is_not_utf_8_is_not_blamed_on_the_command_line(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """As the name of a file in a directory, or the value of an environment variable."""
    _encoding(monkeypatch, "name\udcff")
    ran = run_kt("completion", *words)
    error, hint = ran.err.splitlines()
    assert ran.status == ExitStatus.FAILED
    assert error.startswith("internal error: UnicodeEncodeError: ")
    assert hint == "Set KT_DEBUG=1 to see where."


def test_interrupt_is_130_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    _ending(monkeypatch, KeyboardInterrupt())
    ran = run_kt("completion")
    assert (ran.status, ran.out, ran.err) == (130, "", "")


def test_a_reader_that_went_away_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    _ending(monkeypatch, BrokenPipeError())
    ran = run_kt("completion")
    assert (ran.status, ran.err) == (0, "")


@pytest.mark.parametrize("name", [*COMMANDS, *ALIASES])
def test_every_command_loads_and_has_help_on_stdout(name: str) -> None:
    command = load(name)
    ran = run_kt(name, "--help")
    assert (ran.status, ran.err) == (ExitStatus.OK, "")
    assert ran.out.startswith(f"usage: kt {command.name}")
    for option in command.options:
        assert option.name in ran.out
    assert all(len(line) <= 100 or "=" in line for line in ran.out.splitlines())


def test_the_synopsis_names_required_options_with_single_spaces() -> None:
    usage = run_kt("verifiable-producer", "--help").out.splitlines()[0]
    assert usage == "usage: kt verifiable-producer --topic TOPIC [OPTION]..."


def test_help_is_wrapped_to_the_width_of_the_terminal() -> None:
    narrow = run_kt("storage", "format", "--help", environ={"COLUMNS": "60"}).out
    wide = run_kt("storage", "format", "--help", environ={"COLUMNS": "160"}).out
    assert max(map(len, narrow.splitlines()[1:])) <= 60 < max(map(len, wide.splitlines()))


def test_versions() -> None:
    assert run_kt("completion", "--version").out == "4.3.1\n"
    assert run_kt("--version").out.startswith(f"kafkatools {__version__} (Apache Kafka 4.3.1 tools; kernels: ")


def test_version_is_said_in_one_place() -> None:
    project = tomllib.loads((pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["setuptools_scm"]["version_file"] == "kafkatools/_version.py"
    # SOFTWARE_NAME_VERSION_PATTERN of Kafka's ApiVersionsRequest; brokers refuse any other version of a client
    assert re.fullmatch(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", __version__)
    # ApiVersions version 3 and later: two compact strings and no tagged fields (KIP-511)
    name, version = b"kafkatools", __version__.encode()
    told = bytes([len(name) + 1]) + name + bytes([len(version) + 1]) + version + b"\0"
    assert b"".join(api_version_check.build(4)) == told


def test_kt_alone_lists_the_commands() -> None:
    ran = run_kt("--help")
    assert ran.status == ExitStatus.OK
    assert all(name in ran.out for name in COMMANDS)
    assert run_kt().status == ExitStatus.USAGE


@pytest.mark.parametrize(
    ("name", "hint"), [("topic", "topics"), ("kafka-topics.sh", "topics"), ("storge", "storage"), ("--bootsrap", "")]
)
def test_unknown_commands_suggest_the_nearest(name: str, hint: str) -> None:
    ran = run_kt(name, "--list")
    assert ran.status == ExitStatus.USAGE and ran.out == ""
    assert f"'{name}'" in ran.err.splitlines()[0]
    assert not hint or f"Did you mean kt {hint}?" in ran.err


def test_a_mistyped_command_imports_no_other_one() -> None:
    program = (
        "import sys; from kafkatools.cli import main; from kafkatools.console import Console\n"
        "main(['topicz', '--list'], Console.of_process())\n"
        "print(*(name for name in sys.modules if name.startswith('kafkatools.commands.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=_environ(), check=True)
    assert "Did you mean kt topics?" in done.stderr
    assert {name.split(".")[2] for name in done.stdout.split()} <= {"topics"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("list", "Did you mean kt backup list or kt transactions list or kt undo list or kt schemas list?"),
        ("cluster-id", "Did you mean kt cluster cluster-id?"),
        ("api-versions", "Did you mean kt cluster api-versions?"),
    ],
)
def test_an_unknown_command_suggests_every_command_with_this_subcommand(name: str, hint: str) -> None:
    assert run_kt(name).err.splitlines()[1].startswith(hint)


def _environ(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def test_the_help_of_kt_names_every_option_in_front_of_the_command() -> None:
    ran = run_kt("--help")
    assert ran.status == ExitStatus.OK
    assert [name for name in ("--profile NAME", "--confirm CLUSTER", "--version") if name not in ran.out] == []
    assert "..." not in ran.out.partition("Records:")[2], "summaries are shown whole"


@pytest.mark.slow
def test_the_help_of_kt_lists_every_command_once_below_a_heading() -> None:
    sections = run_kt("--help").out.partition("Records:")[2].partition("Environment variables:")[0]
    listed = re.findall(r"^  ([a-z0-9-]+)  ", sections, re.M)
    assert sorted(listed) == sorted(COMMANDS)


def test_a_command_with_many_options_lists_each_once_in_sections() -> None:
    """The options of the table, all of them, however they are grouped."""
    help_text = run_kt("pipeline", "run", "--help").out
    assert re.findall(r"^([A-Za-z].*):$", help_text, re.M)[:2] == ["source and query", "sink"]
    command = load("pipeline").subcommand("run")
    assert command is not None
    for option in all_options(command):
        assert len(re.findall(rf"^  (?:-\w, )?{option.name}(?: |$)", help_text, re.M)) == 1, option.name


def test_help_of_a_command_is_the_same_behind_and_in_front() -> None:
    assert run_kt("help", "cluster", "cluster-id").out == run_kt("cluster", "cluster-id", "--help").out != ""
    assert run_kt("help", "topics").out == run_kt("topics", "--help").out != ""
    assert run_kt("help", "topicz").err == "kt has no command 'topicz'\nDid you mean kt topics? See kt --help.\n"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--profile"], "Option profile requires an argument", None),
        (["--profil", "prod"], "kt has no option '--profil'", "Did you mean kt --profile?"),
        (["topicz", "--list"], "kt has no command 'topicz'", "Did you mean kt topics?"),
        (["topics", "--lst"], "lst is not a recognized option", "Did you mean --list?"),
        (
            ["sandbox", "stat"],
            "kt sandbox: error: invalid choice: 'stat' (choose from 'start', 'status', 'kill', 'pause', 'resume', "
            "'restart', 'wipe', 'fault', 'stop')",
            "Did you mean start?",
        ),
        (
            ["reassign-partitions", "runn"],
            "kt reassign-partitions has no subcommand 'runn'",
            "Did you mean run?",
        ),
    ],
)
def test_usage_errors_as_json_have_the_hint_of_the_text(arguments: list[str], message: str, hint: str | None) -> None:
    ran = run_kt(*arguments, "--json")
    expected = {"kind": "USAGE", "message": message, "exit": 2} | ({"hint": hint} if hint else {})
    assert (ran.status, ran.out, json.loads(ran.err)) == (ExitStatus.USAGE, "", {"error": expected})
    text = run_kt(*arguments)
    first, second = text.err.splitlines()
    assert (first, second.partition("See kt")[0].strip()) == (message, hint or "")


def test_where_a_file_is_wrong_is_told_in_json_too(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text("{\n  oops\n}")
    ran = run_kt("delete-records", "--bootstrap-server", "127.0.0.1:1", "--offset-json-file", str(path), "--json")
    assert ran.status == ExitStatus.FAILED
    assert json.loads(ran.err)["error"]["hint"].startswith(f"{path}, line 2, column 3: ")


@pytest.mark.parametrize(
    ("arguments", "is_json"),
    [
        (["delete-records", "--bootstrap-server", "127.0.0.1:1", "--offset-json-file", "absent", "-json"], True),
        (["delete-records", "--bootstrap-server", "127.0.0.1:1", "--offset-json-file", "--json"], False),
        (["cluster", "list-endpoints", "--js"], True),
    ],
)
def test_errors_are_json_when_the_option_is_given_however_it_is_spelled(arguments: list[str], is_json: bool) -> None:
    ran = run_kt(*arguments)
    assert ran.status != ExitStatus.OK
    assert ran.err.startswith('{"error":') == is_json


def test_a_usage_error_points_to_the_help_of_the_subcommand() -> None:
    assert (
        run_kt("reassign-partitions", "plan", "oops").err.splitlines()[1] == "See kt reassign-partitions plan --help."
    )


def test_a_pipe_that_is_closed_early_ends_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run([*KT, "storage", "--help"], stdout=closed, stderr=subprocess.PIPE, env=_environ())
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_disk_behind_stdout_is_a_failure() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*KT, "storage", "--help"], stdout=full, stderr=subprocess.PIPE, env=_environ())
    assert done.returncode == 1
    assert done.stderr == b"kt: No space left on device\n"


def test_without_any_streams_it_still_runs() -> None:
    done = subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *KT, "storage", "random-uuid"], env=_environ())
    assert done.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_with_130_and_no_traceback(number: signal.Signals) -> None:
    program = (
        "import sys, kafkatools.__main__ as m, kafkatools.cli as c\n"
        "from kafkatools.options import Command\n"
        "def run(console, args):\n"
        "    console.print('ready'); console.flush()\n"
        "    while console.stdin.read(1): pass\n"
        "c.load = lambda name: Command('completion', 'Sample.', run=run, needs_arguments=False)\n"
        "sys.argv = ['kt', 'completion']; m.main()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environ(),
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(number)
    _, stderr = child.communicate(timeout=20)
    assert (child.returncode, stderr) == (130, b"")


_NOT_FOR_HELP = (
    "typer",
    "rich",
    "click",
    "kio",
    "asyncio",
    "inspect",
    "dataclasses",
    "json",
    "socket",
    "kafkatools.core",
)


@pytest.fixture(scope="module")
def loaded_for_help() -> dict[str, list[str]]:
    """The modules that a process loads for `kt COMMAND --help`, by command: one that has `kt` itself, and forks."""
    program = (
        "import os, sys; before = set(sys.modules)\n"
        "from kafkatools.cli import main; from kafkatools.console import Console\n"
        "for name in sys.argv[1:]:\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        status = main([name, '--help'], Console.of_process())\n"
        "        print(name, *(set(sys.modules) - before), file=sys.stderr, flush=True)\n"
        "        os._exit(status)\n"
        "    assert os.waitpid(pid, 0)[1] == 0, name\n"
    )
    command = [sys.executable, "-c", program, *COMMANDS]
    done = subprocess.run(command, capture_output=True, text=True, env=_environ(), check=True)
    lines = [line.split() for line in done.stderr.splitlines()]
    return {words[0]: words[1:] for words in lines}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_imports_nothing_heavy(name: str, loaded_for_help: dict[str, list[str]]) -> None:
    loaded = loaded_for_help[name]
    assert "kafkatools.cli" in loaded
    assert not [module for module in loaded if module.startswith(_NOT_FOR_HELP)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    ["topics --list", "configs --describe --topic t", "consumer-groups --list", "acls --list", "cluster cluster-id",
     "get-offsets", "log-dirs --describe"],
)  # fmt: skip
def test_a_request_to_a_broker_needs_nothing_heavy(words: str) -> None:
    program = (
        "import sys; from kafkatools.cli import main; from kafkatools.console import Console\n"
        f"main([*{words.split()!r}, '--bootstrap-server', '127.0.0.1:1'], Console.of_process())\n"
        "print('\\n', *sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=_environ(), check=True)
    loaded = done.stderr.split()
    assert "kafkatools.core.net.network_client" in loaded
    assert not {"rich", "asyncio", "inspect", "dataclasses"}.intersection(loaded)


def test_without_a_server_and_with_the_sandbox_off_it_is_kafkas_usage_error() -> None:
    ran = run_kt("topics", "--list")
    assert (ran.status, ran.err.splitlines()[0]) == (ExitStatus.USAGE, "--bootstrap-server must be specified")
