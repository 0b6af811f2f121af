"""Foreign text on a terminal: every command, with names, values, paths and error texts that try to drive it."""

import contextlib
import json
import pathlib
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, patient_completion, run_kt
from support.live_groups import ClassicMember
from support.scripted_broker import ScriptedBroker

from kafkatools import Producer
from kafkatools.commands import COMMANDS
from kafkatools.core.protocol.api_versions import ApiKey

EVIL = "a\x1b[31mb\x1b]0;owned\x07c\x9b2Jd\x7fe\rf\u202eg\u2028h\u200bi\nj!"
RAW = EVIL.encode() + b"\x9b31m\xff"
STYLE = re.compile(r"\x1b\[[0-9;]*m|\x1b\[[0-9;]*[ABCDGHJK]|\x1b\[\?(?:25|1049)[hl]")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")

PROPERTIES = (
    "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
    'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";\n'
)


def ensure_harmless(ran: Ran, *, as_json: bool) -> None:
    for stream in (ran.stdout, ran.stderr):
        text = stream.decode()  # raw bytes would not decode
        assert not CONTROL.search(STYLE.sub("", text)), text
        assert "\x1b[31mb" not in text and "\x1b[2J" not in text, text
        assert not any(line.startswith("j!") for line in text.splitlines()), text  # a line of its own
        if as_json:
            for line in text.splitlines():
                json.loads(line)


class Hostile:
    """A broker with hostile names and records, and one that refuses with a hostile reason."""

    def __init__(self, bootstrap: str, refusing: str, properties: str, files: pathlib.Path) -> None:
        self.bootstrap, self.refusing, self.properties, self.files = bootstrap, refusing, properties, files

    def cases(self) -> dict[str, list[list[str]]]:
        """Arguments that show something of the broker's, by command."""
        group = f"g{EVIL}"
        segment = str(self.files / "00000000000000000000.log")
        return {
            "topics": [["--list"], ["--describe"], ["--describe", "--topic", EVIL]],
            "console-producer": [["--topic", EVIL]],
            "console-consumer": [
                [
                    "--topic", "orders", "--from-beginning", "--exit-at-end", "--formatter-property", "print.key=true",
                    "--formatter-property", "print.headers=true",
                ],
                ["--topic", EVIL, "--from-beginning", "--exit-at-end"],
                ["--topic", "orders", "--from-beginning", "--exit-at-end", "--group", f"own{EVIL}"],
            ],
            "consumer-groups": [
                ["--list"], ["--list", "--state"], ["--describe", "--all-groups"], ["--describe", "--group", group],
                ["--describe", "--all-groups", "--members", "--verbose"], ["--describe", "--all-groups", "--state"],
                ["--reset-offsets", "--group", "nobody" + EVIL, "--topic", "orders", "--to-earliest", "--dry-run"],
                ["--delete", "--group", "nobody" + EVIL],
            ],
            "groups": [["--list"]],
            "share-groups": [["--list"], ["--describe", "--group", group]],
            "transactions": [["list"], ["describe", "--transactional-id", f"t{EVIL}"]],
            "get-offsets": [["--topic", EVIL], ["--topic-partitions", EVIL]],
            "delete-records": [["--offset-json-file", str(self.files / f"no{EVIL}")]],
            "reassign-partitions": [["--verify", "--reassignment-json-file", str(self.files / f"no{EVIL}")]],
            "log-dirs": [["--describe"], ["--describe", "--topic-list", EVIL]],
            "leader-election": [["--election-type", "preferred", "--topic", EVIL, "--partition", "0"]],
            "cluster": [["cluster-id"], ["list-endpoints"]],
            "broker-api-versions": [[]],
            "metadata-quorum": [["describe", "--status"]],
            "features": [["describe"], ["upgrade", "--feature", f"{EVIL}=1"]],
            "dump-log": [
                ["--files", segment, "--print-data-log"], ["--files", segment, "--deep-iteration"],
                ["--files", str(self.files)], ["--files", str(self.files / f"no{EVIL}")],
            ],
            "configs": [
                ["--describe", "--entity-type", "users"], ["--describe", "--entity-type", "clients"],
                ["--describe", "--entity-type", "topics", "--entity-name", EVIL],
                ["--alter", "--entity-type", "topics", "--entity-name", "orders", "--add-config", f"{EVIL}=1"],
            ],
            "acls": [["--list"], ["--remove", "--topic", "orders"]],
            "doctor": [[], ["--topic", EVIL]],
            "monitor": [["--once"]],
            "completion": [["bash"]],
            "consumer-perf-test": [["--topic", EVIL, "--num-records", "1", "--timeout", "500"]],
            "producer-perf-test": [["--topic", EVIL, "--num-records", "1", "--record-size", "1", "--throughput", "-1"]],
            "e2e-latency": [["--topic", EVIL, "--num-records", "1", "--record-size", "1", "--producer-acks", "1"]],
            "verifiable-producer": [["--topic", EVIL, "--max-messages", "1"]],
            "replica-verification": [["--exit-at-end"], ["--exit-at-end", "--topics-include", f"({EVIL}"]],
            "delegation-tokens": [["--describe", "--owner-principal", f"User:{EVIL}"]],
            "storage": [["info", "-c", str(self.files / f"no{EVIL}")], ["random-uuid"]],
            "server-start": [[str(self.files / f"no{EVIL}")]],
            "sandbox": [["start", "--dir", str(self.files / "00000000000000000000.log")]],
        }  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    directory = tmp_path_factory.mktemp("hostile")
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "num.partitions": "1",
    }
    refusing = ScriptedBroker()
    refusing.answers[ApiKey.SASL_HANDSHAKE] = lambda header, request: {"error_code": 0, "mechanisms": ("PLAIN",)}
    refusing.answers[ApiKey.SASL_AUTHENTICATE] = _refuse
    with contextlib.ExitStack() as stack:
        bootstrap = stack.enter_context(embedded_broker(directory / "data", **settings))
        stack.enter_context(refusing.in_background())
        _fill(bootstrap)
        member = stack.enter_context(ClassicMember(bootstrap, EVIL, f"g{EVIL}", {"orders": [0]}, f"i{EVIL}"))
        member.commit_own({("orders", 0): 1})
        files = directory / f"dir{EVIL}"
        shutil.copytree(directory / "data" / "orders-0", files)
        properties = directory / "client.properties"
        properties.write_text(PROPERTIES)
        yield Hostile(bootstrap, refusing.bootstrap, str(properties), files)


def _refuse(header: Any, request: Any) -> dict[str, Any]:
    return {"error_code": 58, "error_message": f"no {EVIL}", "auth_bytes": b"", "session_lifetime": 0}


def _fill(bootstrap: str) -> None:
    def kt(*arguments: str) -> None:
        assert run_kt(arguments[0], "--bootstrap-server", bootstrap, *arguments[1:]).status == 0, arguments

    kt("topics", "--create", "--topic", "orders")
    for kind in ("users", "clients"):
        quota = ("--entity-type", kind, "--entity-name", EVIL, "--add-config", "producer_byte_rate=9e9")
        kt("configs", "--alter", *quota)
    kt("acls", "--add", "--topic", "orders", "--operation", "Read", "--allow-principal", f"User:{EVIL}")
    with Producer({"bootstrap.servers": bootstrap, "transactional.id": f"t{EVIL}"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", key=RAW, value=RAW, headers=[(f"h{EVIL}", RAW)])
        producer.commit_transaction()


def _with_server(command: str, address: str, arguments: list[str]) -> list[str]:
    if command in ("dump-log", "completion", "storage", "server-start", "sandbox"):
        return [command, *arguments]
    if command in ("cluster", "metadata-quorum", "features", "transactions"):
        server = ["--bootstrap-server", address]
        place = 0 if command != "cluster" else 1
        return [command, *arguments[:place], *server, *arguments[place:]]
    return [command, "--bootstrap-server", address, *arguments]


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("command", COMMANDS)
def test_names_and_values_of_a_hostile_cluster(hostile: Hostile, command: str, as_json: bool) -> None:
    for arguments in hostile.cases().get(command, []):
        line = _with_server(command, hostile.bootstrap, arguments)
        ran = run_kt(*line, *(["--json"] if as_json else []), terminal=True, stdin=b"n\n")
        ensure_harmless(ran, as_json=as_json)
        assert ran.stdout or ran.stderr or command in ("completion", "share-groups"), arguments


@pytest.mark.parametrize("command", COMMANDS)
def test_hostile_arguments(command: str, tmp_path: pathlib.Path) -> None:
    """In a directory of its own: `kt shims` makes one of that name."""
    for arguments in ([EVIL], [f"--{EVIL}"], ["--bootstrap-server", EVIL, f"--no{EVIL}"], [f"--files={EVIL}"]):
        ensure_harmless(run_kt(command, *arguments, terminal=True, cwd=tmp_path), as_json=False)
        ensure_harmless(run_kt(command, *arguments, "--json", terminal=True, cwd=tmp_path), as_json=True)


REFUSED: dict[str, list[str]] = {
    "topics": ["--list"],
    "consumer-groups": ["--list"],
    "doctor": [],
    "get-offsets": [],
    "console-producer": ["--topic", "orders"],
    "console-consumer": ["--topic", "orders", "--timeout-ms", "5000"],
    "log-dirs": ["--describe"],
    "monitor": ["--once"],
}


@pytest.mark.parametrize("debug", ["0", "1"])
@pytest.mark.parametrize("command", REFUSED)
def test_refusal_of_a_hostile_server(hostile: Hostile, command: str, debug: str) -> None:
    line = _with_server(command, hostile.refusing, [*REFUSED[command], "--command-config", hostile.properties])
    ran = run_kt(*line, terminal=True, stdin=b"x\n", environ={"KT_DEBUG": debug})
    ensure_harmless(ran, as_json=False)
    assert b"\\x1b[31mb" in ran.stdout + ran.stderr


def test_the_same_bytes_in_a_pipe(hostile: Hostile) -> None:
    ran = run_kt(
        "console-consumer", "--bootstrap-server", hostile.bootstrap, "--topic", "orders", "--from-beginning",
        "--exit-at-end",
    )  # fmt: skip
    assert ran.stdout == RAW + b"\n"


def test_json_in_a_pipe_is_escaped_and_reads_back(hostile: Hostile) -> None:
    ran = run_kt("consumer-groups", "--bootstrap-server", hostile.bootstrap, "--list", "--json")
    assert not CONTROL.search(ran.out)
    assert f"g{EVIL}" in [json.loads(line)["group"] for line in ran.out.splitlines()]


def test_completions_leave_out_names_that_would_drive_the_terminal(hostile: Hostile, tmp_path: pathlib.Path) -> None:
    kt_home = {"KT_HOME": str(tmp_path)}
    ran = run_kt("consumer-groups", "--bootstrap-server", hostile.bootstrap, "--list")
    assert ran.out.count("owned") >= 1
    for kind in ("--groups", "--topics"):
        for _ in range(2):  # the second time from the cache
            with patient_completion():
                ran = run_kt("completion", kind, "--bootstrap-server", hostile.bootstrap, environ=kt_home)
            assert ran.status == 0 and b"owned" not in ran.stdout
    assert b"orders\n" in ran.stdout
