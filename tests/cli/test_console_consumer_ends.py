"""How kt console-consumer ends: at the end of the partitions, by a signal, with a closed pipe, at damage; and what it
never does to a terminal.
"""

from __future__ import annotations

import glob
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.raw_client import RawClient

from kafkatools import Admin, NewTopic, Producer
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.exit_status import ExitStatus

START = 1_700_000_000_000


@pytest.fixture(scope="module")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("ends")


@pytest.fixture(scope="module")
def broker(data_directory: pathlib.Path) -> Iterator[str]:
    with embedded_broker(data_directory, auto_create_topics_enable="false") as bootstrap:
        with RawClient(bootstrap) as client:
            client.create_topic("three", 3)
            for partition, count in ((0, 4), (2, 2)):
                rows = [(START, None, b"%d-%d" % (partition, index), ()) for index in range(count)]
                client.produce_rows("three", partition, rows)
            client.create_topic("damaged")
            for first in (0, 5, 10):
                rows = [(START, None, b"value-%02d" % index, ()) for index in range(first, first + 5)]
                client.produce_rows("damaged", 0, rows)
            client.create_topic("control")
            client.produce_rows("control", 0, [(START, b"\x1b[2J", b"a\x07b\xc2\x9b", [("h", b"\x00")])])
            client.create_topic("large")
            for _ in range(20):
                client.produce_rows("large", 0, [(START, None, b"x" * 1000, ()) for _ in range(500)])
        [path] = glob.glob(str(data_directory / "damaged-0" / "*.log"))
        content = pathlib.Path(path).read_bytes()
        with open(path, "r+b") as file:
            file.seek(content.index(b"value-07"))
            file.write(b"X")
        yield bootstrap


def consume(bootstrap: str, *args: str, terminal: bool = False) -> Ran:
    return run_kt("console-consumer", "--bootstrap-server", bootstrap, *args, terminal=terminal)


def test_exit_at_end_reads_every_partition_to_its_end(broker: str) -> None:
    ran = consume(broker, "--topic", "three", "--from-beginning", "--exit-at-end")
    assert ran.status == ExitStatus.OK
    assert sorted(ran.out.split()) == ["0-0", "0-1", "0-2", "0-3", "2-0", "2-1"]
    assert ran.err.splitlines() == ["complete: 3/3 partitions", "Processed a total of 6 messages"]


def test_exit_at_end_that_is_not_reached_is_a_failure(broker: str) -> None:
    ran = consume(broker, "--topic", "three", "--from-beginning", "--exit-at-end", "--max-messages", "1")
    assert ran.status == ExitStatus.FAILED
    assert "/3 partitions" in ran.err
    missing = consume(broker, "--topic", "ghost", "--exit-at-end")
    assert missing.status == ExitStatus.FAILED
    assert "Topic ghost does not exist" in missing.err


@pytest.mark.parametrize("behind", [0, 2])
def test_failed_record_is_the_error_beside_records_that_arrived_after_the_start(
    broker: str, monkeypatch: pytest.MonkeyPatch, behind: int
) -> None:
    """At the end offset 0 of one partition, all of its records count as such."""
    end_offsets = Consumer.end_offsets

    def earlier_end(consumer: Consumer, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        return {**end_offsets(consumer, partitions), TopicPartition("three", behind): 0}

    monkeypatch.setattr(Consumer, "end_offsets", earlier_end)
    deserializer = "value.deserializer=org.apache.kafka.common.serialization.IntegerDeserializer"
    property_option = ("--formatter-property", deserializer)
    ran = consume(broker, "--topic", "three", "--from-beginning", "--exit-at-end", *property_option)
    assert ran.status == ExitStatus.FAILED
    assert f"(three-{2 - behind} offset 0)" in ran.err


def test_damage_ends_with_the_offsets_to_seek_past(broker: str) -> None:
    ran = consume(broker, "--topic", "damaged", "--from-beginning", "--exit-at-end")
    assert ran.status == ExitStatus.FAILED
    assert ran.out.split() == [f"value-{index:02d}" for index in range(5)]
    assert (
        "Record batch for partition damaged-0 at offset 5 is invalid, cause: Record is corrupt (stored crc = "
        in ran.err
    )
    assert "offsets 5 to 9" in ran.err
    past = consume(broker, "--topic", "damaged", "--partition", "0", "--offset", "10", "--exit-at-end")
    assert past.status == ExitStatus.OK
    assert past.out.split() == [f"value-{index:02d}" for index in range(10, 15)]


def test_skip_corrupt_names_what_it_skipped_and_fails(broker: str) -> None:
    ran = consume(broker, "--topic", "damaged", "--from-beginning", "--exit-at-end", "--skip-corrupt")
    assert ran.status == ExitStatus.FAILED
    assert ran.out.split() == [f"value-{index:02d}" for index in (*range(5), *range(10, 15))]
    assert ran.err.startswith("Skipped offsets 5 to 9 of damaged-0: Record is corrupt")
    assert "complete: 1/1 partitions" in ran.err


def test_a_record_does_not_drive_the_terminal(broker: str) -> None:
    args = ("--topic", "control", "--from-beginning", "--exit-at-end", "--formatter-property", "print.key=true")
    assert consume(broker, *args).stdout == b"\x1b[2J\ta\x07b\xc2\x9b\n"
    assert consume(broker, *args, terminal=True).out == "\\x1b[2J\ta\\x07b\\x9b\n"


def test_json_keeps_every_byte(broker: str) -> None:
    ran = consume(broker, "--topic", "control", "--from-beginning", "--exit-at-end", "--json")
    assert json.loads(ran.out) == {
        "topic": "control",
        "partition": 0,
        "offset": 0,
        "timestamp": START,
        "timestamp_type": "CreateTime",
        "key": "\x1b[2J",
        "value": "a\x07b\x9b",
        "headers": [["h", "\x00"]],
    }
    missing = consume(broker, "--topic", "control", "--partition", "4", "--json")
    assert (
        json.loads(missing.err.splitlines()[-1])["error"]["message"]
        == "Topic control has no partition 4: its only partition is 0"
    )


def started(bootstrap: str, *args: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kafkatools", "console-consumer", "--bootstrap-server", bootstrap, *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"})


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_with_the_total(broker: str, number: signal.Signals) -> None:
    process = started(broker, "--topic", "three", "--from-beginning", "--enable-systest-events")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(6)]
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == ExitStatus.INTERRUPTED
    assert len(lines) == 6
    assert out == b"shutdown_complete\n"
    assert err == b"Processed a total of 6 messages\n"


def test_a_closed_pipe_ends_it_quietly(broker: str) -> None:
    process = started(broker, "--topic", "large", "--from-beginning")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(30) == ExitStatus.OK
    process.stderr.close()


def test_markers_of_transactions_do_not_end_a_slice_by_time(broker: str) -> None:
    with Admin(bootstrap_servers=broker) as admin:
        admin.create_topics(NewTopic("committed", num_partitions=2))
    with Producer(bootstrap_servers=broker, transactional_id="loader") as producer:
        producer.init_transactions()
        for number in range(6):  # each marker is newer than all records
            producer.begin_transaction()
            producer.send("committed", b"%d" % number, partition=0, timestamp=START + 1000 * number)
            producer.flush()
            (producer.abort_transaction if number == 3 else producer.commit_transaction)()
    for level, printed in (("read_uncommitted", b"1\n2\n3\n"), ("read_committed", b"1\n2\n")):
        times = ("--since", str(START + 1000), "--until", str(START + 4000), "--isolation-level", level)
        ran = consume(broker, "--topic", "committed", *times)
        assert (ran.status, ran.stdout) == (0, printed)
    ran = consume(broker, "--topic", "committed", "--until", str(START + 4000), "--last", "2")
    assert (ran.status, ran.stdout) == (0, b"2\n3\n")
    ran = consume(broker, "--topic", "committed", "--until", str(START + 60_000))
    assert (ran.status, ran.stdout) == (0, b"0\n1\n2\n3\n4\n5\n")
