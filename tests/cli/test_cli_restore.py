"""kt restore to another embedded broker: consumers read the same there, and groups go on at the right record."""

from __future__ import annotations

import json
import pathlib
import signal
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.kt_process import start_kt
from support.raw_transactions import RawProducer
from support.waiting import eventually

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import GroupOffsets
from kafkatools.core.admin.offsets import EARLIEST, PartitionOffset
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import LeaderNotAvailable, UnstableOffsetCommit
from kafkatools.core.producer.batch_producer import BatchProducer
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.core.records.batch import read_batches
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.exit_status import CommandError
from kafkatools.tools.backup import group_restore, targets
from kafkatools.tools.backup.abandoned import forget_mixed
from kafkatools.tools.backup.cluster_state import log_offsets
from kafkatools.tools.backup.generations import required_manifest
from kafkatools.tools.backup.opening import open_store
from kafkatools.tools.backup.partition_restore import find_cut
from kafkatools.tools.backup.restore_run import RestoreRun
from kafkatools.tools.backup.targets import create_missing, find_targets

START = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(
        tmp_path_factory.mktemp("source"),
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS",
        transaction_partition_verification_enable="false",
    ) as address:
        yield address


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The log directory of the target."""
    return tmp_path_factory.mktemp("target")


@pytest.fixture(scope="module")
def target(data: pathlib.Path) -> Iterator[str]:
    with embedded_broker(
        data,
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS",
    ) as address:
        yield address


def kt(bootstrap: str, command: str, *words: str) -> Ran:
    return run_kt(command, *words, "--bootstrap-server", bootstrap)


def ok(bootstrap: str, command: str, *words: str) -> Ran:
    ran = kt(bootstrap, command, *words)
    assert ran.status == 0, ran.err
    return ran


def create(bootstrap: str, topic: str, *words: str, partitions: int = 1) -> None:
    ok(bootstrap, "topics", "--create", "--topic", topic, "--partitions", str(partitions), *words)


def records(bootstrap: str, topic: str) -> list[tuple[Any, ...]]:
    """The committed records by partition, in their order, without offsets."""
    ran = ok(
        bootstrap, "console-consumer", "--topic", topic, "--exit-at-end", "--json", "--from-beginning",
        "--isolation-level", "read_committed",
    )  # fmt: skip
    rows = sorted(map(json.loads, ran.out.splitlines()), key=lambda row: (row["partition"], row["offset"]))
    return [(row["partition"], row["timestamp"], str(row["key"]), str(row["value"]), row["headers"]) for row in rows]


def fill(bootstrap: str, topic: str, count: int = 60, partitions: int = 3, **settings: object) -> None:
    """Records with and without keys, values and headers."""
    with Producer(bootstrap_servers=bootstrap, **settings) as producer:
        for number in range(count):
            producer.send(
                ProducerRecord(
                    topic,
                    None if number % 5 == 1 else b"\xff value %d" % number,
                    None if number % 3 == 1 else b"key %d" % number,
                    number % partitions,
                    START + number,
                    [("trace", b"\xfe%d" % number), ("empty", None)] if number % 4 == 0 else (),
                )
            )


def back_up(bootstrap: str, url: pathlib.Path, *topics: str) -> None:
    ok(bootstrap, "backup", "--to", str(url), *(word for topic in topics for word in ("--topic", topic)))


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    ran = ok(bootstrap, "consumer-groups", "--describe", "--group", group, "--json")
    parts = json.loads(ran.out)["partitions"]
    return {(part["topic"], part["partition"]): part["offset"] for part in parts}


def commit(bootstrap: str, group: str, topic: str, partition: int, offset: int) -> None:
    ok(
        bootstrap, "consumer-groups", "--reset-offsets", "--group", group, "--topic", f"{topic}:{partition}",
        "--to-offset", str(offset), "--execute", "--no-undo-file",
    )  # fmt: skip


@pytest.mark.slow
def test_records_codecs_configs_and_empty_topics_are_restored(
    source: str, target: str, data: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    topics = [f"whole-{codec}" for codec in CODECS]
    for codec, topic in zip(CODECS, topics, strict=True):
        create(source, topic, "--config", "retention.ms=-1", "--config", "max.message.bytes=2000000", partitions=3)
        fill(source, topic, compression_type=codec)
    create(source, "whole-empty", partitions=2)
    back_up(source, tmp_path / "b", *topics, "whole-empty")
    ran = ok(target, "restore", "--from", str(tmp_path / "b"))
    assert ran.out.splitlines() == [
        "whole-empty -> whole-empty: 0 records in 2 partitions",
        *(f"{topic} -> {topic}: 60 records in 3 partitions" for topic in sorted(topics)),
    ]
    for codec, topic in zip(CODECS, topics, strict=True):
        assert records(target, topic) == records(source, topic)
        sides = (f"topic:{topic}", f"topic:{topic}", "--right-bootstrap-server", target)
        compared = kt(source, "diff", *sides, "--by", "offset")
        assert compared.status == 0, compared.out
        described = [kt(server, "configs", "--describe", "--topic", topic).out for server in (source, target)]
        assert described[0] == described[1]
        (directory,) = data.rglob(f"{topic}-0")
        batches = list(read_batches((directory / "00000000000000000000.log").read_bytes()))
        assert {batch.attributes & 7 for batch in batches} == {CODECS.index(codec)}  # type: ignore[union-attr]
    assert "-to-whole" not in ok(target, "groups", "--list").out


@pytest.mark.slow
def test_aborted_and_open_transactions_are_left_out_and_a_group_goes_on_at_its_record(
    source: str, target: str, tmp_path: pathlib.Path
) -> None:
    create(source, "transactions")
    with (
        RawProducer(source, "one") as one,
        RawProducer(source, "two") as two,
        RawProducer(source, "three") as three,
        RawProducer(source, "open") as unfinished,
        RawProducer(source) as plain,
    ):
        one.send("transactions", 0, [START, START + 1])  # offsets 0, 1: aborted, marker 4
        two.send("transactions", 0, [START + 2, START + 3])  # 2, 3: committed, marker 5
        one.end(committed=False)
        two.end(committed=True)
        plain.send("transactions", 0, [START + 4])  # 6
        three.send("transactions", 0, [START + 5])  # 7: committed, marker 8
        three.end(committed=True)
        unfinished.send("transactions", 0, [START + 6])  # 9: open
        plain.send("transactions", 0, [START + 7])  # 10
        for group, offset in (("at-3", 3), ("at-marker", 5), ("at-open", 9), ("at-end", 11), ("at-0", 0)):
            commit(source, group, "transactions", 0, offset)
        back_up(source, tmp_path / "b", "transactions")
        unfinished.end(committed=False)
    ran = ok(target, "restore", "--from", str(tmp_path / "b"))
    assert "transactions-0: a transaction that is open at the end is left out, from offset 9 on" in ran.err
    times = [row[1] - START for row in records(target, "transactions")]
    assert times == [2, 3, 4, 5, 7]
    # each group goes on at the record that has the time in the comment
    assert [committed(target, f"at-{name}")["transactions", 0] for name in ("0", "3", "marker", "open", "end")] == [
        0,  # 2
        1,  # 3
        2,  # 4
        4,  # 7
        5,  # the end
    ]


@pytest.mark.slow
def test_a_part_of_the_topics_under_another_name_as_of_a_time(source: str, target: str, tmp_path: pathlib.Path) -> None:
    create(source, "timed", partitions=3)
    fill(source, "timed", 30, batch_size=0)
    commit(source, "early", "timed", 0, 4)
    back_up(source, tmp_path / "b", "timed")
    with RawProducer(source, "late") as late:
        late.send("timed", 0, [START + 40])
        commit(source, "early", "timed", 0, 10)
        late.send("timed", 1, [START + 100])
        late.end(committed=True)
    fill(source, "timed", 30)
    back_up(source, tmp_path / "b", "timed")
    until = ("--until", str(START + 20), "--rename", "s/^ti(.*)/at-\\1/")
    plan = ok(target, "restore", "--from", str(tmp_path / "b"), *until, "--dry-run", "--json")
    rows = [json.loads(line) for line in plan.out.splitlines()]
    assert [row.get("source_ends") for row in rows] == [[7, 7, 6]]
    stored = [
        batch
        for path in (tmp_path / "b" / "logs").glob("timed-*/*.log")
        for batch in read_batches(path.read_bytes())
        if batch.base_offset < (6 if "timed-2" in str(path) else 7)
    ]
    assert (len(stored), rows[0]["stored_bytes"]) == (20, sum(batch.size_bytes for batch in stored))
    ran = ok(target, "restore", "--from", str(tmp_path / "b"), *until)
    assert "no generation read them before the time of --until" in ran.err
    assert [row[1] - START for row in records(target, "at-med")] == [
        *range(0, 20, 3),
        *range(1, 20, 3),
        *range(2, 20, 3),
    ]
    ok(target, "restore", "--from", str(tmp_path / "b"), "--generation", "1", "--rename", "timed=first")
    assert (len(records(target, "first")), committed(target, "early")) == (30, {("first", 0): 4})


def test_the_end_of_a_transaction_is_no_record_of_its_time(source: str, target: str, tmp_path: pathlib.Path) -> None:
    create(source, "ended-late")
    with RawProducer(source, "ended-late") as producer:
        producer.send("ended-late", 0, [START])
        producer.end(committed=True)  # the marker has the present time
    back_up(source, tmp_path / "b", "ended-late")
    with Producer(bootstrap_servers=source) as later:
        for time_ms in (START + 1, START + 20):
            later.send(ProducerRecord("ended-late", b"value", b"key", 0, time_ms))
    back_up(source, tmp_path / "b", "ended-late")
    ok(target, "restore", "--from", str(tmp_path / "b"), "--until", str(START + 20))
    assert [row[1] for row in records(target, "ended-late")] == [START, START + 1]


def test_a_transaction_whose_end_was_deleted_is_left_out_and_named(
    source: str, target: str, tmp_path: pathlib.Path
) -> None:
    create(source, "no-end")
    with Producer(bootstrap_servers=source, transactional_id="no-end") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(ProducerRecord("no-end", b"aborted", b"key", 0, START))
        producer.flush()
        back_up(source, tmp_path / "b", "no-end")
        producer.abort_transaction()
        ok(source, "delete-records", "--topic", "no-end", "--all")
        producer.begin_transaction()
        producer.send(ProducerRecord("no-end", b"committed", b"key", 0, START + 1))
        producer.commit_transaction()
    ran = ok(source, "backup", "--to", str(tmp_path / "b"), "--topic", "no-end")
    assert (
        "no-end-0: offsets 1 to 1 were deleted before they were backed up; a restore leaves out transactions that were "
        "open before, from offset 0 on\n"
    ) in ran.err
    assert run_kt("backup", "verify", str(tmp_path / "b")).status == 0
    ok(target, "restore", "--from", str(tmp_path / "b"))
    assert [row[1] for row in records(target, "no-end")] == [START + 1]


def test_append_times_are_kept_and_the_config_comes_after_the_records(
    source: str, target: str, tmp_path: pathlib.Path
) -> None:
    create(source, "append-time", "--config", "message.timestamp.type=LogAppendTime", partitions=3)
    fill(source, "append-time", compression_type="lz4")
    back_up(source, tmp_path / "b", "append-time")
    ok(target, "restore", "--from", str(tmp_path / "b"))
    assert records(target, "append-time") == records(source, "append-time")
    assert "message.timestamp.type=LogAppendTime" in ok(target, "configs", "--describe", "--topic", "append-time").out


def test_a_topic_that_was_there_keeps_its_timestamp_type_and_is_named(
    source: str, target: str, tmp_path: pathlib.Path
) -> None:
    create(source, "was-there", "--config", "message.timestamp.type=LogAppendTime")
    fill(source, "was-there", 2, partitions=1)
    commit(source, "of-both", "was-there", 0, 1)
    back_up(source, tmp_path / "b", "was-there")
    create(target, "was-there")
    commit(target, "of-both", "was-there", 0, 0)
    keeps = "was-there was there and keeps its message.timestamp.type: that of the source is LogAppendTime"
    ran = kt(target, "restore", "--from", str(tmp_path / "b"))
    assert (ran.status, keeps in ran.err) == (1, True), ran  # the group has another offset already
    ran = ok(target, "restore", "--from", str(tmp_path / "b"), "--no-groups")
    assert ("2 of them by an earlier run" in ran.out, keeps in ran.err) == (True, True), ran
    assert "LogAppendTime" not in ok(target, "configs", "--describe", "--topic", "was-there").out


def test_an_error_of_a_log_start_offset_is_no_record(
    source: str, target: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(source, "no-start")
    back_up(source, tmp_path / "b", "no-start")
    create(target, "no-start")

    def failing(admin: AdminClient, parts: list[tuple[str, int]], which: int) -> dict[tuple[str, int], PartitionOffset]:
        if which != EARLIEST:
            return log_offsets(admin, parts, which)
        return {part: PartitionOffset(-1, error=LeaderNotAvailable()) for part in parts}

    monkeypatch.setattr(targets, "log_offsets", failing)
    ran = kt(target, "restore", "--from", str(tmp_path / "b"))
    assert (ran.status, "is not empty" in ran.err) == (1, False), ran.err


def test_a_group_whose_offsets_are_partly_unknown_is_left_alone(
    source: str, target: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(source, "half-known")
    fill(source, "half-known", 3, partitions=1)
    commit(source, "careful", "half-known", 0, 2)
    back_up(source, tmp_path / "b", "half-known")
    create(target, "half-known")
    commit(target, "careful", "half-known", 0, 0)

    def failing(admin: AdminClient, groups: Iterable[str]) -> dict[str, GroupOffsets]:
        return {group: GroupOffsets({}, {("half-known", 0): UnstableOffsetCommit()}) for group in groups}

    monkeypatch.setattr(group_restore, "fetch_offsets", failing)
    ran = kt(target, "restore", "--from", str(tmp_path / "b"))
    monkeypatch.undo()
    assert (ran.status, "group careful: 0 offsets; not all: " in ran.out) == (1, True), ran
    assert committed(target, "careful") == {("half-known", 0): 0}


@pytest.mark.slow
def test_a_killed_restore_goes_on_without_a_double(source: str, target: str, tmp_path: pathlib.Path) -> None:
    create(source, "slow", partitions=2)
    with Producer(bootstrap_servers=source, linger_ms=5) as producer:
        for number in range(12_000):
            producer.send(ProducerRecord("slow", b"x" * 500, b"%d" % number, number % 2, START + number))
    commit(source, "of-slow", "slow", 0, 5500)
    back_up(source, tmp_path / "b", "slow")
    limit = ("--entity-type", "clients", "--entity-name", "kt-restore")
    ok(target, "configs", "--alter", *limit, "--add-config", "producer_byte_rate=500000")
    words = ("restore", "--from", str(tmp_path / "b"), "--topic", "slow")
    child = start_kt(tmp_path, *words, "--bootstrap-server", target)

    def written() -> int:
        ran = kt(target, "get-offsets", "--topic", "slow")
        return sum(int(line.rpartition(":")[2]) for line in ran.out.split()) if ran.status == 0 else 0

    eventually(lambda: written() > 500)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=30)
    assert 500 < written() < 12_000
    ok(target, "configs", "--alter", *limit, "--delete-config", "producer_byte_rate")
    other = kt(target, *words, "--until", str(START + 5))
    assert (other.status, "has an unfinished restore of generation 1" in other.err) == (1, True)
    ran = ok(target, *words, "--json")
    row = json.loads(ran.out.splitlines()[0])
    assert (row["action"], row["records"], row["earlier_records"] > 500) == ("continue", 12_000, True)
    assert records(target, "slow") == records(source, "slow")
    assert committed(target, "of-slow") == {("slow", 0): 5500}


def test_topics_with_records_or_other_partitions_are_refused(source: str, target: str, tmp_path: pathlib.Path) -> None:
    create(source, "refused", partitions=2)
    fill(source, "refused", 4, partitions=2)
    back_up(source, tmp_path / "b", "refused")
    create(target, "refused", partitions=2)
    fill(target, "refused", 1, partitions=2)
    ran = kt(target, "restore", "--from", str(tmp_path / "b"))
    assert (ran.status, ran.err.splitlines()[0]) == (
        1, "Topic refused is not empty: partition 0 has records up to offset 0",
    )  # fmt: skip
    create(target, "other-size", partitions=3)
    ran = kt(target, "restore", "--from", str(tmp_path / "b"), "--rename", "refused=other-size")
    assert "Topic other-size has 3 partitions, and the backup has 2" in ran.err
    create(target, "prepared", partitions=2)
    ok(target, "restore", "--from", str(tmp_path / "b"), "--rename", "refused=prepared")
    assert records(target, "prepared") == records(source, "refused")


@pytest.mark.slow
def test_groups_in_use_and_offsets_of_others_stay(source: str, target: str, tmp_path: pathlib.Path) -> None:
    create(source, "grouped")
    fill(source, "grouped", 10, partitions=1)
    commit(source, "taken", "grouped", 0, 7)
    back_up(source, tmp_path / "b", "grouped")
    create(target, "grouped")
    commit(target, "taken", "grouped", 0, 0)
    ran = kt(target, "restore", "--from", str(tmp_path / "b"))
    assert ran.status == 1
    assert "group taken: 0 offsets; not all: it has other offsets of 1 partition already, such as grouped-0" in ran.out
    assert committed(target, "taken") == {("grouped", 0): 0}
    ok(target, "restore", "--from", str(tmp_path / "b"), "--no-groups")
    assert len(records(target, "grouped")) == 10


@pytest.mark.slow
def test_a_restored_dead_letter_topic_is_sent_back_from_the_first_record_that_was_not(
    source: str, target: str, tmp_path: pathlib.Path
) -> None:
    for bootstrap in (source, target):
        create(bootstrap, "redriven")
    create(source, "letters")
    with Producer(bootstrap_servers=source) as producer:
        for number in range(6):
            headers = [("__streams.errors.topic", b"redriven"), ("__streams.errors.exception", b"E%d" % (number % 2))]
            producer.send(ProducerRecord("letters", b"%d" % number, b"k", 0, START, headers))
    ok(source, "redrive", "letters", "--max-messages", "2")
    ok(source, "redrive", "letters", "--exception", "E1")  # progress behind the first offset that was not sent
    back_up(source, tmp_path / "b", "letters")
    ok(target, "restore", "--from", str(tmp_path / "b"))
    ran = ok(target, "redrive", "letters")
    assert "No earlier run is known" not in ran.err
    assert [row[3] for row in records(target, "redriven")] == ["2", "3", "4", "5"]
    assert ok(target, "redrive", "letters").err == "Sent back a total of 0 records\n"


def test_acls_and_quotas_are_added_on_request(source: str, target: str, tmp_path: pathlib.Path) -> None:
    create(source, "guarded")
    ok(source, "acls", "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "guarded")
    ok(source, "configs", "--alter", "--user", "alice", "--add-config", "producer_byte_rate=1024")
    back_up(source, tmp_path / "b", "guarded")
    words = ("restore", "--from", str(tmp_path / "b"), "--acls", "--quotas", "--rename", "guarded=safe")
    assert ok(target, *words, "--dry-run").out.splitlines()[-2:] == ["acls: 1 to change", "quotas: 1 to change"]
    assert "alice" not in ok(target, "acls", "--list").out
    ok(target, *words)
    listed = ok(target, "acls", "--list", "--json").out
    assert '"safe"' in listed and '"guarded"' not in listed
    assert "producer_byte_rate=1024" in ok(target, "configs", "--describe", "--user", "alice").out


def test_a_damaged_backup_is_not_restored(source: str, target: str, tmp_path: pathlib.Path) -> None:
    create(source, "hurt")
    fill(source, "hurt", 10, partitions=1)
    back_up(source, tmp_path / "b", "hurt")
    path = tmp_path / "b" / "logs" / "hurt-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    ran = kt(target, "restore", "--from", str(tmp_path / "b"))
    assert (ran.status, "logs/hurt-0/00000000000000000000.log is damaged at offset 0" in ran.err) == (1, True)
    assert "Removed 1 empty topic that this run created: hurt\n" in ran.err
    assert "hurt" not in ok(target, "topics", "--list").out
    assert "-to-hurt" not in ok(target, "groups", "--list").out


@pytest.mark.slow
def test_a_restore_that_is_refused_creates_nothing_and_one_that_fails_keeps_written_records(
    source: str, target: str, tmp_path: pathlib.Path
) -> None:
    for topic in ("part-a", "part-b"):
        create(source, topic)
        fill(source, topic, 100, partitions=1, batch_size=0)
        back_up(source, tmp_path / "b", topic)
    words = ("restore", "--from", str(tmp_path / "b"))
    for more in ((), ("--dry-run",)):
        ran = kt(target, *words, "--replication-factor", "2", *more)
        assert (ran.status, "Topic part-a cannot be created: Unable to replicate" in ran.err) == (1, True), ran.err
    assert "part-" not in ok(target, "topics", "--list").out
    path = tmp_path / "b" / "logs" / "part-b-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    ran = kt(target, *words)
    assert ran.status == 1
    assert "the same command goes on behind them, or kt topics --delete --topic part-a\n" in ran.err
    ok(target, "restore", "--from", str(tmp_path / "b"), "--topic", "part-a")
    assert records(target, "part-a") == records(source, "part-a")


@pytest.mark.slow
def test_nothing_is_written_behind_a_record_that_is_refused(source: str, target: str, tmp_path: pathlib.Path) -> None:
    create(source, "large", "--config", "max.message.bytes=5000000")
    values = [b"1", b"2" * 2_000_000, b"3", b"4" * 2_000_000, *(b"%d" % number for number in range(5, 200))]
    with Producer(bootstrap_servers=source, batch_size=0, max_request_size=4_000_000) as producer:
        for value in values:
            producer.send(ProducerRecord("large", value))
    back_up(source, tmp_path / "b", "large")
    create(target, "large")
    for expected in (1, 1):  # again without another result
        ran = kt(target, "restore", "--from", str(tmp_path / "b"))
        assert (ran.status, "Raise max.message.bytes of topic large and run" in ran.err) == (1, True), ran.err
        assert len(records(target, "large")) == expected
    ok(target, "configs", "--alter", "--topic", "large", "--add-config", "max.message.bytes=5000000")
    ok(target, "restore", "--from", str(tmp_path / "b"))
    assert [row[3] for row in records(target, "large")] == [value.decode() for value in values]


@pytest.mark.slow
def test_records_of_somebody_else_end_a_restore_for_good(source: str, target: str, tmp_path: pathlib.Path) -> None:
    create(source, "shared")
    fill(source, "shared", 100, partitions=1, batch_size=0)
    back_up(source, tmp_path / "b", "shared")
    store = open_store(str(tmp_path / "b"))
    settings = {"bootstrap.servers": target, "acks": "all"}
    with AdminClient(target, {}, SystemClock()) as admin, BatchProducer(settings) as producer:
        manifest = required_manifest(store, None)
        (found,) = find_targets(admin, manifest, {"shared": "shared"}, None)
        create_missing(admin, [found], None, print)
        fill(target, "shared", 1, partitions=1)
        run = RestoreRun(
            store, [found], {TopicPartition("shared", 0): find_cut(store, found.backup.partitions[0], None)}, {}
        )
        run.begin()
        with pytest.raises(CommandError, match="a batch was written at offset 1, and 0 was expected"):
            run.run(lambda: producer)
        forget_mixed(admin, [found], run.mixed_topics)
    ran = kt(target, "restore", "--from", str(tmp_path / "b"))
    assert (ran.status, "Topic shared is not empty" in ran.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rename", "nosuch=x"), "--rename 'nosuch=x': nosuch is not among the topics to restore"),
        (("--rename", "s/nosuch/x/"), "--rename 's/nosuch/x/' matches none of the topics to restore"),
        (("--rename", "s/(/x/"), "--rename 's/(/x/': "),
        (("--rename", "s/a/"), "--rename takes s/REGEX/REPLACEMENT/, not 's/a/'"),
        (("--rename", "plain"), "--rename takes OLD=NEW or s/REGEX/REPLACEMENT/, not 'plain'"),
        (("--rename", "wrong-a=x y"), "gives topic wrong-a the name 'x y', which is not a valid topic name"),
        (("--rename", "s/-.*//"), "gives the topics wrong-a and wrong-b the same name wrong"),
        (("--topic", "wrong"), "The backup has no topic wrong"),
        (("--generation", "7"), "has the generations 1 to 1, not 7"),
        (("--until", "yesterday"), "--until: 'yesterday' is not a time"),
        (("--replication-factor", "0"), "--replication-factor 0 must be at least 1"),
    ],
)
def test_bad_input_is_one_line(two: pathlib.Path, words: tuple[str, ...], message: str) -> None:
    ran = run_kt("restore", "--from", str(two), "--bootstrap-server", "127.0.0.1:1", *words)
    assert message in ran.err
    assert ran.status in (1, 2)


@pytest.fixture(scope="module")
def two(source: str, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A backup of two topics."""
    for topic in ("wrong-a", "wrong-b"):
        create(source, topic)
    url = tmp_path_factory.mktemp("two") / "b"
    back_up(source, url, "wrong-a", "wrong-b")
    return url
