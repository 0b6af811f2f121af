"""Brokers that die, disks that fill, records that are too large: what was reported as sent is there, what was not
sent is reported."""

from __future__ import annotations

import os
import pathlib
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from support.kt_process import BrokerProcess, environment, error_lines, kt_process, start_kt

pytestmark = pytest.mark.processes

Broker = Callable[..., BrokerProcess]


@pytest.fixture
def broker(tmp_path: pathlib.Path) -> Iterator[Broker]:
    """broker(settings) -> a started BrokerProcess; stopped at the end of the test."""
    made: list[BrokerProcess] = []

    def start(settings: dict[str, str] | None = None) -> BrokerProcess:
        made.append(BrokerProcess(tmp_path / f"broker{len(made)}", settings))
        made[-1].start()
        return made[-1]

    yield start
    for one in made:
        one.stop()


def counts(lines: list[str]) -> tuple[int, int]:
    """N and M of the last line, `N sent, M failed`."""
    match = re.fullmatch(r"(\d+) sent, (\d+) failed", lines[-1])
    assert match is not None, lines
    return int(match[1]), int(match[2])


def create(broker: BrokerProcess, home: pathlib.Path, *more: str) -> None:
    made = kt_process(home, "topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "t", *more)
    assert made.returncode == 0, made.stderr.decode()


def test_a_broker_killed_in_the_middle_of_a_produce(tmp_path: pathlib.Path, broker: Broker) -> None:
    server = broker()
    create(server, tmp_path)
    producer = start_kt(
        tmp_path,
        *("console-producer", "--bootstrap-server", server.bootstrap, "--topic", "t", "--timeout", "0"),
        *("--batch-size", "1000", "--command-property", "delivery.timeout.ms=3000", "--max-block-ms", "6000"),
    )
    assert producer.stdin is not None
    read = 0
    for number in range(4000):
        producer.stdin.write(b"record %d\n" % number)
        read += 1
        if number == 2000:
            producer.stdin.flush()
            wait_for_records(server)
            server.kill()
    stdout, stderr = producer.communicate(timeout=60)
    lines = error_lines(stderr)
    sent, failed = counts(lines)
    assert producer.returncode == 1
    assert sent > 0 and failed > 0
    # What was not read when the topic could not be had any more is neither.
    assert 2000 < sent + failed <= read
    told = [line for line in lines if re.search(rf"lines \d+-{sent + failed}\b.* not acknowledged: Connection", line)]
    assert len(told) == 1 and " failed" in told[0]
    # Those that were read and had no room are the only ones that may be told behind it.
    assert lines[-2] in (told[0], f"Lines after line {sent + failed} were not sent")
    assert stdout == b""
    assert any("Error when sending message to topic t" in line for line in lines)
    server.start()
    values = server.values("t")
    assert len(set(values)) >= sent
    assert values == [b"record %d" % number for number in range(len(values))]


def wait_for_records(server: BrokerProcess) -> None:
    """Until the log holds more than can be unanswered, five batches of 1000 bytes: some records are acknowledged."""
    while sum(path.stat().st_size for path in server.directory.glob("t-0/*.log")) < 8000:
        assert server.child.poll() is None


def test_a_broker_killed_under_a_consumer(tmp_path: pathlib.Path, broker: Broker) -> None:
    server = broker()
    create(server, tmp_path)
    sent = kt_process(
        tmp_path, "console-producer", "--bootstrap-server", server.bootstrap, "--topic", "t", stdin=b"a\nb\n"
    )
    assert sent.returncode == 0
    consumer = start_kt(
        tmp_path,
        *("console-consumer", "--bootstrap-server", server.bootstrap, "--topic", "t", "--from-beginning"),
        *("--timeout-ms", "3000"),
    )
    assert consumer.stdout is not None
    first = os.read(consumer.stdout.fileno(), 4)
    server.kill()
    stdout, stderr = consumer.communicate(timeout=60)
    assert first + stdout == b"a\nb\n"
    lines = error_lines(stderr)
    assert consumer.returncode == 1
    assert "Processed a total of 2 messages" in lines
    assert any(server.bootstrap in line for line in lines)


def test_a_record_too_large_for_the_client(tmp_path: pathlib.Path, broker: Broker) -> None:
    server = broker()
    create(server, tmp_path)
    ran = kt_process(
        tmp_path,
        *("console-producer", "--bootstrap-server", server.bootstrap, "--topic", "t"),
        stdin=b"before\n" + b"x" * 2_000_000 + b"\nafter\n",
    )
    lines = error_lines(ran.stderr)
    assert ran.returncode == 1
    assert counts(lines) == (2, 1)
    assert len(lines) == 2
    assert "2000000 bytes" in lines[0] and "max.request.size" in lines[0]
    assert server.values("t") == [b"before", b"after"]


def test_a_record_too_large_for_the_topic(tmp_path: pathlib.Path, broker: Broker) -> None:
    server = broker()
    create(server, tmp_path, "--config", "max.message.bytes=5000")
    ran = kt_process(
        tmp_path,
        *("console-producer", "--bootstrap-server", server.bootstrap, "--topic", "t"),
        stdin=b"before\n" + b"x" * 20_000 + b"\nafter\n",
    )
    lines = error_lines(ran.stderr)
    assert ran.returncode == 1
    assert counts(lines) == (2, 1)
    assert len(lines) == 2
    assert "20000 bytes" in lines[0]
    assert server.values("t") == [b"before", b"after"]


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file system of 24 MiB; skips where none can be mounted."""
    where = tmp_path / "disk"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(where)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


LINE = b"x" * 999 + b"\n"


def fill(server: BrokerProcess, home: pathlib.Path, count: int) -> tuple[int, int, list[str], int]:
    """Sends `count` lines of 1000 bytes: sent, failed, the lines of stderr, the exit status."""
    ran = kt_process(
        home,
        *("console-producer", "--bootstrap-server", server.bootstrap, "--topic", "t"),
        *("--command-property", "delivery.timeout.ms=8000"),
        stdin=LINE * count,
    )
    lines = error_lines(ran.stderr)
    return *counts(lines), lines, ran.returncode


def test_a_full_disk(tmp_path: pathlib.Path, broker: Broker, small_disk: pathlib.Path) -> None:
    server = broker({"log.dirs": str(small_disk / "data"), "log.index.size.max.bytes": "65536"})
    create(server, tmp_path)
    filler = small_disk / "filler"
    filler.write_bytes(b"\0" * (12 << 20))
    sent, failed, lines, status = fill(server, tmp_path, 20_000)
    assert status == 1
    assert sent + failed == 20_000
    assert failed > 0
    assert any("disk" in line.lower() for line in lines), lines
    filler.unlink()
    again, failed_again, lines, status = fill(server, tmp_path, 100)
    assert (again, failed_again, status) == (100, 0, 0), lines
    assert server.child.poll() is None
    # what was in flight when the delivery time was over counts as failed, and may be there all the same
    held = len(server.values("t"))
    assert sent + again <= held < 20_000 + again
    server.stop()
    server.start()
    assert len(server.values("t")) == held


def limited(home: pathlib.Path, size: int, output: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Runs `kt` with stdout to a file that cannot grow beyond a size: a full disk for the reader's output."""
    with output.open("wb") as file:
        return subprocess.run(
            [sys.executable, "-m", "kafkatools", *arguments],
            stdout=file,
            stderr=subprocess.PIPE,
            # the limit holds for every file: bytecode cut short would stay behind and break whoever reads it next
            env={**environment(home), "PYTHONDONTWRITEBYTECODE": "1"},
            timeout=60,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        )


@pytest.mark.parametrize("command", ["dump-log", "console-consumer"])
def test_output_that_cannot_be_written(tmp_path: pathlib.Path, broker: Broker, command: str) -> None:
    server = broker()
    create(server, tmp_path)
    sent, *_ = fill(server, tmp_path, 200)
    assert sent == 200
    arguments = {
        "dump-log": ("--files", str(server.directory / "t-0" / "00000000000000000000.log"), "--print-data-log"),
        "console-consumer": (
            *("--bootstrap-server", server.bootstrap, "--topic", "t"),
            *("--from-beginning", "--exit-at-end"),
        ),
    }[command]
    ran = limited(tmp_path, 4096, tmp_path / "out", command, *arguments)
    lines = error_lines(ran.stderr)
    assert ran.returncode == 1, lines
    assert os.path.getsize(tmp_path / "out") <= 4096
    assert sum("File too large" in line for line in lines) == 1, lines


def test_a_foreign_record_in_the_topic_of_transactions_is_reported(tmp_path: pathlib.Path, broker: Broker) -> None:
    """Only the client id of Kafka's tools may write there; the coordinator goes on, and says where the record is."""
    server = broker({"transaction.state.log.num.partitions": "1"})
    create(server, tmp_path)
    produce = ("console-producer", "--bootstrap-server", server.bootstrap)
    transaction = (*produce, "--topic", "t", "--command-property", "transactional.id=x")
    assert kt_process(tmp_path, *transaction, stdin=b"a\n").returncode == 0
    foreign = (*produce, "--topic", "__transaction_state", "--command-property", "client.id=__admin_client")
    foreign += ("--reader-property", "parse.key=true", "--reader-property", "key.separator=,")
    ran = kt_process(tmp_path, *foreign, stdin=b"k,not of a coordinator\n")
    assert ran.returncode == 0, ran.stderr.decode()
    server.stop()
    server.start()
    assert kt_process(tmp_path, *transaction, stdin=b"b\n").returncode == 0
    assert server.values("t") == [b"a", b"b"]
    told = [line for line in (tmp_path / "broker0" / "log").read_text().splitlines() if "__transaction_state-0" in line]
    assert len(told) == 1
    assert told[0].endswith(
        "__transaction_state-0 holds a record that no coordinator has written, which is skipped: "
        "Could not read version from key's buffer."
    )
