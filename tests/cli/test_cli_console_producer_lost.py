"""A broker lost while console-producer sends, and JSON lines for partitions that the topic does not have."""

from __future__ import annotations

import json
import pathlib
import re
import signal
import subprocess
from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.kt_process import BrokerProcess, error_lines, start_kt
from support.waiting import eventually

pytestmark = pytest.mark.processes

QUICK = ("--timeout", "0", "--command-property", "delivery.timeout.ms=2500", "--max-block-ms", "4000")
RANGE = re.compile(r"(lines (\d+)-(\d+) \((\d+) records\)|(\d+) records of lines (\d+)-(\d+))")


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("lost")) as address:
        yield address


def make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    words = ("--create", "--topic", topic, "--partitions", str(partitions), "--bootstrap-server", bootstrap)
    assert run_kt("topics", *words).status == 0


def held(bootstrap: str, topic: str) -> list[str]:
    words = ("--topic", topic, "--from-beginning", "--exit-at-end", "--bootstrap-server", bootstrap)
    return run_kt("console-consumer", *words).out.splitlines()


def finished(process: subprocess.Popen[bytes], rest: bytes = b"") -> list[str]:
    _, stderr = process.communicate(rest, timeout=120)
    assert process.returncode == 1
    return [_plain(line) for line in error_lines(stderr)]


def _plain(line: str) -> str:
    """The words of a line, also of --json."""
    if not line.startswith("{"):
        return line
    row = json.loads(line)
    return str(row["note"] if "note" in row else row["error"]["message"])


@pytest.mark.parametrize("options", [(), ("--reader-property", "parse.headers=true"), ("--json",)], ids=str)
def test_a_lost_broker_is_one_line_with_the_cause_and_the_lines(tmp_path: pathlib.Path, options: tuple[str]) -> None:
    line = {"--json": '{{"value": "{0}"}}\n', "--reader-property": "a:b\t{0}\n"}.get("".join(options[:1]), "{0}\n")
    broker = BrokerProcess(tmp_path / "broker")
    broker.start()
    try:
        make_topic(broker.bootstrap, "t", 2)
        words = ("--bootstrap-server", broker.bootstrap, "--topic", "t", "--batch-size", "500", *QUICK)
        producer = start_kt(tmp_path, "console-producer", *words, *options)
        assert producer.stdin is not None
        producer.stdin.write("".join(map(line.format, range(1, 1001))).encode())
        producer.stdin.flush()
        eventually(lambda: sum(path.stat().st_size for path in broker.directory.glob("t-*/*.log")) > 4000)
        broker.kill()
        lines = finished(producer, "".join(map(line.format, range(1001, 3001))).encode())
    finally:
        broker.stop()
    sent, failed = (int(part.split()[0]) for part in lines[-1].split(", "))
    assert sent and failed and sent + failed <= 3000  # lines behind the last one that was tried are neither
    told = [one for one in lines if one.startswith("Error when sending message to topic t")]
    assert len(told) == 1, lines
    assert broker.bootstrap in told[0]
    found = RANGE.search(told[0])
    if found is None:  # all but one were acknowledged before the kill
        assert failed == 1
    else:
        first, last, count = map(int, found.groups()[1:4] if found[2] else (found[6], found[7], found[5]))
        assert (count, last) == (failed, sent + failed)
        assert 1 <= first <= last - failed + 1
    assert len(lines) <= 4  # beside it: that no broker answers, and the counts


def test_a_single_lost_record_keeps_kafkas_words(tmp_path: pathlib.Path) -> None:
    broker = BrokerProcess(tmp_path / "broker")
    broker.start()
    try:
        make_topic(broker.bootstrap, "t", 1)
        producer = start_kt(
            tmp_path, "console-producer", "--bootstrap-server", broker.bootstrap, "--topic", "t", *QUICK
        )
        assert producer.stdin is not None
        producer.stdin.write(b"one\n")
        producer.stdin.flush()
        # A later request is answered, so the producer's has been: a record on the disk may not be acknowledged yet.
        eventually(lambda: held(broker.bootstrap, "t") == ["one"])
        broker.kill()
        lines = finished(producer, b"three\n")
    finally:
        broker.stop()
    assert lines[-1] == "1 sent, 1 failed"
    sentence = "Error when sending message to topic t with key: null, value: 5 bytes with error: "
    assert lines[-2].startswith(f"{sentence}Connection to {broker.bootstrap} failed")


@pytest.mark.parametrize("options", [(), ("--json",)], ids=str)
def test_an_interrupt_while_no_broker_answers_is_one_line_with_the_lines(
    tmp_path: pathlib.Path, options: tuple[str]
) -> None:
    line = '{{"value": "{0}"}}\n' if options else "{0}\n"
    broker = BrokerProcess(tmp_path / "broker")
    broker.start()
    try:
        make_topic(broker.bootstrap, "t", 1)
        words = (
            "--bootstrap-server",
            broker.bootstrap,
            "--topic",
            "t",
            "--timeout",
            "300000",
            "--batch-size",
            "200",
            *options,
        )
        producer = start_kt(tmp_path, "console-producer", *words)
        assert producer.stdin is not None and producer.stderr is not None
        producer.stdin.write("".join(map(line.format, range(1, 201))).encode())
        producer.stdin.flush()
        # Five requests may be in flight, so a sixth batch in the log means that a response has arrived.
        eventually(lambda: sum(path.stat().st_size for path in broker.directory.glob("t-0/*.log")) > 5 * 200)
        broker.kill()
        producer.stdin.write("".join(map(line.format, range(201, 241))).encode())
        producer.stdin.flush()
        early = producer.stderr.readline()  # no broker answers
        producer.send_signal(signal.SIGINT)
        _, stderr = producer.communicate(timeout=120)
    finally:
        broker.stop()
    assert b"No broker answers" in early
    lost, *rest = [_plain(one) for one in error_lines(stderr)]
    assert lost.startswith("Error when sending message to topic t: lines ")
    assert f"were not acknowledged: Connection to {broker.bootstrap} failed" in lost
    last = int(RANGE.search(lost)[3])  # type: ignore[index]
    sent, failed = (int(part.split()[0]) for part in rest[-1].split(", "))
    assert sent and sent + failed == last
    assert rest[:-1] == ([] if last == 240 else [f"Lines after line {last} were not sent"])
    assert producer.returncode == 130


# --- JSON lines for partitions that are not there


def import_json(bootstrap: str, topic: str, path: pathlib.Path, *options: str) -> Ran:
    with path.open("rb") as file:
        return run_kt(
            "console-producer", "--bootstrap-server", bootstrap, "--topic", topic, "--json", *options, stdin=file
        )


@pytest.mark.parametrize("wrong", ['{"value": "w", "partition": 3}', '{"value": "w", "p\\u0061rtition": 3}'])
def test_a_file_for_more_partitions_is_refused_before_its_first_record(
    bootstrap: str, tmp_path: pathlib.Path, wrong: str
) -> None:
    topic = f"narrow-{len(wrong)}"
    make_topic(bootstrap, topic, 2)
    path = tmp_path / "records.jsonl"
    decoy = json.dumps({"value": 'text with "partition": 9 in it', "partition": 1})
    good = [decoy, *(f'{{"value": "{number}", "partition": {number % 2}}}' for number in range(200_000))]
    path.write_text("\n".join([*good, wrong, '{"value": "w", "partition": 7}']) + "\n")
    ran = import_json(bootstrap, topic, path)
    assert (ran.status, ran.out) == (1, '{"sent":0,"failed":0}\n')
    message = json.loads(ran.err.splitlines()[0])["error"]["message"]
    assert message == f"Line 200002 is for partition 3, but topic {topic} has only partitions 0 to 1"
    assert held(bootstrap, topic) == []


def test_a_file_that_fits_is_sent_from_where_it_stands(bootstrap: str, tmp_path: pathlib.Path) -> None:
    make_topic(bootstrap, "fits", 2)
    path = tmp_path / "records.jsonl"
    path.write_text("a head line\n" + "".join(f'{{"value": "{n}", "partition": {n % 2}}}\n' for n in range(4)))
    with path.open("rb") as file:
        file.readline()
        words = ("console-producer", "--bootstrap-server", bootstrap, "--topic", "fits", "--json")
        ran = run_kt(*words, stdin=file)
    assert (ran.status, ran.out) == (0, '{"sent":4,"failed":0}\n')
    assert sorted(held(bootstrap, "fits")) == ["0", "1", "2", "3"]


def test_a_malformed_line_of_a_file_still_ends_the_run_after_those_before_it(
    bootstrap: str, tmp_path: pathlib.Path
) -> None:
    make_topic(bootstrap, "malformed", 2)
    path = tmp_path / "records.jsonl"
    path.write_text('{"value": "good", "partition": 1}\nnothing\n{"value": "late", "partition": 0}\n')
    ran = import_json(bootstrap, "malformed", path)
    assert "Line 2 is not JSON" in ran.err
    assert held(bootstrap, "malformed") == ["good"]


def test_with_ignore_error_the_line_counts_as_failed_and_the_others_are_sent(
    bootstrap: str, tmp_path: pathlib.Path
) -> None:
    make_topic(bootstrap, "ignored", 1)
    path = tmp_path / "records.jsonl"
    path.write_text('{"value": "a"}\n{"value": "w", "partition": 1}\n{"value": "b", "partition": 0}\n')
    ran = import_json(bootstrap, "ignored", path, "--reader-property", "ignore.error=true")
    assert (ran.status, ran.out) == (1, '{"sent":2,"failed":1}\n')
    assert held(bootstrap, "ignored") == ["a", "b"]


def test_of_a_pipe_what_is_read_at_once_is_looked_at_before_any_of_it_is_sent(bootstrap: str) -> None:
    make_topic(bootstrap, "piped", 1)
    words = ("console-producer", "--bootstrap-server", bootstrap, "--topic", "piped", "--json")
    ran = run_kt(*words, stdin=b'{"value": "a"}\n{"value": "b", "partition": 0}\n{"value": "w", "partition": 1}\n')
    assert (ran.status, ran.out) == (1, '{"sent":0,"failed":0}\n')
    assert "Line 3 is for partition 1, but topic piped has only partition 0" in ran.err
    assert held(bootstrap, "piped") == []


@pytest.mark.parametrize("is_file", [True, False])
@pytest.mark.parametrize("options", [(), ("--reader-property", "ignore.error=true")], ids=["strict", "ignoring"])
def test_a_refused_import_into_a_missing_topic_creates_nothing(
    bootstrap: str, tmp_path: pathlib.Path, is_file: bool, options: tuple[str, ...]
) -> None:
    topic = f"ghost-{is_file}-{len(options)}"
    text = b'{"value": "w", "partition": 6}\n'
    path = tmp_path / "records.jsonl"
    path.write_bytes(text)
    if is_file:
        ran = import_json(bootstrap, topic, path, *options)
    else:
        words = ("--bootstrap-server", bootstrap, "--topic", topic, "--json", *options)
        ran = run_kt("console-producer", *words, stdin=text)
    assert ran.status == 1
    assert f"Line 1 is for partition 6, but topic {topic} does not exist: create it first" in ran.err
    assert "N is at least 7: as many as the source topic has" in ran.err
    assert topic not in run_kt("topics", "--bootstrap-server", bootstrap, "--list").out.split()


def test_an_import_for_partition_0_creates_a_missing_topic(bootstrap: str) -> None:
    words = ("--bootstrap-server", bootstrap, "--topic", "made", "--json")
    ran = run_kt("console-producer", *words, stdin=b'{"value": "a", "partition": 0}\n{"value": "b"}\n')
    assert (ran.status, ran.out) == (0, '{"sent":2,"failed":0}\n'), ran.err


def test_in_a_transaction_nothing_of_a_pipe_is_left_behind(bootstrap: str, tmp_path: pathlib.Path) -> None:
    make_topic(bootstrap, "whole", 1)
    words = ("--bootstrap-server", bootstrap, "--topic", "whole", "--json", "--transactional-id", "loader")
    producer = start_kt(tmp_path, "console-producer", *words)
    text = b'{"value": "a", "partition": 0}\n' * 100_000 + b'{"value": "w", "partition": 1}\n'
    stdout, _ = producer.communicate(text, timeout=120)
    assert producer.returncode == 1
    assert json.loads(stdout)["sent"] == 0
    committed = ("--topic", "whole", "--from-beginning", "--exit-at-end", "--isolation-level", "read_committed")
    assert run_kt("console-consumer", "--bootstrap-server", bootstrap, *committed).out == ""
