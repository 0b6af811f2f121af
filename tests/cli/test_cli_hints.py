"""The hint that solves an error stands below it, and what people write is understood."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support import recorded_segments
from support.embedded import embedded_broker
from support.kt import Ran, run_kt

from kafkatools import __version__
from kafkatools.core.kernels import KERNELS
from kafkatools.core.records import kernel


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("hints"), group_initial_rebalance_delay_ms="0") as address:
        yield address


def kt(bootstrap: str, *words: str, stdin: bytes = b"", terminal: bool = False) -> Ran:
    return run_kt(*words, "--bootstrap-server", bootstrap, stdin=stdin, terminal=terminal)


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("localhost", "localhost:9092"),
        ("broker.example", "broker.example:9092"),
        ("a:9092,localhost", "localhost:9092"),
        ("::1:9092", "[::1]:9092"),
        ("localhost:abc", "HOST:PORT"),
        ("localhost:0", "HOST:PORT"),
        (":9092", "HOST:PORT"),
        ("localhost:", "Add the port of the broker: Kafka's default is localhost:9092"),
        ("[::1]", "Add the port of the broker: Kafka's default is [::1]:9092"),
        ("[::1]:", "Add the port of the broker: Kafka's default is [::1]:9092"),
    ],
)
def test_an_address_that_cannot_be_read_is_shown_how_it_is_written(address: str, hint: str) -> None:
    for words in (("topics", "--list"), ("get-offsets",), ("console-producer", "--topic", "t"), ("doctor",)):
        ran = kt(address, *words)
        assert ran.status == 2
        lines = ran.err.splitlines()
        assert "Invalid url in bootstrap.servers: " in lines[0]
        assert hint in lines[1]
    error = json.loads(kt(address, "topics", "--list", "--json").err)["error"]
    assert hint in error["hint"]


def test_an_empty_list_of_brokers_is_named() -> None:
    for address in ("", " , "):
        ran = kt(address, "topics", "--list")
        assert ran.status == 2
        assert "The list of brokers is empty: write HOST:PORT" in ran.err.splitlines()[1]


def test_kt_version_says_whether_the_kernels_are_compiled() -> None:
    row = json.loads(run_kt("version", "--json").out)
    assert (row["compiled_kernels"] > 0) == kernel.COMPILED
    assert row["kernels"] == len(KERNELS)
    assert ("kernels: compiled)" in run_kt("version").out) == (row["compiled_kernels"] == row["kernels"])
    assert "kernels: not compiled, slower)" in run_kt("version", environ={"KT_PURE_PYTHON": "1"}).out


def test_kt_version_is_the_version() -> None:
    assert run_kt("version").out == run_kt("--version").out
    assert __version__ in run_kt("version").out
    row = json.loads(run_kt("version", "--json").out)
    assert (row["version"], row["kafka_version"]) == (__version__, "4.3.1")
    for words in (("version", "--verbose"), ("--version", "topics"), ("version", "--json", "x")):
        ran = run_kt(*words)
        assert (ran.status, ran.out) == (2, "")
        assert f"Unexpected argument '{words[-1]}'" in ran.err
    assert "Did you mean kt version?" in run_kt("Version").err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--json", "topics", "--list"), "--json belongs after the command: kt topics --json ..."),
        (
            ("--bootstrap-server", "localhost:9092", "get-offsets"),
            "--bootstrap-server belongs after the command: kt get-offsets --bootstrap-server ...",
        ),
        (
            ("--bootstrap-server=localhost:9092", "topics", "--list"),
            "--bootstrap-server belongs after the command: kt topics --bootstrap-server ...",
        ),
    ],
)
def test_an_option_for_behind_the_command_is_told_where_it_stands(words: tuple[str, ...], hint: str) -> None:
    ran = run_kt(*words)
    assert (ran.status, ran.out) == (2, "")
    assert hint in ran.err
    assert "stands behind" not in run_kt("--frob", "topics").err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("backup", "/archive/kafka"), "Did you mean --to /archive/kafka?"),
        (("restore", "/archive/kafka"), "Did you mean --from /archive/kafka?"),
        (("console-producer", "orders"), "Did you mean --topic orders?"),
        (("undo", "--list"), "Did you mean kt undo list?"),
        (("export", "--from", "topic:orders"), "The source is an argument: kt export topic:orders"),
        (("sandbox",), "Write a subcommand: start, status"),
        (("topics", "--create", "--topic", "t", "--replica-assignment", "a:1"), "--replica-assignment takes"),
        (("log-dirs", "--describe", "--broker-list", "1,a"), "--broker-list takes broker ids"),
        (
            ("reassign-partitions", "--generate", "--topics-to-move-json-file", "{}", "--broker-list", "a"),
            "--broker-list takes broker ids",
        ),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_what_a_new_user_writes_is_answered_with_the_form(
    bootstrap: str, words: tuple[str, ...], hint: str, tmp_path: pathlib.Path
) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text('{"version":1,"topics":[{"topic":"t"}]}')
    servers = ("--bootstrap-server", bootstrap) if words[0] in ("topics", "log-dirs", "reassign-partitions") else ()
    ran = run_kt(*(word.format(topics) if word == "{}" else word for word in words), *servers)
    assert ran.status == 2
    assert ran.err.splitlines()[1].startswith(hint), ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "--create", "--topic"),
        ("console-consumer", "--exit-at-end", "--from-beginning", "--topic"),
        ("consumer-groups", "--describe", "--group"),
        ("configs", "--alter", "--topic", "t", "--add-config"),
        ("producer-perf-test", "--num-records", "1", "--record-size", "1", "--throughput", "-1", "--topic"),
        ("console-producer", "--topic", "t", "--transactional-id"),
    ],
    ids=lambda words: words[0],
)
def test_a_value_that_is_not_utf_8_is_named_by_its_option(bootstrap: str, words: tuple[str, ...]) -> None:
    """As Python decodes the byte 0xff of a command line: to U+DCFF."""
    ran = kt(bootstrap, *words, "retention.ms=\udcff" if words[-1] == "--add-config" else "orders\udcff")
    assert (ran.status, ran.out) == (2, "")
    error, page = ran.err.splitlines()[-2:]
    assert error.endswith(f"The value of {words[-1]} is not UTF-8 text, as brokers need it: byte 0xff")
    assert page == f"See kt {words[0]} --help."


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("timeline", "Did you mean kt groups timeline?"),
        ("run", "Did you mean kt reassign-partitions run or kt pipeline run?"),
    ],
)
def test_a_subcommand_without_its_command_is_named(word: str, hint: str) -> None:
    ran = run_kt(word)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.splitlines()[1].startswith(hint)


def test_an_action_without_its_hyphens_is_named() -> None:
    assert "Did you mean --list?" in run_kt("topics", "list").err


def test_a_missing_scenario_of_a_reset_is_shown_in_an_example() -> None:
    ran = run_kt("consumer-groups", "--reset-offsets", "--group", "g", "--topic", "t", "--dry-run")
    assert ran.status == 2
    assert re.fullmatch(r"For example: kt consumer-groups --reset-offsets .*--dry-run", ran.err.splitlines()[1])


def test_an_unknown_choice_of_the_sandbox_is_refused(tmp_path: pathlib.Path) -> None:
    ran = run_kt("topics", "--list", environ={"KT_SANDBOX": "quite", "KT_HOME": str(tmp_path)})
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("KT_SANDBOX is 'quite': set it to off, quiet or on")
    assert not list(tmp_path.iterdir())


def test_a_quoted_jaas_entry_and_an_unformatted_directory_have_a_hint(tmp_path: pathlib.Path) -> None:
    settings = tmp_path / "client.properties"
    entry = "org.apache.kafka.common.security.plain.PlainLoginModule required username='u' password='p';"
    settings.write_text(f'security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="{entry}"\n')
    settings.chmod(0o600)
    ran = kt("localhost:1", "topics", "--list", "--command-config", str(settings))
    assert ran.status == 2
    assert ran.err.splitlines()[1].startswith("Write the value of sasl.jaas.config without quotes around all of it.")
    server = tmp_path / "server.properties"
    server.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=C\n"
        "listeners=PLAINTEXT://127.0.0.1:0,C://127.0.0.1:9\ncontroller.quorum.voters=1@127.0.0.1:9\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )
    ran = run_kt("server-start", str(server))
    assert ran.status == 1
    assert "kt storage format --config FILE" in ran.err.splitlines()[1]


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "--list", "--profile", "prod"),
        ("topics", "--list", "--profile=prod"),
        ("cluster", "cluster-id", "--profile", "prod"),
        ("sandbox", "status", "--confirm", "prod"),
        ("reassign-partitions", "plan", "--profile", "prod"),
    ],
)
def test_an_option_for_in_front_of_the_command_is_told_where_it_stands(words: tuple[str, ...]) -> None:
    name = next(word for word in words if word.startswith(("--profile", "--confirm"))).partition("=")[0]
    ran = run_kt(*words)
    assert (ran.status, ran.out) == (2, "")
    assert f"{name} belongs before the command: kt {name} NAME" in ran.err


@pytest.mark.parametrize("words", [("--create",), ("--create", "--partitions", "3"), ("--delete",)])
def test_a_missing_topic_is_shown_in_an_example(words: tuple[str, ...]) -> None:
    ran = run_kt("topics", *words)
    assert ran.status == 2
    error, example, page = ran.err.splitlines()
    assert error == 'Missing required argument "[topic]"'
    assert re.fullmatch(rf"For example: kt topics {words[0]} --topic .*", example)
    assert page == "See kt topics --help."


def test_acls_without_an_authorizer_name_a_command_that_starts_a_sandbox_with_one(
    bootstrap: str, tmp_path: pathlib.Path
) -> None:
    ran = kt(bootstrap, "acls", "--list")
    assert ran.status == 1
    error, hint = ran.err.splitlines()
    assert "No Authorizer is configured" in error
    command = hint.partition(" && kt ")[2].split()
    environ = {"KT_HOME": str(tmp_path), "KT_SANDBOX": "quiet"}
    try:
        assert run_kt(*command, "--port", "0", environ=environ).status == 0
        add = ("acls", "--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t")
        assert run_kt(*add, environ=environ).status == 0
        assert "User:a" in run_kt("acls", "--list", environ=environ).out
    finally:
        run_kt("sandbox", "stop", environ=environ)


def test_settings_with_units_reach_the_broker_as_numbers(bootstrap: str) -> None:
    create = ("topics", "--create", "--topic", "units", "--config", "retention.ms=1h", "--config", "segment.bytes=1MiB")
    made = kt(bootstrap, *create)
    assert made.status == 0
    assert [line.split("=")[0] for line in made.err.splitlines()] == ["retention.ms", "segment.bytes"]
    described = kt(bootstrap, "configs", "--describe", "--topic", "units").out
    assert f"retention.ms={60 * 60 * 1000} " in described and f"segment.bytes={1024 * 1024} " in described
    altered = kt(bootstrap, "configs", "--alter", "--topic", "units", "--add-config", "retention.ms=2d", "--json")
    assert altered.status == 0
    assert f"retention.ms={2 * 24 * 60 * 60 * 1000} " in kt(bootstrap, "configs", "--describe", "--topic", "units").out
    for words in (
        ("topics", "--create", "--topic", "wrong", "--config", "retention.ms=1y"),
        ("configs", "--alter", "--topic", "units", "--add-config", "retention.ms=1y"),
    ):
        refused = kt(bootstrap, *words)
        assert refused.status == 1
        assert "Invalid value 1y for configuration retention.ms" in refused.err.splitlines()[0]
        assert "ms, s, m, h, d or w" in refused.err.splitlines()[1]
    negative = kt(bootstrap, "topics", "--create", "--topic", "wrong", "--config", "retention.ms=-2h")
    assert "Invalid value -2h for configuration retention.ms: negative with a unit" in negative.err
    assert "wrong" not in kt(bootstrap, "topics", "--list").out


@pytest.fixture(scope="module")
def group(bootstrap: str) -> str:
    """A group that has read 3 of 5 records."""
    assert kt(bootstrap, "topics", "--create", "--topic", "read").status == 0
    assert kt(bootstrap, "console-producer", "--topic", "read", stdin=b"1\n2\n3\n4\n5\n").status == 0
    words = ("--topic", "read", "--group", "readers", "--from-beginning", "--max-messages", "3")
    assert kt(bootstrap, "console-consumer", *words).status == 0
    return "readers"


def reset(bootstrap: str, group: str, *words: str, terminal: bool = False) -> Ran:
    command = ("consumer-groups", "--reset-offsets", "--group", group, "--topic", "read", *words)
    return kt(bootstrap, *command, terminal=terminal)


@pytest.mark.parametrize(
    ("target", "new", "difference"),
    [("--to-earliest", "0", "-3"), ("--to-latest", "5", "+2"), ("--to-current", "3", "0")],
)
def test_a_dry_run_shows_current_new_and_difference(
    bootstrap: str, group: str, target: str, new: str, difference: str
) -> None:
    shown = reset(bootstrap, group, target, "--dry-run", terminal=True).out.split("\n")
    titles, cells = (line.split() for line in shown if line.strip())
    row = dict(zip(titles, cells, strict=True))
    assert (row["CURRENT-OFFSET"], row["NEW-OFFSET"], row["DIFFERENCE"]) == ("3", new, difference)
    line = json.loads(reset(bootstrap, group, target, "--dry-run", "--json").out)
    assert (line["current_offset"], line["offset"], line["difference"]) == (3, int(new), int(difference))
    assert line["executed"] is False
    plain = reset(bootstrap, group, target, "--dry-run").out.split()
    assert plain == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET", group, "read", "0", new]


def test_a_dry_run_of_a_group_that_does_not_exist_says_so(bootstrap: str, group: str) -> None:
    ran = reset(bootstrap, "typo", "--to-earliest", "--dry-run", terminal=True)
    assert "Group 'typo' does not exist" in ran.err
    titles, cells = (line.split() for line in ran.out.split("\n") if line.strip())
    assert dict(zip(titles, cells, strict=True))["CURRENT-OFFSET"] == "-"
    assert "does not exist" not in reset(bootstrap, group, "--to-earliest", "--dry-run").err
    words = ("consumer-groups", "--reset-offsets", "--group", "typo", "--all-topics", "--to-earliest", "--dry-run")
    assert "Group 'typo' does not exist: there are no offsets to reset" in kt(bootstrap, *words).err
    assert "typo" not in kt(bootstrap, "consumer-groups", "--list").out


def test_what_a_dry_run_writes_in_json_is_taken_back(bootstrap: str, group: str, tmp_path: pathlib.Path) -> None:
    plan = tmp_path / "plan.jsonl"
    plan.write_bytes(reset(bootstrap, group, "--to-current", "--dry-run", "--json").stdout)
    words = ("consumer-groups", "--reset-offsets", "--group", group, "--from-file", str(plan), "--dry-run")
    assert kt(bootstrap, *words).out.split()[-1] == "3"


@pytest.mark.slow
def test_durations_are_iso_or_a_number_with_a_unit(bootstrap: str, group: str) -> None:
    for duration in ("2h", "PT2H", "1d12h", "90m"):
        assert reset(bootstrap, group, "--by-duration", duration, "--dry-run").out.split()[-1] == "0"
    for duration in ("2x", "2", "", "h"):
        ran = reset(bootstrap, group, f"--by-duration={duration}", "--dry-run")
        assert (ran.status, ran.out) == (2, "")
        error, hint = ran.err.splitlines()
        assert error.endswith("Text cannot be parsed to a Duration")
        assert "PT2H or 2h" in hint


def test_a_directory_of_a_log_is_dumped_file_by_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "notes.txt").write_text("a line\n")
    missing = run_kt("dump-log", "--files", str(tmp_path / "typo"))
    path = tmp_path / "typo"
    assert missing.err == f"Ignoring unknown file {path}\n{path}: no such file or directory\n"
    assert "no such file" not in run_kt("dump-log", "--files", str(tmp_path / "notes.txt")).err
    empty = run_kt("dump-log", "--files", str(tmp_path))
    assert empty.status == 1
    assert "no segments, indexes or snapshots in this directory" in empty.err
    segment = tmp_path / "t-0" / "00000000000000000000.log"
    segment.parent.mkdir()
    segment.write_bytes(b"")
    ran = run_kt("dump-log", "--files", str(tmp_path))
    assert (ran.status, ran.err) == (0, "")
    assert "t-0" in ran.out and "notes.txt" not in ran.out


def test_a_misspelt_topic_config_gets_a_suggestion(bootstrap: str) -> None:
    assert kt(bootstrap, "topics", "--create", "--topic", "configured").status == 0
    alter = ("configs", "--alter", "--topic", "configured", "--add-config", "retention=1h")
    create = ("topics", "--create", "--topic", "other", "--config", "retention=1h")
    for words in (alter, create):
        ran = kt(bootstrap, *words)
        assert ran.status == 1
        assert "Unknown topic config name: retention" in ran.err.splitlines()[0]
        assert ran.err.splitlines()[1].startswith("Did you mean retention.bytes or retention.ms?")
        error = json.loads(kt(bootstrap, *words, "--json").err.splitlines()[-1])["error"]
        assert (error["kind"], error["exit"]) == ("INVALID_CONFIG", 1)
        assert "retention.ms" in error["hint"]
    ran = kt(bootstrap, "configs", "--alter", "--topic", "configured", "--add-config", "no.such=1")
    assert "Did you mean" not in ran.err


def test_a_misspelt_mechanism_gets_a_suggestion(bootstrap: str) -> None:
    ran = kt(bootstrap, "configs", "--alter", "--user", "a", "--add-config", "SCRAM-SHA256=[password=Tr0ub4dor&3]")
    assert ran.status == 2 and "Did you mean SCRAM-SHA-256?" in ran.err
    assert "Tr0ub" not in ran.err


def test_a_misspelt_operation_is_named(bootstrap: str) -> None:
    words = ("acls", "--add", "--allow-principal", "User:a", "--topic", "t", "--operation", "Raed")
    ran = kt(bootstrap, *words)
    assert ran.status == 2
    assert "Raed is not among them. Did you mean READ?" in ran.err


def test_the_kind_of_an_error_is_kafkas_name(bootstrap: str) -> None:
    ran = kt(bootstrap, "topics", "--describe", "--topic", "nosuch", "--json")
    error = json.loads(ran.err)["error"]
    assert (error["kind"], error["exit"]) == ("UNKNOWN_TOPIC_OR_PARTITION", 1)
    ran = kt(bootstrap, "console-producer", "--topic", "lines", "--json", stdin=b"nothing\n")
    errors = [json.loads(line)["error"] for line in ran.err.splitlines() if '"error"' in line]
    assert ("MALFORMED_LINE", 1) in [(error["kind"], error.get("exit")) for error in errors]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("delete-records", "--all"), "--all needs --topic"),
        (("delete-records", "--before", "5"), "--before needs --topic"),
        (("log-dirs", "--top", "3"), "--top needs --sizes"),
        (("count", "orders"), "Invalid source 'orders': write topic:orders"),
        (("diff", "/var/lib/kafka", "topic:a"), "Invalid source '/var/lib/kafka': write log:/var/lib/kafka"),
    ],
)
def test_what_is_missing_is_named(words: tuple[str, ...], line: str) -> None:
    ran = run_kt(*words, environ={"KT_SANDBOX": "off"})
    assert (ran.status, ran.err.splitlines()[0]) == (2, line)


def test_a_value_without_its_option() -> None:
    assert "Did you mean --shell bash?" in run_kt("completion", "bash").err


def test_full_stdout_is_not_blamed_on_the_dumped_file(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "kafkatools", "dump-log", "--print-data-log", "--files"]
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [*command, str(recorded_segments.log_directory("multi-segment"))], stdout=full, stderr=subprocess.PIPE,
            check=False, timeout=60,
        )  # fmt: skip
    assert ran.returncode == 1
    assert ".log: No space" not in ran.stderr.decode() and "No space left on device" in ran.stderr.decode()
