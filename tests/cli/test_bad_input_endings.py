"""How commands end when somebody ends them: Ctrl-C, SIGTERM, a terminal or a reader of stdout that goes away."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
from collections.abc import Iterator

import pytest
from support.kt_process import KT, BrokerProcess, Terminal, environment, error_lines, kt_process, start_kt

pytestmark = pytest.mark.processes

every_signal = pytest.mark.parametrize(
    "signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with the topic `full` of 20000 records and many more topics."""
    home = tmp_path_factory.mktemp("endings")
    broker = BrokerProcess(home / "broker")
    broker.start()
    try:
        lines = b"".join(b"a line of the topic full, number %d\n" % number for number in range(20_000))
        for topic, data in (("full", lines), ("other", b"1\n")):
            sent = kt_process(
                home, "console-producer", "--bootstrap-server", broker.bootstrap, "--topic", topic, stdin=data
            )
            assert sent.returncode == 0, sent.stderr.decode()
        yield broker
    finally:
        broker.stop()


@every_signal
def test_an_interrupted_producer_sends_what_it_read(
    tmp_path: pathlib.Path, server: BrokerProcess, signal_number: signal.Signals
) -> None:
    topic = f"interrupted-{signal_number.name}"
    producer = start_kt(tmp_path, "console-producer", "--bootstrap-server", server.bootstrap, "--topic", topic)
    assert producer.stdin is not None
    producer.stdin.write(b"one\ntwo\n")
    producer.stdin.flush()
    server.wait_for_bytes(topic, 1)
    producer.send_signal(signal_number)
    assert producer.wait(30) == 130
    stdout, stderr = producer.communicate(timeout=30)
    assert (stdout, error_lines(stderr)) == (b"", ["2 sent, 0 failed"])
    assert server.values(topic) == [b"one", b"two"]


@every_signal
def test_an_interrupted_consumer_says_what_it_printed(
    tmp_path: pathlib.Path, server: BrokerProcess, signal_number: signal.Signals
) -> None:
    consumer = start_kt(
        tmp_path,
        *("console-consumer", "--bootstrap-server", server.bootstrap, "--topic", "other", "--from-beginning"),
    )
    assert consumer.stdout is not None
    assert os.read(consumer.stdout.fileno(), 2) == b"1\n"
    consumer.send_signal(signal_number)
    _, stderr = consumer.communicate(timeout=30)
    assert consumer.returncode == 130
    assert error_lines(stderr) == ["Processed a total of 1 messages"]


@every_signal
def test_a_stopped_server_stops_cleanly(tmp_path: pathlib.Path, signal_number: signal.Signals) -> None:
    broker = BrokerProcess(tmp_path / "broker")
    broker.start()
    try:
        broker.child.send_signal(signal_number)
        assert broker.child.wait(30) == 0
    finally:
        broker.kill()
    lines = error_lines((tmp_path / "broker" / "log").read_bytes())
    assert lines[-1] == "INFO node 1 has stopped"
    assert (broker.directory / ".kafka_cleanshutdown").exists()


def _printing(server: BrokerProcess) -> dict[str, tuple[str, ...]]:
    at = ("--bootstrap-server", server.bootstrap)
    segment = str(server.directory / "full-0" / "00000000000000000000.log")
    return {
        "topics": ("topics", "--list", *at),
        "topics describe": ("topics", "--describe", *at),
        "get-offsets": ("get-offsets", *at),
        "console-consumer": ("console-consumer", "--topic", "full", "--from-beginning", *at),
        "consumer to the end": ("console-consumer", "--topic", "full", "--from-beginning", "--exit-at-end", *at),
        "dump-log": ("dump-log", "--print-data-log", "--files", segment),
        "dump-log json": ("dump-log", "--print-data-log", "--json", "--files", segment),
        "storage": ("storage", "random-uuid"),
        "version-mapping": ("storage", "version-mapping"),
        "completion": ("completion", "--shell", "bash"),
        "help": ("topics", "--help"),
        "help of kt": ("--help",),
        "version": ("--version",),
        "sandbox": ("sandbox", "stop", "--json"),
    }


PRINTING = (
    "topics",
    "topics describe",
    "get-offsets",
    "console-consumer",
    "consumer to the end",
    "dump-log",
    "dump-log json",
    "storage",
    "version-mapping",
    "completion",
    "help",
    "help of kt",
    "version",
    "sandbox",
)


@pytest.mark.parametrize("what", PRINTING)
def test_a_reader_that_goes_away_ends_the_command_quietly(
    tmp_path: pathlib.Path, server: BrokerProcess, what: str
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    child = start_kt(tmp_path, *_printing(server)[what], stdout=writing)
    os.close(writing)
    _, stderr = child.communicate(timeout=30)
    assert error_lines(stderr) == []
    assert child.returncode == 0


@pytest.mark.parametrize("what", ["console-consumer", "dump-log"])
def test_a_reader_that_has_seen_enough(tmp_path: pathlib.Path, server: BrokerProcess, what: str) -> None:
    child = start_kt(tmp_path, *_printing(server)[what])
    assert child.stdout is not None and child.stderr is not None
    assert child.stdout.readline()
    child.stdout.close()
    stderr = child.stderr.read()
    child.stderr.close()
    assert child.stdin is not None
    child.stdin.close()
    assert error_lines(stderr) == []
    assert child.wait(30) == 0


@pytest.mark.parametrize("options", [(), ("--group", "left")], ids=["alone", "group"])
def test_a_reader_that_goes_away_is_noticed_while_nothing_comes(
    tmp_path: pathlib.Path, server: BrokerProcess, options: tuple[str, ...]
) -> None:
    """`kt console-consumer | head -1` on a topic that has gone quiet: the prompt comes back."""
    at = ("--bootstrap-server", server.bootstrap)
    child = start_kt(tmp_path, "console-consumer", "--topic", "other", "--from-beginning", *at, *options)
    assert child.stdout is not None
    assert child.stdout.readline() == b"1\n"
    child.stdout.close()
    child.stdout = None
    _, stderr = child.communicate(timeout=30)
    assert error_lines(stderr) == []
    assert child.returncode == 0


def test_nohup_is_respected(tmp_path: pathlib.Path, server: BrokerProcess) -> None:
    """A signal that the caller ignores stays ignored, with a group too."""
    child = subprocess.Popen(
        ["nohup", *KT, "console-consumer", "--topic", "other", "--from-beginning", "--group", "nohup"]
        + ["--bootstrap-server", server.bootstrap],
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"1\n"
    child.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.5)
    child.send_signal(signal.SIGTERM)
    _, stderr = child.communicate(timeout=30)
    assert child.returncode == 130
    assert error_lines(stderr)[-1] == "Processed a total of 1 messages"


def test_a_closed_stdout_is_a_failure(tmp_path: pathlib.Path) -> None:
    """`kt ... >&-`: nobody will ever see the output; no stack trace."""
    ran = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *KT, "storage", "random-uuid"],
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
        timeout=30,
        check=False,
    )
    error_lines(ran.stderr)


def test_a_producer_on_a_terminal_prompts(tmp_path: pathlib.Path, server: BrokerProcess) -> None:
    terminal = Terminal(tmp_path, "console-producer", "--bootstrap-server", server.bootstrap, "--topic", "typed")
    terminal.wait_for(b">")
    terminal.type(b"hello\n")
    terminal.wait_for(b"hello\r\n>")
    terminal.type(b"world\n")
    terminal.wait_for(b"world\r\n>")
    terminal.type(b"\x04")
    assert terminal.end() == 0
    assert terminal.seen == b">hello\r\n>world\r\n>\r\n2 sent, 0 failed\r\n"
    assert server.values("typed") == [b"hello", b"world"]


def test_escapes_in_records_do_not_reach_the_terminal(tmp_path: pathlib.Path, server: BrokerProcess) -> None:
    sent = kt_process(
        tmp_path,
        *("console-producer", "--bootstrap-server", server.bootstrap, "--topic", "escapes"),
        stdin=b"\x1b[31mred\x07 \xc3\xa4\n",
    )
    assert sent.returncode == 0
    terminal = Terminal(
        tmp_path,
        *("console-consumer", "--bootstrap-server", server.bootstrap, "--topic", "escapes"),
        *("--from-beginning", "--exit-at-end"),
    )
    assert terminal.end() == 0
    assert b"\x1b" not in terminal.seen and b"\x07" not in terminal.seen
    assert "[31mred" in terminal.seen.decode() and "ä" in terminal.seen.decode()
    assert server.values("escapes") == [b"\x1b[31mred\x07 \xc3\xa4"]


def test_ctrl_c_on_a_terminal_leaves_it_at_the_start_of_a_line(tmp_path: pathlib.Path, server: BrokerProcess) -> None:
    terminal = Terminal(tmp_path, "console-producer", "--bootstrap-server", server.bootstrap, "--topic", "typed-c")
    terminal.wait_for(b">")
    terminal.child.send_signal(signal.SIGINT)
    assert terminal.end() == 130
    assert b"Traceback" not in terminal.seen
    assert terminal.seen.endswith(b"\r\n0 sent, 0 failed\r\n")
