"""What kt console-consumer says while its broker is away, and that it goes on afterwards."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import time
from typing import IO

import pytest
from support.kt_process import BrokerProcess, error_lines, kt_process, start_kt

from kafkatools.core.errors import ConnectionFailed, CoordinatorNotAvailable, LeaderNotAvailable
from kafkatools.tools.lines.silence import Silence

pytestmark = pytest.mark.processes


def test_silence_is_told_once_and_so_is_its_end() -> None:
    told: list[str] = []
    silence = Silence(told.append, patience_ms=3000)
    refused = ConnectionFailed("Connection to 127.0.0.1:1 failed: Connection refused")
    silence.update(1000, refused)
    silence.update(3999, refused)
    assert told == []
    silence.update(4000, refused)
    silence.update(9000, refused)
    assert told == ["No broker answers, still trying: Connection to 127.0.0.1:1 failed: Connection refused"]
    silence.update(9100, None)
    silence.update(9200, None)
    silence.update(9300, refused)
    assert told[1:] == ["A broker answers again"]


@pytest.mark.parametrize(
    ("problem", "has_broker", "lines"),
    [
        (
            ConnectionFailed("Connection to node 1 failed: Connection refused"),
            True,
            [
                "A broker does not answer, still trying: Connection to node 1 failed: Connection refused",
                "A broker answers again",
            ],
        ),
        (
            LeaderNotAvailable("t-0 has no leader"),
            True,
            ["No leader answers, still trying: t-0 has no leader", "A leader answers again"],
        ),
        (
            CoordinatorNotAvailable("Group g: The coordinator is not available."),
            False,
            [
                "No coordinator answers, still trying: Group g: The coordinator is not available.",
                "A coordinator answers again",
            ],
        ),
    ],
)
def test_who_is_missed_is_told(problem: Exception, has_broker: bool, lines: list[str]) -> None:
    told: list[str] = []
    silence = Silence(told.append, patience_ms=3000)
    for now_ms in (0, 3000, 6000):
        silence.update(now_ms, problem, has_broker=has_broker)
    silence.update(7000, None)
    assert told == lines


def test_a_short_absence_is_not_told() -> None:
    told: list[str] = []
    silence = Silence(told.append, patience_ms=3000)
    refused = ConnectionFailed("refused")
    for start in (0, 5000):
        silence.update(start, refused)
        silence.update(start + 2999, refused)
        silence.update(start + 3000, None)
    assert told == []


def test_consumers_say_that_their_broker_is_away(tmp_path: pathlib.Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", {"group.initial.rebalance.delay.ms": "0"})
    broker.start()
    at = ("--bootstrap-server", broker.bootstrap, "--topic", "away")
    consumers: list[subprocess.Popen[bytes]] = []
    try:
        assert kt_process(tmp_path, "console-producer", *at, stdin=b"1\n").returncode == 0
        for options in ((), ("--group", "patient")):
            consumers.append(start_kt(tmp_path, "console-consumer", "--from-beginning", *at, *options))
        assert [_line(one.stdout) for one in consumers] == ["1", "1"]
        broker.kill()
        told = f"No broker answers, still trying: Connection to {broker.bootstrap} failed: Connection refused"
        assert [_line(one.stderr) for one in consumers] == [told, told]
        broker.start()
        assert [_line(one.stderr) for one in consumers] == ["A broker answers again"] * 2
        assert kt_process(tmp_path, "console-producer", *at, stdin=b"2\n").returncode == 0
        assert _line(consumers[0].stdout) == "2"
        assert _line(consumers[1].stdout) in ("1", "2")  # a kill may cost the commit of what was printed
        assert _end(consumers[0]) == ["Processed a total of 2 messages"]
        broker.kill()
        started = time.monotonic()
        [commit, total] = _end(consumers[1])
        assert time.monotonic() - started < 15  # Ctrl-C waits 5 seconds for the commit, not 30
        assert commit.startswith("The offsets of the printed records were not committed: ")
        assert total.startswith("Processed a total of ")
    finally:
        for one in consumers:
            if one.poll() is None:
                one.kill()
                one.communicate()
        broker.stop()


def _line(stream: IO[bytes] | None) -> str:
    assert stream is not None
    return stream.readline().decode().rstrip("\n")


def _end(consumer: subprocess.Popen[bytes]) -> list[str]:
    consumer.send_signal(signal.SIGINT)
    _, stderr = consumer.communicate(timeout=40)
    assert consumer.returncode == 130
    return error_lines(stderr)
