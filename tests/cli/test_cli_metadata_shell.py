"""kt metadata-shell against recordings of kafka-metadata-shell.sh on the same snapshot and segment, and what only kt
has: directories, JSON, hidden secrets, damaged files."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
from typing import Any

import pytest
import transcripts
from support import recorded_segments
from support.kt import Ran, run_kt

from kafkatools.commands.metadata_shell.columns import in_columns
from kafkatools.commands.metadata_shell.interactive import candidates
from kafkatools.commands.metadata_shell.shell import Shell
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.metadata_shell.loading import load_file
from kafkatools.tools.metadata_shell.nodes import root_node

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "metadata-shell"
SNAPSHOT = GOLDEN / "00000000000000000076-0000000001.checkpoint"
SEGMENT = GOLDEN / "00000000000000000000.log"
RUNS: list[dict[str, Any]] = json.loads((GOLDEN / "runs.json").read_text())
_FAILURES = re.compile(
    r"\w+: .*(?:[Nn]o such (?:file or )?directory\.?|not a directory\.|Is a directory|Type help to get .*)$"
    r"|invalid choice: .*|too few arguments|unrecognized arguments: .*|argument numEntriesToShow: .*",
    re.MULTILINE,
)
_DEFAULT_QUOTAS = (
    "    clientId():\n      producer_byte_rate:\n        1.2345678E7\n      request_percentage:\n        12.5\n"
)
_OWN = {
    ("ls", "--frob"),  # the words of the parser of kt
    ("cat", "/image/features/finalized_ghost"),  # Kafka's shell has each name with this prefix
    ("cat", "/image/clientQuotas/*/*"),  # Kafka's shell ends with an exception
    ("ls", "/image/clientQuotas"),
    ("find", "/image/topics/byName/late/"),  # with double slashes
}


def shell(*words: str, file: pathlib.Path = SNAPSHOT, stdin: bytes = b"") -> Ran:
    """Run kt metadata-shell with secrets shown, as Kafka's shell does."""
    return run_kt("metadata-shell", "--snapshot", str(file), "--show-secrets", *words, stdin=stdin)


def kafkas(text: str) -> str:
    """The output of Kafka's shell with what kt does otherwise: the commit id, and the names of default quotas."""
    return text.replace("    26b251a451ce941d\n", "    unknown\n").replace("    :\n", _DEFAULT_QUOTAS)


@pytest.mark.parametrize(
    "run", [run for run in RUNS if tuple(run["args"]) not in _OWN], ids=lambda run: str(run["args"])
)
def test_a_command_prints_what_kafkas_shell_prints(run: dict[str, Any]) -> None:
    ran = shell(*run["args"], file=GOLDEN / run["file"])
    failures = _FAILURES.findall(run["stdout"])
    assert ran.out == kafkas(_FAILURES.sub("", run["stdout"]).lstrip("\n"))
    assert ran.err.splitlines() == failures
    assert ran.status == (ExitStatus.FAILED if failures else ExitStatus.OK)


def test_a_session_prints_what_kafkas_shell_prints() -> None:
    recorded = (GOLDEN / "session.out").read_text().split("[ Kafka Metadata Shell ]\n")[1].replace(">> ", "")
    ran = shell(stdin=(GOLDEN / "session.in").read_bytes())
    help_of_ls = re.search(r"usage:  ls \[-h\].*?and exit\n", recorded, re.DOTALL)
    assert help_of_ls is not None
    expected = recorded.replace(help_of_ls[0], "").replace("help message and exit", "")
    failures = [line for line in _FAILURES.findall(expected) if not line.startswith("argument")]
    squeezed = re.sub(r"[ \n]+", " ", _FAILURES.sub("", expected))  # Kafka's help is justified to 75 columns
    assert re.sub(r"[ \n]+", " ", ran.out) == squeezed
    assert [line for line in ran.err.splitlines() if line in failures] == failures
    assert "argument numEntriesToShow: could not convert 'x' to a number" in ran.err.splitlines()
    assert ran.status == ExitStatus.FAILED


def test_a_directory_gives_its_newest_snapshot_and_the_records_after_it(tmp_path: pathlib.Path) -> None:
    """As Kafka's shell on the whole segment, whose first records are in the snapshot."""
    directory = tmp_path / "data" / "__cluster_metadata-0"
    directory.mkdir(parents=True)
    shutil.copy(SEGMENT, directory)
    shutil.copy(SNAPSHOT, directory)
    (recorded,) = (run for run in RUNS if run["file"] == SEGMENT.name)
    for path in (directory, directory.parent):
        ran = run_kt("metadata-shell", "--directory", str(path), "--show-secrets", "tree", "/")
        assert (ran.status, ran.err, ran.out) == (ExitStatus.OK, "", kafkas(recorded["stdout"]))


def test_secrets_are_hidden_unless_they_are_asked_for() -> None:
    ran = run_kt("metadata-shell", "-s", str(SNAPSHOT), "tree", "/image/scram", "/image/delegationToken")
    hidden = "ScramCredentialData(salt=[redacted], storedKey=[redacted], serverKey=[redacted], iterations=[redacted])"
    assert ran.out.count(hidden) == 2
    assert "owner=[redacted]" in ran.out
    assert "alice" not in ran.out


def test_json() -> None:
    def rows(*words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in shell(*words, "--json").out.splitlines()]

    assert rows("ls", "/image/topics", "/local/version") == [
        {"path": "/image/topics", "children": ["byId", "byName"]},
        {"path": "/local/version", "children": None},
    ]
    assert rows("cat", "/image/topics/byName/orders/name") == [
        {"path": "/image/topics/byName/orders/name", "value": "orders"}
    ]
    assert rows("tree", "/image/producerIds") == [{"path": "/image/producerIds/nextProducerId", "value": "1000"}]
    assert rows("find", "/image/topics/byName/late")[:2] == [
        {"path": "/image/topics/byName/late", "directory": True},
        {"path": "/image/topics/byName/late/0", "directory": False},
    ]
    error = json.loads(shell("ls", "/nothing", "--json").err)["error"]
    assert (error["kind"], error["path"]) == ("NOT_FOUND", "/nothing")


def test_the_reference_segments_of_an_older_cluster() -> None:
    names = shell("ls", "/image/topics/byName", file=recorded_segments.log_directory("cluster-metadata") / SEGMENT.name)
    assert {"orders-j", "__share_group_state", "trio"} <= set(names.out.split())


def test_damage_names_file_and_position(tmp_path: pathlib.Path) -> None:
    data = SNAPSHOT.read_bytes()
    broken = tmp_path / SNAPSHOT.name
    broken.write_bytes(data[:-10])
    short = shell("ls", file=broken)
    assert (short.status, short.out) == (ExitStatus.FAILED, "")
    assert short.err.startswith(f"Error: {broken} is no complete snapshot: ")
    segment = tmp_path / SEGMENT.name
    log = bytearray(SEGMENT.read_bytes())
    segment.write_bytes(log[:-10])  # a truncated tail is the end of the log
    assert shell("ls", file=segment).out == "image\nlocal\n"
    log[2000] ^= 1
    segment.write_bytes(log)
    flipped = shell("ls", file=segment)
    assert (flipped.status, flipped.out) == (ExitStatus.FAILED, "")
    assert re.match(rf"Error: {re.escape(str(segment))}, position \d+: ", flipped.err)
    assert shell("ls", file=tmp_path / "none.checkpoint").err.startswith(
        f"Error: Cannot read {tmp_path}/none.checkpoint"
    )
    assert run_kt("metadata-shell", "--directory", str(tmp_path / "none"), "ls").status == ExitStatus.FAILED
    assert run_kt("metadata-shell", "ls").status == ExitStatus.USAGE


def test_completion_and_columns() -> None:
    loaded = load_file(str(SNAPSHOT), pytest.fail)
    one = Shell(Console.of_process(), root_node(loaded, "4.3.1", False), is_json=False)
    assert candidates(one, "c", "c") == ["cat ", "cd "]
    assert candidates(one, "ls /image/to", "/image/to") == ["/image/topics/"]
    one.run_line(["cd", "/image/topics"])
    assert candidates(one, "cat byName/o", "byName/o") == ["byName/orders/"]
    assert candidates(one, "cat byName/orders/n", "byName/orders/n") == ["byName/orders/name"]
    assert candidates(one, "pwd b", "b") == []
    names = ["a", "bb", "ccc", "d", "e"]
    assert in_columns(names, None) == names
    assert in_columns(names, 12) == ["a   ccc  e", "bb  d"]
    assert in_columns(names, 80) == ["a  bb  ccc  d  e"]


def test_a_terminal_has_completion_history_and_columns() -> None:
    """On a pseudo-terminal: the Tab key, Ctrl-C, the key Up and the end of the input."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "kafkatools", "metadata-shell", "--snapshot", str(SNAPSHOT)]
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "60"}
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environ, start_new_session=True)
    os.close(slave)

    def answer(text: bytes) -> str:
        """Type a text; return what the terminal shows until the next prompt."""
        os.write(master, text)
        shown = b""
        while not shown.endswith(b">> "):
            assert select.select([master], [], [], 30)[0], shown
            shown += os.read(master, 4096)
        return shown.decode().replace("\r\n", "\n")

    try:
        assert answer(b"").endswith("[ Kafka Metadata Shell ]\n>> ")
        assert "cd /image/\n" in answer(b"cd /ima\t\n")
        assert "acls          configs          producerIds  topics\n" in answer(b"ls\n")
        assert "cat topics/byName/orders/name\norders\n" in answer(b"cat topics/byN\torders/na\t\n")
        assert "\norders\n" in answer(b"\x1b[A\n")
        os.write(master, b"\x04")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_every_difference_is_documented() -> None:
    keys = {f"metadata-shell-{name}" for name in ("failures", "secrets", "quotas", "directory", "local")}
    assert keys <= transcripts.documented_keys()
