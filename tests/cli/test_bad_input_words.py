"""Command lines that cannot be carried out, files that cannot be read: one clear line, the right exit code."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.skipping_clock import FastClock

COMMANDS = (
    "topics",
    "console-producer",
    "console-consumer",
    "dump-log",
    "get-offsets",
    "sandbox",
    "server-start",
    "server-stop",
    "storage",
    "completion",
)


def refused(ran: Ran, status: int) -> str:
    """The line on stderr: the only one besides the hint."""
    besides = ("See kt", "Did you", "Add the port", "Processed a total")
    lines = [line for line in ran.err.splitlines() if not line.startswith(besides)]
    assert ran.status == status, ran.err
    assert "Traceback" not in ran.err and "internal error" not in ran.err
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option(command: str) -> None:
    assert "nonsense" in refused(run_kt(command, "--nonsense"), 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("topics", "--create", "--topic", "t", "--partitions", "many"), "'many'"),
        (("topics", "--list", "--bootstrap-server", "nowhere"), "Invalid url in bootstrap.servers: nowhere"),
        (("console-producer", "--topic", "t", "--batch-size", "big"), "'big'"),
        (("console-producer", "--topic", "t", "--request-required-acks", "7"), "acks"),
        (("console-producer", "--topic", "t", "--command-property", "linger.ms=abc"), "linger.ms"),
        (("console-producer", "--topic", "t", "--command-property", "no.such=1"), "no.such"),
        (("console-consumer", "--topic", "t", "--max-messages", "few"), "'few'"),
        (("console-consumer", "--topic", "t", "--isolation-level", "none"), "isolation.level"),
        (("console-consumer", "--topic", "t", "--command-property", "no.such=1"), "no.such"),
        (("console-consumer", "--include", "["), "invalid regex"),
        (("get-offsets", "--time", "yesterday"), "yesterday"),
        (("dump-log", "--files", "x.log", "--max-bytes", "all"), "'all'"),
        (("sandbox", "start", "--port", "any"), "'any'"),
        (("completion", "--shell", "tcsh"), "'tcsh'"),
        (("server-stop", "--node-id", "one"), "'one'"),
    ],
)
def test_a_wrong_value(arguments: tuple[str, ...], words: str) -> None:
    more = () if arguments[0] in ("dump-log", "sandbox", "completion", "server-stop") else ("--bootstrap-server", "h:1")
    if "--bootstrap-server" in arguments:
        more = ()
    assert words in refused(run_kt(*arguments, *more, stdin=b"a line\n"), 2)


FILE_OPTIONS = [
    ("topics", "--list", "--command-config"),
    ("get-offsets", "--command-config"),
    ("console-producer", "--topic", "t", "--command-config"),
    ("console-producer", "--topic", "t", "--reader-config"),
    ("console-consumer", "--topic", "t", "--command-config"),
    ("console-consumer", "--topic", "t", "--formatter-config"),
    ("storage", "info", "--config"),
    ("server-start",),
]


@pytest.mark.parametrize("arguments", FILE_OPTIONS, ids=" ".join)
def test_a_missing_file(tmp_path: pathlib.Path, arguments: tuple[str, ...]) -> None:
    path = str(tmp_path / "absent.properties")
    assert refused(run_kt(*arguments, path), 1).endswith(f"{path}: no such properties file")


@pytest.mark.parametrize("arguments", FILE_OPTIONS, ids=" ".join)
def test_a_directory_in_place_of_a_file(tmp_path: pathlib.Path, arguments: tuple[str, ...]) -> None:
    assert refused(run_kt(*arguments, str(tmp_path)), 1).endswith(f"{tmp_path}: Is a directory")


@pytest.mark.parametrize("arguments", FILE_OPTIONS, ids=" ".join)
def test_an_empty_name_of_a_file(arguments: tuple[str, ...]) -> None:
    assert refused(run_kt(*arguments, ""), 1).endswith("'': no such properties file")


def test_a_setting_that_no_client_has_is_warned_about(tmp_path: pathlib.Path) -> None:
    (tmp_path / "c.properties").write_text("security.protcol=SSL\ngroup.id=g\nacks=all\nkey.serializer=K\nmine=1\n")
    words = ("--bootstrap-server", "127.0.0.1:9", "--command-config", "c.properties")
    warnings = [
        "warning: c.properties: security.protcol is not a setting of a client. Did you mean security.protocol?",
        "warning: c.properties: mine is not a setting of a client",
    ]
    for command in (("topics", "--list"), ("cluster", "cluster-id")):
        ran = run_kt(*command, *words, cwd=tmp_path, clock=FastClock())
        assert (ran.status, ran.err.splitlines()[:2]) == (1, warnings)
        assert "warning" not in "".join(ran.err.splitlines()[2:])


PLACES = [
    ("[]", "Expected JSON object, received []", "plan.json"),
    (
        '{"partitions": [{"topic": "a", "partition": 0, "offset": 1, "replicas": [1]},'
        ' {"topic": "b", "partition": "0"}]}',
        'Expected `Integer` value, received "0"',
        'plan.json: entry 2 of "partitions"',
    ),
    ('{"partitions": [{"partition": 0}]}', "No such field exists: `topic`", 'plan.json: entry 1 of "partitions"'),
    ('{"partitions": {}}', "Expected JSON array, received {}", "plan.json"),
]


@pytest.mark.parametrize(
    "command",
    [
        ("delete-records", "--offset-json-file"),
        ("leader-election", "--election-type", "preferred", "--path-to-json-file"),
        ("reassign-partitions", "--verify", "--reassignment-json-file"),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize(("text", "complaint", "place"), PLACES)
def test_where_a_json_file_is_wrong(
    tmp_path: pathlib.Path, command: tuple[str, ...], text: str, complaint: str, place: str
) -> None:
    (tmp_path / "plan.json").write_text(text)
    ran = run_kt(*command, "plan.json", "--bootstrap-server", "127.0.0.1:9", cwd=tmp_path)
    assert (ran.status, ran.err.removeprefix("Error: ")) == (1, f"{complaint}\n{place}\n")


SEGMENT = "00000000000000000000.log"


@pytest.mark.parametrize(
    ("command", "status", "field"),
    [
        (("topics", "--create", "--topic", "LONG"), 1, "The field name has"),
        (("configs", "--alter", "--broker-defaults", "--add-config", "ssl.keystore.certificate.chain=LONG"), 1,
         "The field value has"),
        (("consumer-groups", "--describe", "--group", "LONG"), 1, "The field coordinator_keys has"),
        (("groups", "timeline", "LONG"), 2, "The name of the group has"),
    ],
    ids=["topic", "setting", "group", "timeline"],
)  # fmt: skip
def test_a_text_that_no_request_can_hold(bootstrap: str, command: tuple[str, ...], status: int, field: str) -> None:
    words = [word.replace("LONG", "z" * 40_000) for word in command]
    ran = run_kt(*words, "--bootstrap-server", bootstrap)
    assert f"{field} 40,000 bytes; a text in a request has at most 32,767" in refused(ran, status)
    assert not ran.out


def test_a_missing_segment(tmp_path: pathlib.Path) -> None:
    ran = run_kt("dump-log", "--files", str(tmp_path / SEGMENT))
    assert refused(ran, 1).endswith(f"{SEGMENT}: no such file")


def test_a_segment_that_may_not_be_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / SEGMENT
    path.write_bytes(b"")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    assert refused(run_kt("dump-log", "--files", str(path)), 1).endswith(f"{path}: Permission denied")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_a_file_that_fails_when_it_is_read() -> None:
    ran = run_kt("storage", "info", "--config", "/proc/self/mem")
    assert refused(ran, 1).endswith("/proc/self/mem: Input/output error")


def test_a_damaged_segment_is_named_and_the_rest_is_shown(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data") as bootstrap:
        for line in (b"first\n", b"second\n", b"third\n"):
            sent = run_kt("console-producer", "--bootstrap-server", bootstrap, "--topic", "t", stdin=line)
            assert sent.status == 0, sent.err
    damaged = tmp_path / SEGMENT
    shutil.copy(tmp_path / "data" / "t-0" / SEGMENT, damaged)
    data = bytearray(damaged.read_bytes())
    at = data.index(b"second")
    data[at] ^= 0xFF
    damaged.write_bytes(data)
    ran = run_kt("dump-log", "--print-data-log", "--files", str(damaged))
    assert ran.status == 3
    assert f"{damaged} at byte " in ran.err and "checksum" in ran.err
    assert "payload: first" in ran.out and "payload: third" in ran.out


def test_reading_to_the_end_of_a_topic_that_does_not_exist_does_not_make_it(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data") as bootstrap:
        ran = run_kt("console-consumer", "--bootstrap-server", bootstrap, "--topic", "typo", "--exit-at-end")
        assert refused(ran, 1) == "Topic typo does not exist"
        assert run_kt("topics", "--bootstrap-server", bootstrap, "--list").out == ""


def test_a_record_that_cannot_be_decoded_is_named(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data") as bootstrap:
        run_kt("console-producer", "--bootstrap-server", bootstrap, "--topic", "t", stdin=b"four\nlonger\nfour\n")
        ran = run_kt(
            *("console-consumer", "--bootstrap-server", bootstrap, "--topic", "t", "--from-beginning"),
            *("--exit-at-end", "--value-deserializer", "org.apache.kafka.common.serialization.IntegerDeserializer"),
        )
    assert ran.out == "1718580594\n"
    assert refused(ran, 1) == "Size of data received by IntegerDeserializer is not 4 (t-0 offset 1)"
    assert "Processed a total of 2 messages" in ran.err  # the failed one counts, as with Kafka's tool
