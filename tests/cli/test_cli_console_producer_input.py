"""kt console-producer beyond Kafka's script: JSON in, a prompt, Ctrl-C, counts; on an embedded broker."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from support.kt import run_kt
from support.skipping_clock import FastClock

from kafkatools.exit_status import ExitStatus

StartBroker = Callable[..., str]

RECORDS = [
    {"partition": 0, "timestamp": 1795000000000, "key": "k", "value": "v", "headers": [["h", "1"], ["h", None]]},
    {"partition": 1, "timestamp": 1795000000001, "key": None, "value": None, "headers": []},
    {
        "partition": 0,
        "timestamp": 1795000000002,
        "key": "",
        "value": {"b64": "/wD+"},
        "headers": [["b", {"b64": "gA=="}]],
    },
    {"partition": 1, "timestamp": 1795000000003, "key": "日本", "value": "a\tb\nc\u0000", "headers": []},
]


@pytest.fixture
def bootstrap(start_broker: StartBroker) -> str:
    return start_broker()


def make_topic(bootstrap: str, topic: str, partitions: int = 1) -> None:
    made = run_kt(
        "topics", "--bootstrap-server", bootstrap, "--create", "--topic", topic, "--partitions", str(partitions)
    )
    assert made.status == 0, made.err


def read_json(bootstrap: str, topic: str) -> list[dict[str, object]]:
    ran = run_kt(
        *("console-consumer", "--bootstrap-server", bootstrap, "--topic", topic),
        *("--from-beginning", "--exit-at-end", "--json"),
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_what_the_consumer_writes_the_producer_reads_back(bootstrap: str) -> None:
    for topic in ("first", "second"):
        make_topic(bootstrap, topic, 2)
    text = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()
    sent = run_kt("console-producer", "--bootstrap-server", bootstrap, "--topic", "first", "--json", stdin=text)
    assert (sent.status, sent.stdout) == (0, b'{"sent":4,"failed":0}\n')
    held = read_json(bootstrap, "first")
    places = [(one["partition"], one["timestamp"], one["key"], one["value"], one["headers"]) for one in held]
    wanted = [(one["partition"], one["timestamp"], one["key"], one["value"], one["headers"]) for one in RECORDS]
    assert sorted(places, key=str) == sorted(wanted, key=str)
    copy = "".join(json.dumps(record) + "\n" for record in held).encode()
    run_kt("console-producer", "--bootstrap-server", bootstrap, "--topic", "second", "--json", stdin=copy)
    again = read_json(bootstrap, "second")
    assert [{**one, "topic": "first"} for one in again] == held


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "Line 2 is not JSON"),
        ('{"key": "k", "value": x}', "Line 2 is not JSON: Expecting value at column 23"),
        ("[1]", "Line 2 is not a JSON object"),
        pytest.param("[" * 100_000, "Line 2 is not JSON: it is nested too deeply", id="nested"),
        ('{"value": "x", "timestamp": 9223372036854775808}', "Line 2: Invalid timestamp: 9223372036854775808"),
        ('{"val": "x"}', "Line 2 has an unknown key: val; the keys are topic, partition, offset, "),
        (
            '{"value": {"a": 1}}',
            'Line 2: a key, value or header must be a string, null or {"b64": "..."}; '
            'write JSON as a string, such as "{\\"a\\": 1}"',
        ),
        ('{"value": 5}', 'Line 2: a key, value or header must be a string, null or {"b64": "..."}'),
        ('{"value": {"b64": "%%"}}', "Line 2: "),
        ('{"key": "x"}', 'Line 2 has no "value"; write null for a tombstone'),
        ('{"value": "x", "headers": 5}', "Line 2: headers must be a list of [name, value]"),
        ('{"value": "x", "headers": {"a": "b"}}', "Line 2: headers must be a list of [name, value]"),
        ('{"value": "x", "timestamp": "soon"}', "Line 2: timestamp: 'soon' is not a whole number"),
    ],
)
def test_a_json_line_that_is_no_record_ends_the_run_after_those_before_it(
    bootstrap: str, line: str, message: str
) -> None:
    make_topic(bootstrap, "t")
    text = f'{{"value":"good"}}\n{line}\n{{"value":"late"}}\n'.encode()
    ran = run_kt("console-producer", "--bootstrap-server", bootstrap, "--topic", "t", "--json", stdin=text)
    assert ran.status == ExitStatus.FAILED
    assert json.loads(ran.err.splitlines()[0])["error"]["message"].startswith(message)
    assert [one["value"] for one in read_json(bootstrap, "t")] == ["good"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            b'{"value": "x", "headers": [["\\ud800", "y"]]}',
            "Line 2: the header name \\ud800 has a lone surrogate, which is not valid UTF-8",
        ),
        (b'{"\\ud800": "x"}', "Line 2 has an unknown key: \\ud800"),
    ],
)
def test_a_lone_surrogate_is_an_error_that_names_the_line(bootstrap: str, line: bytes, message: str) -> None:
    words = ("--bootstrap-server", bootstrap, "--topic", "surrogates", "--json")
    ran = run_kt("console-producer", *words, stdin=b'{"value": "first"}\n' + line + b"\n")
    assert ran.status == ExitStatus.FAILED
    texts = [json.loads(row) for row in ran.err.splitlines()]
    assert any(row["error"]["message"].startswith(message) for row in texts if "error" in row)
    assert "internal error" not in ran.err


def test_separators_that_are_no_utf8_are_written_as_they_came(bootstrap: str) -> None:
    words = ("--bootstrap-server", bootstrap, "--topic", "separated")
    assert run_kt("console-producer", *words, stdin=b"v\n").status == ExitStatus.OK
    odd = os.fsdecode(b"\xff")
    properties = ("print.key=true", f"key.separator={odd}", f"null.literal={odd}{odd}", f"line.separator={odd}\n")
    options = [word for pair in properties for word in ("--formatter-property", pair)]
    ran = run_kt("console-consumer", *words, "--from-beginning", "--exit-at-end", *options)
    assert (ran.status, ran.stdout) == (ExitStatus.OK, b"\xff\xff\xffv\xff\n")


def test_with_ignore_error_a_bad_json_line_counts_as_failed(bootstrap: str) -> None:
    make_topic(bootstrap, "t")
    ran = run_kt(
        *("console-producer", "--bootstrap-server", bootstrap, "--topic", "t", "--json"),
        *("--reader-property", "ignore.error=true"),
        stdin=b'{"value":"good"}\nnothing\n{"value":"late"}\n',
    )
    assert (ran.status, ran.stdout) == (ExitStatus.FAILED, b'{"sent":2,"failed":1}\n')
    assert [one["value"] for one in read_json(bootstrap, "t")] == ["good", "late"]


class Keyboard(io.BufferedReader):
    """Standard input that is a terminal: a line at a time."""

    def isatty(self) -> bool:
        return True

    def readinto1(self, room: memoryview) -> int:  # type: ignore[override]
        line = self.readline()
        room[: len(line)] = line
        return len(line)


def test_a_terminal_gets_a_prompt_for_every_line(bootstrap: str) -> None:
    make_topic(bootstrap, "t")
    keyboard = Keyboard(io.BytesIO(b"one\ntwo\n"))  # type: ignore[arg-type]
    ran = run_kt("console-producer", "--bootstrap-server", bootstrap, "--topic", "t", stdin=keyboard, terminal=True)
    assert (ran.stdout, ran.err) == (b">>>\n", "2 sent, 0 failed\n")
    assert [one["value"] for one in read_json(bootstrap, "t")] == ["one", "two"]


@pytest.mark.slow
def test_sync_sends_record_by_record_without_waiting_for_a_batch_to_fill(bootstrap: str) -> None:
    make_topic(bootstrap, "t")
    text = b"".join(b"%d\n" % number for number in range(200))
    ran = run_kt("console-producer", "--bootstrap-server", bootstrap, "--topic", "t", "--sync", stdin=text)
    assert (ran.status, ran.err) == (0, "200 sent, 0 failed\n")
    assert [one["value"] for one in read_json(bootstrap, "t")] == [str(number) for number in range(200)]


@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_sends_what_it_read_and_says_so(bootstrap: str, signal_number: int) -> None:
    make_topic(bootstrap, "t")
    command = [sys.executable, "-m", "kafkatools", "console-producer", "--bootstrap-server", bootstrap, "--topic", "t"]
    child = subprocess.Popen(
        [*command, "--sync"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ}
    )
    assert child.stdin is not None
    child.stdin.write(b"one\ntwo\n")
    child.stdin.flush()
    for _ in range(1000):
        if len(read_json(bootstrap, "t")) == 2:
            break
    child.send_signal(signal_number)
    _, stderr = child.communicate(timeout=60)
    assert child.returncode == ExitStatus.INTERRUPTED
    assert stderr == b"2 sent, 0 failed\n"


def test_a_broker_that_refuses_connections_is_named_within_seconds() -> None:
    ran = run_kt(
        "console-producer", "--bootstrap-server", "127.0.0.1:1", "--topic", "t", stdin=b"x\n", clock=FastClock()
    )
    assert ran.status == ExitStatus.FAILED
    assert ran.err.splitlines() == ["Connection to 127.0.0.1:1 failed: Connection refused", "0 sent, 0 failed"]


def test_a_broker_that_is_not_there_ends_the_run_at_once_for_all_lines() -> None:
    ran = run_kt(
        *("console-producer", "--bootstrap-server", "127.0.0.1:1", "--topic", "t", "--max-block-ms", "100"),
        stdin=b"x\n" * 300_000,
    )
    lines = ran.err.splitlines()
    assert ran.status == ExitStatus.FAILED
    assert lines[0].endswith("with error: Topic t not present in metadata after 100 ms.")
    sent, failed = lines[-1].split(", ")
    assert sent == "0 sent"
    assert int(failed.split()[0]) > 0
    assert lines[1].startswith("Topic t not present in metadata after 100 ms: lines 1-")
    assert len(lines) == 3


def test_json_line_longer_than_a_request_may_hold_a_record_that_is_not(bootstrap: str) -> None:
    escaped = '{"value": "' + "\\u0061" * 500_000 + '"}\n'
    assert len(escaped) > 2 << 20
    words = ("--bootstrap-server", bootstrap, "--topic", "escaped", "--json")
    ran = run_kt("console-producer", *words, stdin=escaped.encode())
    assert ran.status == ExitStatus.OK, ran.err
    shown = run_kt("console-consumer", *words[:4], "--from-beginning", "--exit-at-end")
    assert shown.out == "a" * 500_000 + "\n"


@pytest.mark.parametrize(
    ("lines", "said"), [((b"1", b"%d", b"3", b"4"), ["Lines after line 2 were not sent"]), ((b"1", b"%d"), [])]
)
@pytest.mark.parametrize("is_json", [False, True])
def test_sync_names_the_lines_that_it_leaves_out(
    bootstrap: str, lines: tuple[bytes, ...], said: list[str], is_json: bool
) -> None:
    texts = [line.replace(b"%d", b"x" * (1 << 20)) for line in lines]
    stdin = b"".join(b'{"value":"%b"}\n' % text if is_json else text + b"\n" for text in texts)
    form = ("--input-format", "json") if is_json else ()
    ran = run_kt("console-producer", "--bootstrap-server", bootstrap, "--topic", "t", "--sync", *form, stdin=stdin)
    assert ran.status == 1
    assert ran.err.splitlines()[1:] == [*said, "1 sent, 1 failed"]
