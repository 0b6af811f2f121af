"""kt redrive against an embedded broker: what comes back, once, and what stays."""

from __future__ import annotations

import json
import pathlib
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.dead_letters import dead_letters
from support.kt import Ran, run_kt
from support.kt_process import environment
from support.raw_transactions import RawProducer
from support.skipping_clock import SkippingClock
from support.waiting import eventually

from kafkatools.commands.redrive import run_redrive
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import fetch_offsets
from kafkatools.core.clock import Clock, SystemClock
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.tools.copying import transactions
from kafkatools.tools.perf.throughput_throttler import ThroughputThrottler
from kafkatools.tools.redrive import progress
from kafkatools.tools.redrive.offset_ranges import OffsetRanges
from kafkatools.tools.redrive.redriver import Redriver

FRAMEWORKS = ("spring.dlt", "spring-dlt", "streams.dlq", "connect.dlq")
START = 1_700_000_000_000
ATTEMPT = ["kt-redrive-attempts", "1"]


@pytest.fixture(scope="module", autouse=True)
def orders(bootstrap: str) -> Iterator[None]:
    """The topic from which the recorded dead letters came."""
    create(bootstrap, "orders", 3)
    yield


def kt(bootstrap: str, command: str, *words: str, **options: Any) -> Ran:
    return run_kt(command, *words, "--bootstrap-server", bootstrap, **options)


def create(bootstrap: str, topic: str, partitions: int = 1, *words: str) -> None:
    assert kt(bootstrap, "topics", "--create", "--topic", topic, "--partitions", str(partitions), *words).status == 0


def redrive(bootstrap: str, topic: str, *words: str, **options: Any) -> Ran:
    return kt(bootstrap, "redrive", topic, *words, **options)


def records(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """The committed records of a topic by partition, in their order."""
    ran = kt(
        bootstrap, "console-consumer", "--topic", topic, "--exit-at-end", "--json", "--from-beginning",
        "--isolation-level", "read_committed",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    return sorted(map(json.loads, ran.out.splitlines()), key=lambda row: (row["partition"], row["offset"]))


def values(bootstrap: str, topic: str) -> list[str]:
    return sorted(row["value"] for row in records(bootstrap, topic))


def streams_headers(topic: str, partition: int = 0, offset: int = 0, error: str = "E") -> list[tuple[str, bytes]]:
    """What Kafka Streams adds to a record that failed."""
    return [
        ("__streams.errors.exception", error.encode()),
        ("__streams.errors.message", b"because of " + error.encode()),
        ("__streams.errors.topic", topic.encode()),
        ("__streams.errors.partition", b"%d" % partition),
        ("__streams.errors.offset", b"%d" % offset),
    ]


def fill(bootstrap: str, topic: str, target: str, count: int = 40, partitions: int = 2, **settings: Any) -> None:
    """Dead letters in turn on the partitions, with the values `value 0` and so on and three exceptions in turn."""
    with Producer(bootstrap_servers=bootstrap, **settings) as producer:
        for number in range(count):
            headers = streams_headers(target, 0, number, f"com.example.Error{number % 3}")
            key, value = b"key %d" % (number % 7), b"value %d" % number
            producer.send(ProducerRecord(topic, value, key, number % partitions, START + number * 1000, headers))


def letter(bootstrap: str, topic: str, value: bytes, headers: Any, key: bytes | None = b"k", at: int = START) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(ProducerRecord(topic, value, key, 0, at, headers))


def test_recorded_dead_letters_of_each_framework_come_back_once(bootstrap: str) -> None:
    create(bootstrap, "all-frameworks")
    with Producer(bootstrap_servers=bootstrap) as producer:
        for topic in FRAMEWORKS:
            for record in dead_letters(topic):
                headers = [(name.decode(), value) for name, value in record.headers]
                producer.send(ProducerRecord("all-frameworks", record.value, record.key, 0, record.timestamp, headers))
    ran = redrive(bootstrap, "all-frameworks")
    assert (ran.status, ran.err.splitlines()) == (
        0,
        [
            "No earlier run is known: the group kt-redrive-all-frameworks has no progress of the present topic "
            "all-frameworks. What an earlier run sent would be sent again; --since selects new records.",
            "Sent back a total of 8 records",
        ],
    )
    assert ran.out.splitlines()[0] == (
        "orders: 6 records of java.lang.IllegalStateException; for example all-frameworks-0 offset 0 "
        "(from offset 0 of partition 2), key alice: Listener failed; no such customer"
    )
    sent = records(bootstrap, "orders")
    alice = {"timestamp": START, "key": "alice", "value": '{"user": "alice"', "headers": [["trace", "t-1"], ATTEMPT]}
    bob = {"timestamp": START + 1, "key": None, "value": '{"user": "bob"', "headers": [ATTEMPT]}
    shown = [{name: row[name] for name in alice} for row in sent]
    assert sorted(shown, key=str) == sorted([alice, bob] * 4, key=str)
    again = redrive(bootstrap, "all-frameworks")
    assert (again.status, again.out, again.err) == (0, "", "Sent back a total of 0 records\n")
    assert len(records(bootstrap, "orders")) == 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words", "selected"),
    [
        ("exception", ("--exception", "example.error1"), lambda n: n % 3 == 1),
        ("message", ("--exception", "because of com.example.Error2"), lambda n: n % 3 == 2),
        ("key", ("--key", "key 3"), lambda n: n % 7 == 3),
        ("grep", ("--grep", "^VALUE .[05]$", "--grep-in", "value", "-i"), lambda n: n > 9 and n % 5 == 0),
        ("where", ("--where", "key = 'key 1' AND offset < 10"), lambda n: n % 7 == 1 and n // 2 < 10),
        ("since", ("--since", str(START + 30_000)), lambda n: n >= 30),
        ("until", ("--until", str(START + 30_000)), lambda n: n < 30),
        ("last", ("--last", "3"), lambda n: n >= 34),
        ("offset", ("--offset", "5:7"), lambda n: n // 2 in (5, 6)),
        ("partition", ("--partition", "1", "--offset", "-4"), lambda n: n % 2 == 1 and n >= 32),
    ],
)
def test_a_selection_and_then_the_rest_come_back_once(bootstrap: str, name: str, words: Any, selected: Any) -> None:
    topic, target = f"dead-{name}", f"live-{name}"
    create(bootstrap, topic, 2)
    create(bootstrap, target, 2)
    fill(bootstrap, topic, target)
    expected = [f"value {number}" for number in range(40) if selected(number)]
    ran = redrive(bootstrap, topic, *words)
    assert (ran.status, ran.err.splitlines()[-1]) == (0, f"Sent back a total of {len(expected)} records")
    assert values(bootstrap, target) == sorted(expected)
    assert redrive(bootstrap, topic, *words).err.splitlines()[-1] == "Sent back a total of 0 records"
    ran = redrive(bootstrap, topic)
    assert ran.err.splitlines()[-1] == f"Sent back a total of {40 - len(expected)} records"
    assert values(bootstrap, target) == sorted(f"value {number}" for number in range(40))


def test_a_dry_run_counts_by_target_and_exception_and_changes_nothing(bootstrap: str) -> None:
    create(bootstrap, "dead-dry", 2)
    create(bootstrap, "live-dry")
    fill(bootstrap, "dead-dry", "live-dry")
    ran = redrive(bootstrap, "dead-dry", "--dry-run", "--json", "--until", str(START + 10_000))
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [(row["target"], row["exception"], row["records"], row["sent"]) for row in rows] == [
        ("live-dry", "com.example.Error0", 4, False),
        ("live-dry", "com.example.Error1", 3, False),
        ("live-dry", "com.example.Error2", 3, False),
    ]
    assert rows[1]["sample"] in (
        {"partition": 1, "offset": 0, "origin_partition": 0, "origin_offset": 1, "key": "key 1",
         "message": "because of com.example.Error1"},
        {"partition": 0, "offset": 2, "origin_partition": 0, "origin_offset": 4, "key": "key 4",
         "message": "because of com.example.Error1"},
    )  # fmt: skip
    assert values(bootstrap, "live-dry") == []
    assert "kt-redrive-dead-dry" not in kt(bootstrap, "consumer-groups", "--list").out


@pytest.mark.slow
def test_records_that_cannot_be_sent_back_stay_and_are_named(bootstrap: str) -> None:
    create(bootstrap, "dead-left", 1, "--config", "max.message.bytes=2000000")
    create(bootstrap, "live-left")
    create(bootstrap, "small", 1, "--config", "max.message.bytes=200")
    create(bootstrap, "compacted", 1, "--config", "cleanup.policy=compact")
    create(bootstrap, "recent", 1, "--config", "message.timestamp.before.max.ms=60000")
    for value, headers, key in (
        (b"0", (), b"k"),
        (b"1", streams_headers("live-left"), b"k"),
        (b"2", streams_headers("gone"), b"k"),
        (b"3", streams_headers("dead-left"), b"k"),
        (b"4" * 200, streams_headers("small"), b"k"),
        (b"5", streams_headers("compacted"), None),
        (b"6", streams_headers("__consumer_offsets"), b"k"),
        (b"7", streams_headers("no such name!"), b"k"),
        (b"8", (), b"k"),
        (b"9", streams_headers("recent"), b"k"),
    ):
        letter(bootstrap, "dead-left", value, headers, key)
    ran = redrive(bootstrap, "dead-left")
    assert (ran.status, [line.rpartition(";")[0] for line in ran.out.splitlines()]) == (3, ["live-left: 1 record of E"])
    assert ran.err.splitlines()[1:] == [
        "Left 2 records of dead-left-0, offsets 0, 8: no header names the original topic; "
        "see --to, --origin-header and --from-suffix",
        "Left 1 record of dead-left-0, offset 2: topic gone does not exist",
        "Left 1 record of dead-left-0, offset 3: the target is the dead-letter topic itself",
        "Left 1 record of dead-left-0, offset 4: larger than max.message.bytes=200 of small",
        "Left 1 record of dead-left-0, offset 5: without a key, and compacted is compacted",
        "Left 1 record of dead-left-0, offset 6: topic __consumer_offsets is internal",
        "Left 1 record of dead-left-0, offset 7: no topic can have the name 'no such name!'",
        "Left 1 record of dead-left-0, offset 9: older than message.timestamp.before.max.ms=60000 of recent; "
        "see --timestamp",
        "Sent back a total of 1 record; left 9 records",
    ]
    rows = [json.loads(line) for line in redrive(bootstrap, "dead-left", "--json").out.splitlines()]
    assert [(row["reason"], row["offsets"]) for row in rows] == [
        ("no_origin", [[0, 0], [8, 8]]),
        ("missing_target", [[2, 2]]),
        ("target_is_dlq", [[3, 3]]),
        ("too_large", [[4, 4]]),
        ("no_key", [[5, 5]]),
        ("unusable_target", [[6, 6]]),
        ("unusable_target", [[7, 7]]),
        ("timestamp", [[9, 9]]),
    ]
    assert redrive(bootstrap, "dead-left", "--to", "live-left").status == 0
    assert [value[0] for value in values(bootstrap, "live-left")] == list("0123456789")


def test_names_that_no_topic_can_have_are_left(bootstrap: str) -> None:
    for topic in ("odd-names.DLT", "odd-names"):
        create(bootstrap, topic)
    for name in ("y" * 40_000, "two\nlines", "odd-names"):
        letter(bootstrap, "odd-names.DLT", b"v", streams_headers(name))
    ran = redrive(bootstrap, "odd-names.DLT")
    assert ran.status == 3
    assert ran.out.startswith("odd-names: 1 record")
    assert ran.err.splitlines()[1:] == [
        f"Left 1 record of odd-names.DLT-0, offset 0: no topic can have the name '{'y' * 60}...'",
        r"Left 1 record of odd-names.DLT-0, offset 1: no topic can have the name 'two\nlines'",
        "Sent back a total of 1 record; left 2 records",
    ]


@pytest.mark.slow
def test_partition_timestamp_and_headers_follow_the_options(bootstrap: str) -> None:
    for topic in ("dead-how", "live-how"):
        create(bootstrap, topic, 3)
    spring = [(name.decode(), value) for name, value in dead_letters("spring.dlt")[0].headers]
    spring = [(name, b"live-how" if name == "kafka_dlt-original-topic" else value) for name, value in spring]
    for number in range(4):
        letter(bootstrap, "dead-how", b"%d" % number, spring, b"key", START + 60_000)
    for words in ((), ("--timestamp", "dlq"), ("--same-partition",), ("--keep-headers",)):
        assert redrive(bootstrap, "dead-how", *words, "--max-messages", "1").status == 0
    with Producer(bootstrap_servers=bootstrap) as producer:
        by_key = producer.send(ProducerRecord("live-how", b"by key", b"key", timestamp=1)).get(10_000).partition
    rows = {row["value"]: row for row in records(bootstrap, "live-how")}
    assert [(rows[n]["partition"], rows[n]["timestamp"]) for n in "0123"] == [
        (by_key, START), (by_key, START + 60_000), (2, START), (by_key, START),
    ]  # fmt: skip
    assert by_key != 2
    assert [name for name, _ in rows["3"]["headers"]] == [*(name for name, _ in spring), "kt-redrive-attempts"]
    assert rows["2"]["headers"] == [["trace", "t-1"], ATTEMPT]


def test_original_partitions_that_the_target_lacks_are_left(bootstrap: str) -> None:
    create(bootstrap, "dead-narrow")
    create(bootstrap, "live-narrow")
    letter(bootstrap, "dead-narrow", b"0", streams_headers("live-narrow", 7))
    letter(bootstrap, "dead-narrow", b"1", [("origin", b"live-narrow")])
    ran = redrive(bootstrap, "dead-narrow", "--same-partition", "--origin-header", "origin")
    assert (ran.status, ran.err.splitlines()[1:3]) == (
        3,
        [
            "Left 1 record of dead-narrow-0, offset 0: live-narrow has 1 partitions, and the original one is 7",
            "Left 1 record of dead-narrow-0, offset 1: no header has the original partition",
        ],
    )
    assert redrive(bootstrap, "dead-narrow", "--origin-header", "origin").status == 0
    assert values(bootstrap, "live-narrow") == ["0", "1"]


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_many_records_fit_into_a_target_with_small_batches(bootstrap: str, codec: str) -> None:
    create(bootstrap, f"dead-batch-{codec}")
    create(bootstrap, f"live-batch-{codec}", 1, "--config", "max.message.bytes=300")
    fill(bootstrap, f"dead-batch-{codec}", f"live-batch-{codec}", 200, 1, compression_type=codec)
    ran = redrive(bootstrap, f"dead-batch-{codec}")
    assert (ran.status, ran.err.splitlines()[-1]) == (0, "Sent back a total of 200 records")
    assert [row["value"] for row in records(bootstrap, f"live-batch-{codec}")] == [f"value {n}" for n in range(200)]


@pytest.mark.slow
def test_the_target_is_inferred_from_the_name_on_request(bootstrap: str) -> None:
    create(bootstrap, "payments")
    create(bootstrap, "payments.DLT")
    letter(bootstrap, "payments.DLT", b"x", ())
    assert redrive(bootstrap, "payments.DLT").status == 3
    assert redrive(bootstrap, "payments.DLT", "--from-suffix", ".DLT").status == 0
    assert values(bootstrap, "payments") == ["x"]


@pytest.mark.slow
def test_records_that_came_back_too_often_are_left(bootstrap: str) -> None:
    create(bootstrap, "dead-often")
    create(bootstrap, "live-often")
    for attempts in (b"1", b"2", b"many"):
        letter(bootstrap, "dead-often", attempts, [*streams_headers("live-often"), ("kt-redrive-attempts", attempts)])
    ran = redrive(bootstrap, "dead-often", "--max-attempts", "2")
    assert (ran.status, ran.err.splitlines()[1:3]) == (
        3,
        [
            "Left 1 record of dead-often-0, offset 1: sent back --max-attempts times already",
            "Left 1 record of dead-often-0, offset 2: the header kt-redrive-attempts is not a number",
        ],
    )
    assert [row["headers"] for row in records(bootstrap, "live-often")] == [[["kt-redrive-attempts", "2"]]]
    assert redrive(bootstrap, "dead-often").status == 0
    assert [row["headers"][0][1] for row in records(bootstrap, "live-often")] == ["2", "3", "1"]


@pytest.mark.slow
def test_transactions_of_the_dead_letter_topic_leave_no_gaps_in_the_progress(bootstrap: str) -> None:
    """Markers and aborted records have no offsets to send back, and an open transaction ends the run."""
    create(bootstrap, "dead-txn")
    create(bootstrap, "live-txn")
    words = ("dead-txn", "--to", "live-txn")
    for count in range(6):
        transaction(bootstrap, f"t{count}", "dead-txn", committed=count % 2 == 0)
    assert redrive(bootstrap, *words).err.splitlines()[-1] == "Sent back a total of 3 records"
    assert progress_of(bootstrap, "dead-txn") == [(0, 12)]
    with RawProducer(bootstrap, "two") as two:
        two.send("dead-txn", 0, [START])
        transaction(bootstrap, "t6", "dead-txn", committed=True)
        ran = redrive(bootstrap, *words)
        assert (ran.status, "dead-txn-0 ends at offset 12: the transaction" in ran.err) == (0, True), ran.err
        two.end(committed=True)
    assert redrive(bootstrap, *words).err.splitlines()[-1] == "Sent back a total of 2 records"


def transaction(bootstrap: str, name: str, topic: str, *, committed: bool) -> None:
    """A transaction with one record."""
    with RawProducer(bootstrap, name) as producer:
        producer.send(topic, 0, [START])
        producer.end(committed=committed)


def progress_of(bootstrap: str, topic: str, partition: int = 0) -> list[tuple[int, int]]:
    """The stored ranges of offsets that were sent back."""
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        committed = fetch_offsets(admin, [f"kt-redrive-{topic}"])[f"kt-redrive-{topic}"].offsets[topic, partition]
    ranges = OffsetRanges.decoded(json.loads(committed.metadata)["done"], committed.offset)
    ranges.add(0, committed.offset)
    return list(ranges)


@pytest.mark.slow
def test_many_gaps_go_on_in_further_groups_and_too_many_are_refused(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(bootstrap, "dead-gaps")
    create(bootstrap, "live-gaps")
    fill(bootstrap, "dead-gaps", "live-gaps", 600, 1)
    chosen = sorted(random.Random(3).sample(range(600), 250))
    words = ("--where", f"offset IN ({', '.join(map(str, chosen))})")
    monkeypatch.setattr(progress, "_PAGE_CHARACTERS", 40)
    with monkeypatch.context() as patch:
        patch.setattr(progress, "_MOST_PAGES", 2)
        ran = redrive(bootstrap, "dead-gaps", *words)
        assert (ran.status, ran.err.splitlines()[1][:68]) == (
            1,
            "0 records were sent back, then: dead-gaps-0: there are too many gaps",
        )
        assert values(bootstrap, "live-gaps") == []
    assert redrive(bootstrap, "dead-gaps", *words).status == 0
    assert values(bootstrap, "live-gaps") == sorted(f"value {number}" for number in chosen)
    assert "kt-redrive-dead-gaps:3" in kt(bootstrap, "consumer-groups", "--list").out.split()
    assert redrive(bootstrap, "dead-gaps").err.splitlines()[-1] == "Sent back a total of 350 records"
    assert values(bootstrap, "live-gaps") == sorted(f"value {number}" for number in range(600))


def test_offsets_that_were_reset_are_sent_back_again(bootstrap: str) -> None:
    create(bootstrap, "dead-reset")
    create(bootstrap, "live-reset")
    fill(bootstrap, "dead-reset", "live-reset", 5, 1)
    assert redrive(bootstrap, "dead-reset").status == 0
    reset = ("--reset-offsets", "--group", "kt-redrive-dead-reset", "--topic", "dead-reset", "--to-offset", "3")
    assert kt(bootstrap, "consumer-groups", *reset, "--execute", "--no-undo-file").status == 0
    assert redrive(bootstrap, "dead-reset").err == "Sent back a total of 2 records\n"


@pytest.mark.slow
def test_records_after_a_lost_end_of_the_log_are_sent(bootstrap: str) -> None:
    """The stored offset is beyond the end of the log, as after an unclean leader election."""
    create(bootstrap, "dead-lost")
    create(bootstrap, "live-lost")
    fill(bootstrap, "dead-lost", "live-lost", 5, 1)
    with Producer(bootstrap_servers=bootstrap, transactional_id="lost") as producer, producer.transaction():
        group = ConsumerGroupMetadata("kt-redrive-dead-lost")
        producer.send_offsets_to_transaction({("dead-lost", 0): OffsetAndMetadata(9)}, group)
    ran = redrive(bootstrap, "dead-lost")
    assert (ran.status, ran.err.splitlines()[0]) == (
        0,
        "dead-lost-0 lost records that were sent back: it ends at offset 5 now",
    )
    fill(bootstrap, "dead-lost", "live-lost", 2, 1)
    assert redrive(bootstrap, "dead-lost").err == "Sent back a total of 2 records\n"


def test_a_second_run_ends_the_first_one(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run begins before the first one commits, and sends what the first one could not."""
    create(bootstrap, "dead-twice")
    create(bootstrap, "live-twice")
    fill(bootstrap, "dead-twice", "live-twice", 5, 1)
    commit, second = transactions.ProgressTransactions.commit, []

    def commit_late(self: transactions.ProgressTransactions, offsets: Any, now_ms: int) -> None:
        monkeypatch.setattr(transactions.ProgressTransactions, "commit", commit)
        second.append(redrive(bootstrap, "dead-twice"))
        commit(self, offsets, now_ms)

    monkeypatch.setattr(transactions.ProgressTransactions, "commit", commit_late)
    first = redrive(bootstrap, "dead-twice")
    assert (first.status, second[0].status) == (1, 0)
    assert first.err.splitlines()[-2].startswith("0 records were sent back, then: ")
    assert values(bootstrap, "live-twice") == [f"value {number}" for number in range(5)]


@pytest.mark.slow
def test_records_of_a_new_topic_of_the_same_name_are_not_sent(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_anew(value: bytes) -> None:
        create(bootstrap, "replaced.DLT")
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(4000):
                producer.send(ProducerRecord("replaced.DLT", value * 1000, b"%d" % number, 0))

    class Replaced(Redriver):
        fetches = 0

        def _take(self, fetched: FetchedColumns, throttle: ThroughputThrottler, clock: Clock) -> None:
            super()._take(fetched, throttle, clock)
            self.fetches += 1
            if self.fetches == 1:
                kt(bootstrap, "topics", "--delete", "--topic", "replaced.DLT")
                fill_anew(b"b")

    create(bootstrap, "replaced")
    fill_anew(b"a")
    monkeypatch.setattr(run_redrive, "Redriver", Replaced)
    ran = redrive(bootstrap, "replaced.DLT", "--to", "replaced")
    message = "0 records were sent back, then: Topic replaced.DLT was deleted and recreated while it was read"
    assert (ran.status, message in ran.err) == (1, True), ran
    assert records(bootstrap, "replaced") == []


def test_a_topic_that_was_created_again_starts_anew(bootstrap: str) -> None:
    create(bootstrap, "live-anew")
    for _ in range(2):
        create(bootstrap, "dead-anew")
        fill(bootstrap, "dead-anew", "live-anew", 5, 1)
        assert redrive(bootstrap, "dead-anew").err.splitlines()[-1] == "Sent back a total of 5 records"
        assert kt(bootstrap, "topics", "--delete", "--topic", "dead-anew").status == 0


class _SleeplessClock(SkippingClock):
    def sleep_ms(self, duration_ms: int) -> None:
        self.skip_ms(max(0, duration_ms))


def test_the_rate_is_limited(bootstrap: str) -> None:
    create(bootstrap, "dead-slow")
    create(bootstrap, "live-slow")
    fill(bootstrap, "dead-slow", "live-slow", 21, 1)
    clock = _SleeplessClock()
    started_ms = clock.now_ms()
    assert redrive(bootstrap, "dead-slow", "--throttle", "2", clock=clock).status == 0
    assert clock.now_ms() - started_ms >= 10_000
    assert len(values(bootstrap, "live-slow")) == 21


_SMALL_TRANSACTIONS = (
    "import kafkatools.tools.copying.transactions as transactions, kafkatools.__main__ as program\n"
    "transactions._MOST_UNCOMMITTED = 1\n"
    "program.main()"
)


@pytest.mark.slow
def test_a_killed_run_goes_on_without_loss_and_without_duplicates(bootstrap: str, tmp_path: pathlib.Path) -> None:
    create(bootstrap, "dead-killed", 2)
    create(bootstrap, "live-killed", 2)
    fill(bootstrap, "dead-killed", "live-killed", 3000, batch_size=2000)
    (tmp_path / "slow.properties").write_text("max.partition.fetch.bytes=2000\nfetch.max.bytes=2000\n")
    words = ["redrive", "dead-killed", "--bootstrap-server", bootstrap, "--exception", "Error1"]
    slow = ["--command-config", str(tmp_path / "slow.properties")]
    kills = 0
    for least in (50, 250):
        child = subprocess.Popen([sys.executable, "-c", _SMALL_TRANSACTIONS, *words, *slow], env=environment(tmp_path))
        eventually(lambda least=least: sent_back(bootstrap, "dead-killed") >= least)
        child.send_signal(signal.SIGKILL)
        kills += child.wait(30) == -signal.SIGKILL
    assert kills == 2
    done = sent_back(bootstrap, "dead-killed")
    assert 250 <= done < 1000
    ran = run_kt(*words)
    assert ran.status == 0
    assert int(ran.err.split()[-2]) <= 1000 - done
    expected = [f"value {number}" for number in range(3000) if number % 3 == 1]
    assert values(bootstrap, "live-killed") == sorted(expected)
    assert run_kt(*words).err == "Sent back a total of 0 records\n"


def sent_back(bootstrap: str, topic: str) -> int:
    """The number of offsets that were sent back; the topic has no gaps."""
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        done = progress.RedriveGroup(topic, topic_id(bootstrap, topic)).read(admin, is_final=False)
    return sum(end - start for ranges in done.values() for start, end in ranges)


def topic_id(bootstrap: str, topic: str) -> str | None:
    from kafkatools.core.admin.topics import describe_topics

    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        return describe_topics(admin, [topic])[topic].topic_id


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 2, "kt redrive takes a dead-letter topic"),
        (("ghost",), 1, "Topic ghost does not exist"),
        (("plain", "--to", "plain"), 2, "--to plain is the dead-letter topic itself"),
        (("plain", "--to", "x", "--from-suffix", "n"), 2, 'Option "[to]" can\'t be used with option "[from-suffix]"'),
        (("plain", "--to", ""), 2, "--to is empty"),
        (("plain", "--origin-header="), 2, "--origin-header is empty"),
        (("plain", "--exception", ""), 2, "--exception is empty"),
        (("plain", "--from-suffix", ".DLT"), 2, "--from-suffix '.DLT' is not the end of the name plain"),
        (("plain", "--from-suffix", "plain"), 2, "--from-suffix 'plain' is not the end of the name plain"),
        (("plain", "--timestamp", "now"), 2, "Invalid value of --timestamp: 'now'"),
        (("plain", "--throttle", "0"), 2, "--throttle 0 must be at least 1"),
        (("plain", "--max-attempts", "-1"), 2, "--max-attempts -1 must be at least 1"),
        (("plain", "--partition", "9"), 1, "Topic plain has no partition 9: its only partition is 0"),
        (("plain", "--offset", "then"), 2, "Invalid value of --offset: 'then' is not a range"),
        (("plain", "--offset", "1", "--last", "3"), 2, 'Option "[offset]" can\'t be used with option "[last]"'),
        (("plain", "--grep", "("), 2, "Invalid value of --grep"),
        (("plain", "--where", "nonsense"), 2, "Invalid value of --where"),
    ],
)
def test_wrong_input_is_named(bootstrap: str, words: tuple[str, ...], status: int, message: str) -> None:
    if "plain" not in kt(bootstrap, "topics", "--list").out.split():
        create(bootstrap, "plain")
    ran = kt(bootstrap, "redrive", *words)
    assert (ran.status, ran.out, ran.err.startswith(message)) == (status, "", True), ran.err


def test_progress_of_something_else_is_refused(bootstrap: str) -> None:
    create(bootstrap, "dead-foreign")
    fill(bootstrap, "dead-foreign", "orders", 1, 1)
    with Producer(bootstrap_servers=bootstrap, transactional_id="foreign") as producer, producer.transaction():
        offset = OffsetAndMetadata(0, metadata='{"v":2}')
        group = ConsumerGroupMetadata("kt-redrive-dead-foreign")
        producer.send_offsets_to_transaction({("dead-foreign", 0): offset}, group)
    for words in ((), ("--dry-run",)):
        ran = redrive(bootstrap, "dead-foreign", *words)
        assert (ran.status, "it is unknown which records were sent back" in ran.err) == (1, True)


def test_a_protected_profile_asks_first(bootstrap: str, tmp_path: pathlib.Path) -> None:
    create(bootstrap, "dead-prod")
    (tmp_path / "config.toml").write_text(
        f'[profiles.prod]\nbootstrap_servers = "{bootstrap}"\nprotected = true\ncluster = "prod"\n'
    )
    environ = {"KT_CONFIG": str(tmp_path / "config.toml")}
    ran = run_kt("--profile", "prod", "redrive", "dead-prod", environ=environ)
    assert (ran.status, "The profile 'prod' is protected" in ran.err) == (2, True), ran.err
    assert run_kt("--profile", "prod", "redrive", "dead-prod", "--dry-run", environ=environ).status == 0
    assert run_kt("--profile", "prod", "--confirm", "prod", "redrive", "dead-prod", environ=environ).status == 0
