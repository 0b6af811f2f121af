"""Slices of topics by kt console-consumer: the same expected records from the embedded broker, from Apache Kafka, and
from the segment files that each of them is writing."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.ports import free_port
from support.raw_client import RawClient
from support.scripted_broker import ScriptedBroker, partition
from support.waiting import PATIENCE_S

import kafkatools
from kafkatools.exit_status import ExitStatus

pytestmark = pytest.mark.xdist_group("node_1")  # with a node of Apache Kafka, see tests/conftest.py
START = 1_700_000_000_000
MINUTE = 60_000
COUNT = 20


class Written(NamedTuple):
    """A running broker, and the log directory that it writes."""

    bootstrap: str
    directory: pathlib.Path


@pytest.fixture(scope="module", params=["embedded", "kafka"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """A broker with topics: `even` (partition 0 has even minutes, 1 odd ones), `late`, `gaps`, `empty`, `open`."""
    if request.param == "kafka":
        kafka = request.getfixturevalue("real_kafka")
        prepare(kafka.bootstrap)
        yield Written(kafka.bootstrap, kafka.log_dir())
        return
    directory: pathlib.Path = tmp_path_factory.mktemp("slices")
    with embedded_broker(directory, auto_create_topics_enable="false") as bootstrap:
        prepare(bootstrap)
        yield Written(bootstrap, directory)


@pytest.fixture
def broker(written: Written) -> str:
    return written.bootstrap


@pytest.fixture(params=["broker", "files"])
def source(request: pytest.FixtureRequest, written: Written) -> list[str]:
    """The options that name where the records come from."""
    if request.param == "files":
        return ["--from", f"log:{written.directory}"]
    return ["--bootstrap-server", written.bootstrap]


def prepare(bootstrap: str) -> None:
    with RawClient(bootstrap) as client:
        client.create_topic("even", 2)
        for first in range(0, COUNT, 5):
            for partition in (0, 1):
                minutes = [2 * number + partition for number in range(first, first + 5)]
                rows = [(START + minute * MINUTE, None, b"m%d" % minute, ()) for minute in minutes]
                client.produce_rows("even", partition, rows)
        client.create_topic("late")
        for minute in (0, 1, 5, 2, 6, 3, 7):
            client.produce_rows("late", 0, [(START + minute * MINUTE, None, b"m%d" % minute, ())])
        client.create_topic("gaps")
        client.create_topic("empty", 2)
        client.create_topic("open")
    settings = {"transactional.id": "slices"}
    with kafkatools.Producer(settings, bootstrap_servers=bootstrap) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            for part in "ab":
                producer.send("gaps", f"{number}{part}".encode())
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()


def test_the_open_transaction_at_the_end_is_named(written: Written, source: list[str]) -> None:
    options = ["--topic", "open", "--isolation-level", "read_committed"]
    with kafkatools.Producer({"transactional.id": "open"}, bootstrap_servers=written.bootstrap) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("open", b"sent")
        producer.flush()
        with kafkatools.Admin(bootstrap_servers=written.bootstrap) as admin:
            states = admin.describe_producers([("open", 0)])["open", 0]
        [state] = [state for state in states if state.transaction_start_offset >= 0]
        for more in (["--last", "5"], ["--from-beginning", "--exit-at-end"]):
            start = len(read([*source], "--topic", "open", *more).out.split()) - 1
            ran = read(source, *options, *more)
            assert ran.status == ExitStatus.OK
            assert "sent" not in ran.out.split()[start:]
            line = f"the transaction of producer {state.producer_id} that begins there is open"
            assert f"open-0 ends at offset {state.transaction_start_offset}: {line}" in ran.err
        producer.abort_transaction()


def consume(bootstrap: str, *args: str) -> Ran:
    return read(["--bootstrap-server", bootstrap], *args)


def read(source: list[str], *args: str) -> Ran:
    return run_kt("console-consumer", *source, *args)


def minutes(ran: Ran) -> list[int]:
    assert ran.status == ExitStatus.OK, ran.err
    return [int(line[1:]) for line in ran.out.split()]


def iso(minute: int) -> str:
    return str(START + minute * MINUTE)


EVEN, ODD = range(0, 40, 2), range(1, 40, 2)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--last", "3"], [34, 35, 36, 37, 38, 39]),
        (["--last", "3", "--partition", "1"], [35, 37, 39]),
        (["--last", "100"], range(40)),
        (["--last", "3", "--in-all"], [37, 38, 39]),
        (["--last", "1", "--in-all"], [39]),
        (["--last", "2", "--until", iso(30)], [26, 27, 28, 29]),
        (["--last", "2", "--since", iso(37)], [37, 38, 39]),
        (["--since", iso(36), "--exit-at-end"], [36, 37, 38, 39]),
        (["--since", iso(10), "--until", iso(13)], [10, 11, 12]),
        (["--until", iso(3)], [0, 1, 2]),
        (["--since", iso(100), "--until", iso(200)], []),
        (["--offset", "-2", "--exit-at-end"], [36, 37, 38, 39]),
        (["--offset", "+18", "--exit-at-end"], [36, 37, 38, 39]),
        (["--offset", "5:7"], [10, 11, 12, 13]),
        (["--offset", ":2"], [0, 1, 2, 3]),
        (["--offset", "-3:-1"], [34, 35, 36, 37]),
        (["--offset", "19:end"], [38, 39]),
        (["--offset", ":end"], range(40)),
        (["--offset", f"@{iso(10)}:{iso(12)}"], [10, 11]),
        (["--offset", "19:", "--exit-at-end"], [38, 39]),
    ],
)
def test_a_slice_has_exactly_its_records(source: list[str], options: list[str], expected: list[int]) -> None:
    ran = read(source, "--topic", "even", *options)
    printed = minutes(ran)
    assert sorted(printed) == list(expected)
    for parity in (0, 1):  # each partition in its order
        assert [minute for minute in printed if minute % 2 == parity] == [m for m in expected if m % 2 == parity]
    count = 1 if "--partition" in options else 2
    assert ran.err.splitlines()[-2:] == [
        f"complete: {count}/{count} partitions",
        f"Processed a total of {len(expected)} messages",
    ]


@pytest.mark.parametrize("options", [["--until", iso(39)], ["--offset", ":end"], ["--last", "15"]])
def test_order_time_merges_the_partitions(source: list[str], options: list[str]) -> None:
    printed = minutes(read(source, "--topic", "even", "--order", "time", *options))
    assert printed == sorted(printed)
    assert len(printed) == {"--until": 39, "--offset": 40, "--last": 30}[options[0]]


def test_order_time_that_is_cut_off_is_not_complete(source: list[str]) -> None:
    options = ("--topic", "even", "--order", "time", "--last", "5", "--max-messages", "3")
    for more, status in (((), ExitStatus.OK), (("--exit-at-end",), ExitStatus.FAILED)):
        ran = read(source, *options, *more)
        assert ran.status == status
        assert ran.out.split() == ["m30", "m31", "m32"]
        assert "complete: 0/2 partitions" in ran.err


def test_late_records_of_a_slice_by_time(source: list[str]) -> None:
    # Of minutes 0 1 5 2 6 3 7 the slice starts at 5, the first record at or after 2. From a broker it ends before 6;
    # in files the late 3 behind it is found too.
    ran = read(source, "--topic", "late", "--since", iso(2), "--until", iso(6))
    assert minutes(ran) == ([5, 2, 3] if source[0] == "--from" else [5, 2])
    for options in ([], ["--in-all"], ["--order", "time"]):  # a partition keeps its order
        assert minutes(read(source, "--topic", "late", "--last", "3", *options)) == [6, 3, 7]


@pytest.mark.parametrize(
    ("isolation", "count", "expected"),
    [
        ("read_committed", 1, ["4b"]),
        ("read_committed", 3, ["2b", "4a", "4b"]),
        ("read_committed", 6, ["0a", "0b", "2a", "2b", "4a", "4b"]),
        ("read_committed", 9, ["0a", "0b", "2a", "2b", "4a", "4b"]),
        ("read_uncommitted", 3, ["4b", "5a", "5b"]),
        ("read_uncommitted", 12, [f"{number}{part}" for number in range(6) for part in "ab"]),
    ],
)
def test_last_counts_records_not_offsets(source: list[str], isolation: str, count: int, expected: list[str]) -> None:
    ran = read(source, "--topic", "gaps", "--last", str(count), "--isolation-level", isolation)
    assert ran.status == ExitStatus.OK
    assert ran.out.split() == expected


def test_an_empty_topic_has_no_last_record(source: list[str]) -> None:
    for options in (["--last", "5"], ["--last", "5", "--in-all"], ["--until", "now"], ["--offset", ":end"]):
        ran = read(source, "--topic", "empty", *options)
        assert (ran.status, ran.out) == (ExitStatus.OK, "")
        assert "complete: 2/2 partitions" in ran.err


def test_a_range_beyond_the_log_says_where_the_log_ends(source: list[str]) -> None:
    ran = read(source, "--topic", "even", "--partition", "0", "--offset", "18:30")
    assert minutes(ran) == [36, 38]
    assert "even-0 ends at offset 20, before offset 30" in ran.err


def test_an_offset_beyond_the_log_is_refused(source: list[str]) -> None:
    options = [] if source[0] == "--from" else ["--timeout-ms", "100"]
    beyond = read(source, "--topic", "even", "--partition", "0", "--offset", "25", *options)
    assert beyond.status == ExitStatus.FAILED
    assert "Offset 25 is out of range: even-0 holds offsets 0 to 20" in beyond.err


def test_a_range_without_an_end_must_begin_in_the_only_log(broker: str) -> None:
    beyond = consume(broker, "--topic", "even", "--partition", "0", "--offset", "25:", "--timeout-ms", "100")
    assert beyond.status == ExitStatus.FAILED
    assert "Offset 25 is out of range: even-0 holds offsets 0 to 20" in beyond.err


def test_a_range_that_starts_beyond_a_log_waits_for_its_own_records(broker: str) -> None:
    with RawClient(broker) as client:
        client.create_topic("short", 2)
        reader = subprocess.Popen(
            [sys.executable, "-m", "kafkatools", "console-consumer", "--bootstrap-server", broker, "--topic", "short"]
            + ["--offset", "2:", "--max-messages", "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert reader.stderr is not None
        assert b"short-0 ends at offset 0, before offset 2" in reader.stderr.readline()
        for number in range(4):
            client.produce_rows("short", 0, [(START, None, b"%d" % number, ())])
        out, _ = reader.communicate(timeout=PATIENCE_S)
    assert out.split() == [b"2", b"3"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--since", "yesterday"], "Invalid value of --since: 'yesterday' is not a time"),
        (["--until", "1h"], "Invalid value of --until: '1h' is not a time"),
        (["--since", "-1h", "--until", "-2h"], "--until -2h is not after --since -1h"),
        (["--last", "0"], "--last 0 must be at least 1"),
        (["--in-all"], "--in-all needs --last"),
        (["--offset", "5:2"], "'5:2' ends before it starts"),
        (["--offset", "@x"], "'@x' is not a range of offsets or times"),
        (["--offset", "5"], "The partition is required when offset is specified."),
        (["--offset", "-5", "--since", "-1h"], "Options offset and since cannot be specified together."),
        (["--from-beginning", "--last", "5"], "Options from-beginning and last cannot be specified together."),
        (["--last", "5", "--group", "g"], "A consumer group starts at its committed offsets"),
        (["--order", "time"], "--order time needs an end"),
        (["--order", "time", "--offset", "3:"], "--order time needs an end"),
        (["--order", "time", "--exit-at-end", "--group", "g"], "--order time cannot be used with --group"),
        (["--order", "offset", "--last", "2"], "Invalid value of --order: 'offset'"),
        (["--since", "20261123"], "Invalid value of --since: '20261123' is not a time"),
    ],
)
def test_options_that_contradict_are_refused_before_anything_is_read(options: list[str], message: str) -> None:
    ran = consume("127.0.0.1:1", "--topic", "even", *options)
    assert (ran.status, ran.out) == (ExitStatus.USAGE, "")
    assert message in ran.err


@pytest.mark.parametrize(
    "options", [["--last", "3"], ["--offset", ":5"], ["--until", "now"], ["--exit-at-end", "--from-beginning"]]
)
def test_a_leader_that_is_away_ends_the_lookup_with_its_address(options: list[str]) -> None:
    gone = free_port()
    scripted = ScriptedBroker()
    scripted.nodes[2] = gone
    scripted.topics = [{"name": "even", "partitions": [partition(0, leader=2)]}]
    with scripted.in_background():
        ran = consume(scripted.bootstrap, "--topic", "even", "--timeout-ms", "1000", *options)
    assert ran.status == ExitStatus.FAILED
    assert f"Connection to node 2 (127.0.0.1:{gone}) failed: Connection refused" in ran.err
