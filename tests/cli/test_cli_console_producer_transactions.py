"""kt console-producer in transactions, an option of ours: portions, failures, Ctrl-C, another producer of the name."""

from __future__ import annotations

import json
import pathlib
import signal
import time
from collections.abc import Iterator

import pytest
from support.kt import Ran, run_kt
from support.kt_process import BrokerProcess, error_lines, start_kt

from kafkatools.core.config import PRODUCER, Config
from kafkatools.core.producer.producer import Producer

pytestmark = pytest.mark.processes

SUMMARY = "{} sent, {} failed, {} aborted"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("transactional"))
    broker.start()
    yield broker
    broker.stop()


def produce(server: BrokerProcess, topic: str, *options: str, stdin: bytes) -> Ran:
    return run_kt(
        *("console-producer", "--bootstrap-server", server.bootstrap, "--topic", topic),
        *("--transactional-id", topic, *options),
        stdin=stdin,
    )


def committed(server: BrokerProcess, topic: str) -> list[str]:
    ran = run_kt(
        *("console-consumer", "--bootstrap-server", server.bootstrap, "--topic", topic),
        *("--from-beginning", "--exit-at-end", "--isolation-level", "read_committed"),
    )
    return ran.out.splitlines()


@pytest.mark.parametrize(
    "mode", [(), ("--sync",), ("--reader-property", "parse.key=true")], ids=["rows", "sync", "keys"]
)
@pytest.mark.parametrize("portion", [0, 1, 7, 1000])
def test_every_line_is_committed(server: BrokerProcess, mode: tuple[str, ...], portion: int) -> None:
    topic = f"all-{len(mode)}-{portion}-{len(''.join(mode))}"
    lines = [f"k\tline {number}" for number in range(20)]
    ran = produce(server, topic, "--transaction-records", str(portion), *mode, stdin="\n".join(lines).encode())
    assert (ran.status, ran.err) == (0, SUMMARY.format(20, 0, 0) + "\n")
    wanted = [line.partition("\t")[2] for line in lines] if "parse.key=true" in mode else lines
    assert committed(server, topic) == wanted


def test_an_empty_input_commits_nothing(server: BrokerProcess) -> None:
    ran = produce(server, "empty", stdin=b"")
    assert (ran.status, ran.err) == (0, SUMMARY.format(0, 0, 0) + "\n")


def test_a_malformed_line_aborts_the_transaction_that_is_open(server: BrokerProcess) -> None:
    lines = b"a:1\nb:2\nc:3\nno separator\nd:4\n"
    keys = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    ran = produce(server, "malformed", "--transaction-records", "2", *keys, stdin=lines)
    assert ran.status == 1
    assert ran.err.splitlines() == [
        "No key separator found on line number 4: 'no separator'",
        "Transaction aborted: record 3 is not committed; the 2 before are committed",
        SUMMARY.format(2, 0, 1),
    ]
    assert committed(server, "malformed") == ["1", "2"]


def test_a_record_that_fails_aborts_the_transaction_that_is_open(server: BrokerProcess) -> None:
    small = run_kt(
        *("topics", "--create", "--topic", "small", "--config", "max.message.bytes=500"),
        *("--bootstrap-server", server.bootstrap),
    )
    assert small.status == 0
    lines = [b"1", b"2", b"3", b"x" * 600, b"5"]
    ran = produce(server, "small", "--transaction-records", "2", "--batch-size", "0", stdin=b"\n".join(lines))
    assert ran.status == 1
    told = ran.err.splitlines()
    assert told[0].startswith("Error when sending message to topic small with key: null, value: 600 bytes with error:")
    assert told[-2].startswith("Transaction aborted: records 3 to 4 are not committed; the 2 before are committed")
    assert told[-1] == SUMMARY.format(2, 1, 1)
    assert committed(server, "small") == ["1", "2"]


def test_json_counts_what_was_aborted(server: BrokerProcess) -> None:
    ran = produce(server, "json", "--json", stdin=b'{"value": "a"}\n{"value": "b"}\nnot json\n')
    assert ran.status == 1
    assert json.loads(ran.out) == {"sent": 0, "failed": 0, "aborted": 2}
    told = [json.loads(line)["error"] for line in ran.err.splitlines()[:-1]]
    assert told[-1]["kind"] == "ABORTED"
    assert told[-1]["message"] == "Transaction aborted: records 1 to 2 are not committed"


def test_the_properties_turn_transactions_on_as_well(server: BrokerProcess) -> None:
    ran = run_kt(
        *("console-producer", "--bootstrap-server", server.bootstrap, "--topic", "property"),
        *("--command-property", "transactional.id=property", "--transaction-records", "2"),
        stdin=b"1\n2\n3\n",
    )
    assert (ran.status, ran.err) == (0, SUMMARY.format(3, 0, 0) + "\n")
    assert committed(server, "property") == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--transaction-records", "5"), "--transaction-records needs --transactional-id"),
        (
            ("--transactional-id", "x", "--transaction-records", "-1"),
            "--transaction-records must be 0 or more, not -1",
        ),
        (
            ("--transactional-id", "x", "--command-property", "transactional.id=y"),
            "--transactional-id is x, but the property transactional.id is y",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(options: tuple[str, ...], words: str) -> None:
    ran = run_kt("console-producer", "--bootstrap-server", "127.0.0.1:1", "--topic", "t", *options)
    assert ran.status == 2
    assert words in ran.err


def test_a_setting_that_contradicts_transactions_is_refused() -> None:
    ran = run_kt(
        *("console-producer", "--bootstrap-server", "127.0.0.1:1", "--topic", "t", "--transactional-id", "x"),
        *("--request-required-acks", "1"),
    )
    assert ran.status != 0
    assert ran.err == "Cannot set a transactional.id without also enabling idempotence.\n"


def test_ctrl_c_aborts_the_open_transaction(tmp_path: pathlib.Path, server: BrokerProcess) -> None:
    producer = start_kt(
        tmp_path,
        *("console-producer", "--bootstrap-server", server.bootstrap, "--topic", "broken", "--timeout", "0"),
        *("--transactional-id", "broken", "--transaction-records", "2"),
    )
    assert producer.stdin is not None
    producer.stdin.write(b"1\n2\n3\n")
    producer.stdin.flush()
    server.wait_for_bytes("broken", 200)  # two batches and the marker between them
    producer.send_signal(signal.SIGINT)
    _, stderr = producer.communicate(timeout=30)
    assert producer.returncode == 130
    assert error_lines(stderr) == [
        "Transaction aborted: record 3 is not committed; the 2 before are committed",
        SUMMARY.format(2, 0, 1),
    ]
    assert committed(server, "broken") == ["1", "2"]


def test_a_second_producer_of_the_name_ends_the_first(tmp_path: pathlib.Path, server: BrokerProcess) -> None:
    first = start_kt(
        tmp_path,
        *("console-producer", "--bootstrap-server", server.bootstrap, "--topic", "fenced", "--timeout", "0"),
        *("--transactional-id", "fenced"),
    )
    assert first.stdin is not None
    first.stdin.write(b"1\n")
    first.stdin.flush()
    server.wait_for_bytes("fenced", 60)
    settings = {"bootstrap.servers": server.bootstrap, "transactional.id": "fenced"}
    with Producer(Config(PRODUCER, settings)) as second:
        second.init_transactions()
    _, stderr = first.communicate(b"2\n", timeout=30)
    assert first.returncode == 1
    told = error_lines(stderr)
    assert "Transaction aborted: records 1 to 2 are not committed" in told
    assert any("fenced" in line or "old epoch" in line for line in told)
    assert told[-1].startswith("0 sent, ")
    assert committed(server, "fenced") == []


def test_a_broker_that_dies_is_told_within_seconds(tmp_path: pathlib.Path) -> None:
    broker = BrokerProcess(tmp_path / "dying")
    broker.start()
    producer = start_kt(
        tmp_path, "console-producer", "--bootstrap-server", broker.bootstrap, "--topic", "t", "--timeout", "0"
    )
    assert producer.stdin is not None and producer.stderr is not None
    producer.stdin.write(b"1\n")
    producer.stdin.flush()
    broker.wait_for_bytes("t", 60)
    broker.kill()
    started = time.monotonic()
    try:
        producer.stdin.write(b"2\n")
        producer.stdin.flush()
        line = producer.stderr.readline().decode()
    finally:
        producer.kill()
        producer.communicate()
    assert time.monotonic() - started < 15
    assert line.startswith("No broker answers, still trying: ")
    assert broker.bootstrap in line


@pytest.mark.parametrize(
    ("options", "retries"),
    [
        ((), 3),
        (("--transactional-id", "x"), 2**31 - 1),
        (("--transactional-id", "x", "--message-send-max-retries", "7"), 7),
    ],
)
def test_tries_in_transactions_are_bounded_by_time_and_not_by_number(options: tuple[str, ...], retries: int) -> None:
    import io

    from kafkatools.commands.console_producer import COMMAND, producer_config
    from kafkatools.console import Console
    from kafkatools.options.parser import parse

    _, args = parse(COMMAND, ["--topic", "t", "--bootstrap-server", "127.0.0.1:1", *options])
    console = Console(io.BytesIO(), io.BytesIO(), io.BytesIO(), {})  # type: ignore[arg-type]
    assert producer_config(console, args).retries == retries
