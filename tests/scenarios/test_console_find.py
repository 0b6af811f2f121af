"""Finding and counting records by kt console-consumer, with the same expected records from the embedded broker and
Apache Kafka."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.raw_client import RawClient
from support.waiting import PATIENCE_S

import kafkatools
from kafkatools.core.producer.partitioners import partition_for_key
from kafkatools.exit_status import ExitStatus

pytestmark = pytest.mark.xdist_group("node_2")  # with a node of Apache Kafka, see tests/conftest.py
PARTITIONS = 3
KEYS = [f"user-{number}".encode() for number in range(150)]
ALL = ("--from-beginning", "--exit-at-end")
START = 1_700_000_000_000


@pytest.fixture(scope="module", params=["embedded", "kafka"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with topics whose keys are placed by murmur2, CRC-32, another number of partitions, or not at all."""
    if request.param == "kafka":
        bootstrap = request.getfixturevalue("real_kafka").bootstrap
        prepare(bootstrap)
        yield bootstrap
        return
    directory: pathlib.Path = tmp_path_factory.mktemp("find")
    with embedded_broker(directory, auto_create_topics_enable="false") as bootstrap:
        prepare(bootstrap)
        yield bootstrap


def prepare_topic(bootstrap: str, topic: str, place: Callable[[bytes], int] | None) -> None:
    with RawClient(bootstrap) as client:
        client.create_topic(f"find-{topic}", PARTITIONS)
        for part in range(PARTITIONS):
            rows: list[Any] = [
                (START + number, key, b"value of %d" % number, (("trace", b"t-%d" % number),))
                for number, key in enumerate(KEYS)
                if place is not None and place(key) == part
            ]
            if place is None:
                rows = [(START, None, b"value", ()), (START, None, None, ())] * 100
            if rows:
                client.produce_rows(f"find-{topic}", part, rows)


def prepare(bootstrap: str) -> None:
    prepare_topic(bootstrap, "hashed", lambda key: partition_for_key(key, PARTITIONS))
    prepare_topic(bootstrap, "consistent", lambda key: zlib.crc32(key) % PARTITIONS)
    prepare_topic(bootstrap, "grown", lambda key: partition_for_key(key, 2))
    prepare_topic(bootstrap, "scattered", lambda key: len(key) % PARTITIONS)
    prepare_topic(bootstrap, "unkeyed", None)
    with RawClient(bootstrap) as client:
        client.create_topic("find-gaps")
    settings = {"transactional.id": "find"}
    with kafkatools.Producer(settings, bootstrap_servers=bootstrap) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            producer.send("find-gaps", f"{number}".encode())
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()


def consume(bootstrap: str, topic: str, *options: str) -> Ran:
    return run_kt("console-consumer", "--bootstrap-server", bootstrap, "--topic", f"find-{topic}", *options)


def values(ran: Ran) -> list[str]:
    assert ran.status == ExitStatus.OK, ran.err
    return sorted(ran.out.splitlines())


@pytest.mark.parametrize(("topic", "name"), [("hashed", "murmur2"), ("consistent", "CRC-32")])
def test_a_key_is_read_from_its_partition_only(broker: str, topic: str, name: str) -> None:
    for number in (0, 17, 149):
        ran = consume(broker, topic, "--key", f"user-{number}", *ALL)
        assert values(ran) == [f"value of {number}"]
        key = KEYS[number]
        part = partition_for_key(key, PARTITIONS) if topic == "hashed" else zlib.crc32(key) % PARTITIONS
        assert f"Reading only find-{topic}-{part}: {name}" in ran.err
        assert "complete: 1/1 partitions" in ran.err


@pytest.mark.parametrize(
    ("topic", "key", "expected", "reason"),
    [
        ("grown", "user-17", ["value of 17"], "fits neither murmur2"),
        ("scattered", "user-17", ["value of 17"], "fits neither murmur2"),
        ("unkeyed", "user-17", [], "too few different keys"),
        ("consistent", "", [], "an empty key may be in any of them"),
    ],
)
def test_without_proof_all_partitions_are_read(
    broker: str, topic: str, key: str, expected: list[str], reason: str
) -> None:
    ran = consume(broker, topic, "--key", key, *ALL)
    assert values(ran) == expected
    assert f"Reading all 3 partitions of find-{topic}: " in ran.err
    assert reason in ran.err
    assert "complete: 3/3 partitions" in ran.err


def test_without_a_key_all_partitions_are_read(broker: str) -> None:
    with RawClient(broker) as client:
        client.create_topic("find-nothing", PARTITIONS)
    ran = consume(broker, "nothing", "--key", "user-1", *ALL)
    assert values(ran) == []
    assert "Reading all 3 partitions of find-nothing: there are no keys yet that tell" in ran.err


def test_a_named_partition_is_read_without_a_sample(broker: str) -> None:
    part = partition_for_key(KEYS[5], PARTITIONS)
    for number in range(PARTITIONS):
        ran = consume(broker, "hashed", "--key", "user-5", "--partition", str(number), *ALL)
        assert values(ran) == (["value of 5"] if number == part else [])
        assert "Reading" not in ran.err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--grep", "of 12$"], [12]),
        (["--grep", "user-12$"], [12]),
        (["--grep", "^t-12$"], [12]),
        (["--grep", "user-12$", "--grep-in", "value,headers"], []),
        (["--grep", "T-14[0-9]"], []),
        (["--grep", "T-14[0-9]", "-i"], range(140, 150)),
        (["--grep", "trace", "--grep-in", "headers"], range(150)),
        (["--grep", "of (7|70|9)$", "--grep-in", "value"], [7, 9, 70]),
        (["--grep", "-3$", "--key", "user-3"], [3]),
        (["--grep", "-3$", "--key", "user-4"], []),
    ],
)
def test_grep_prints_the_matching_records(broker: str, options: list[str], expected: list[int]) -> None:
    ran = consume(broker, "hashed", *options, *ALL)
    assert values(ran) == sorted(f"value of {number}" for number in expected)
    assert ran.err.splitlines()[-1] == f"Processed a total of {len(expected)} messages"
    assert ran.err.splitlines()[-2].startswith("Searched ")
    assert ran.err.splitlines()[-2].endswith(f": {len(expected)} found")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--where", "key = 'user-12'"], [12]),
        (["--where", f"timestamp < to_timestamp({START // 1000}) + INTERVAL 3 MILLISECOND"], [0, 1, 2]),
        (["--where", "header(headers, 'trace') IN ('t-8', 't-9') AND offset >= 0"], [8, 9]),
        (["--where", "value LIKE '%7'", "--grep", "of 1"], [17, 107, 117, 127, 137, 147]),
    ],
)
def test_where_prints_the_records_for_which_a_condition_is_true(
    broker: str, options: list[str], expected: list[int]
) -> None:
    pytest.importorskip("duckdb")
    assert values(consume(broker, "hashed", *options, *ALL)) == sorted(f"value of {number}" for number in expected)


def test_where_counts_values_that_are_not_json(broker: str) -> None:
    pytest.importorskip("duckdb")
    ran = consume(broker, "hashed", "--where", "value->>'user' = 'a'", *ALL)
    assert values(ran) == []
    assert "--where: 150 values are not JSON; the condition is null for them" in ran.err


def test_a_search_says_how_far_it_looked(broker: str) -> None:
    counts = [sum(partition_for_key(key, PARTITIONS) == part for key in KEYS) for part in range(PARTITIONS)]
    ranges = ", ".join(f"find-hashed-{part} offsets 0 to {count - 1}" for part, count in enumerate(counts))
    ran = consume(broker, "hashed", "--grep", "nothing", *ALL)
    assert ran.status == ExitStatus.OK
    assert f"Searched 150 records of 3 partitions ({ranges}): 0 found\n" in ran.err
    ran = consume(broker, "hashed", "--grep", "nothing", "--json", *ALL)
    [row] = [row for row in map(json.loads, ran.err.splitlines()) if "searched" in row]
    assert (row["searched"], row["found"]) == (150, 0)
    assert [part["records"] for part in row["partitions"]] == counts
    assert [part["last_offset"] for part in row["partitions"]] == [count - 1 for count in counts]


def test_ctrl_c_says_how_far_a_search_looked(broker: str) -> None:
    command = [sys.executable, "-m", "kafkatools", "console-consumer", "--bootstrap-server", broker]
    command += ["--topic", "find-hashed", "--grep", "^value of 12$", "--from-beginning"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"value of 12\n"  # it waits for new records now
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == ExitStatus.INTERRUPTED
    [line] = [line for line in stderr.decode().splitlines() if line.startswith("Searched ")]
    assert line.endswith(": 1 found")


def test_a_search_composes_with_slices_limits_and_order(broker: str) -> None:
    ran = consume(broker, "hashed", "--grep", "of 1", "--since", str(START + 10), "--until", str(START + 13))
    assert values(ran) == ["value of 10", "value of 11", "value of 12"]
    ran = consume(broker, "hashed", "--grep", "of 14", "--order", "time", *ALL)
    assert ran.out.splitlines() == [f"value of {number}" for number in (14, *range(140, 150))]
    ran = consume(broker, "hashed", "--grep", "value", "--max-messages", "4", "--from-beginning")
    assert len(values(ran)) == 4
    assert ": 4 found" in ran.err


@pytest.mark.parametrize(
    ("topic", "options", "expected"),
    [
        ("hashed", [], 150),
        ("hashed", ["--grep", "of 14"], 11),
        ("hashed", ["--key", "user-9"], 1),
        ("hashed", ["--last", "5"], 15),
        ("hashed", ["--since", str(START + 100)], 50),
        ("hashed", ["--max-messages", "7"], 7),
        ("hashed", ["--grep", "no such text"], 0),
        ("gaps", [], 6),
        ("gaps", ["--isolation-level", "read_committed"], 3),
        ("gaps", ["--partition", "0", "--offset", "2"], 5),
        ("unkeyed", [], 600),
    ],
)
def test_count_prints_the_number_of_records(broker: str, topic: str, options: list[str], expected: int) -> None:
    ran = consume(broker, topic, "--count", *options)
    assert ran.status == ExitStatus.OK, ran.err
    assert ran.out == f"{expected}\n"


@pytest.mark.parametrize("options", [["--grep", "of 14"], ["--key", "user-9"], ["--grep", "T-7", "-i"]])
def test_files_give_the_same_records(tmp_path: pathlib.Path, options: list[str]) -> None:
    with embedded_broker(tmp_path) as bootstrap:
        prepare_topic(bootstrap, "hashed", lambda key: partition_for_key(key, PARTITIONS))
        expected = consume(bootstrap, "hashed", *options, *ALL)
    ran = run_kt("console-consumer", "--from", f"log:{tmp_path}", "--topic", "find-hashed", *options)
    assert values(ran) == values(expected) != []
    assert [line for line in ran.err.splitlines() if "Searched" in line or "Reading" in line] == [
        line for line in expected.err.splitlines() if "Searched" in line or "Reading" in line
    ]


def test_count_by_partition(broker: str) -> None:
    ran = consume(broker, "hashed", "--count", "--key", "user-9", "--json")
    part = partition_for_key(KEYS[9], PARTITIONS)
    assert [json.loads(line) for line in ran.out.splitlines()] == [
        {"topic": "find-hashed", "partition": part, "count": 1}
    ]
    ran = consume(broker, "hashed", "--count", "--grep", "nothing", "--json")
    assert [json.loads(line)["count"] for line in ran.out.splitlines()] == [0, 0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--grep", "[a"], "Invalid value of --grep: unterminated character set at position 0"),
        (["--grep", "a", "--grep-in", "val"], "Invalid value of --grep-in: 'val' is not key, value, headers"),
        (["--grep-in", "key"], "--grep-in needs --grep"),
        (["--where", "valu = 'a'"], 'Invalid value of --where: column 1: Referenced column "valu" not found'),
        (["--where", "count(*) > 3"], "Invalid value of --where: a condition is about one record"),
        (["-i"], "--ignore-case needs --grep"),
        (["--count", "--group", "g"], "Options count and group cannot be specified together."),
        (["--count", "--format", "%s"], "Options count and format cannot be specified together."),
    ],
)
def test_wrong_options_end_before_anything_is_read(options: list[str], message: str) -> None:
    ran = run_kt("console-consumer", "--bootstrap-server", "127.0.0.1:1", "--topic", "orders", *options)
    assert ran.status == ExitStatus.USAGE
    assert message in ran.err
