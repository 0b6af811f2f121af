"""kt copy between two embedded brokers: what the console consumer reads of both topics is the same."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.kt_process import environment
from support.raw_transactions import RawProducer
from support.waiting import eventually

from kafkatools.commands.copy import run_copy
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import SystemClock
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.exit_status import CommandError
from kafkatools.tools.copying import copier
from kafkatools.tools.copying.progress import CopyPlace, forget_earlier_progress, read_progress

START = 1_700_000_000_000
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Another cluster with one broker."""
    with embedded_broker(tmp_path_factory.mktemp("target")) as address:
        yield address


def kt(bootstrap: str, command: str, *words: str) -> Ran:
    return run_kt(command, *words, "--bootstrap-server", bootstrap)


def copy(source: str, target: str, *words: str) -> Ran:
    return kt(source, "copy", *words, "--to-bootstrap-server", target)


def records(bootstrap: str, topic: str, *words: str) -> list[tuple[Any, ...]]:
    """The committed records of a topic by partition, in their order, without offsets."""
    ran = kt(
        bootstrap, "console-consumer", "--topic", topic, "--exit-at-end", "--json",
        "--isolation-level", "read_committed", *(words or ("--from-beginning",)),
    )  # fmt: skip
    assert ran.status == 0, ran.err
    rows = sorted(map(json.loads, ran.out.splitlines()), key=lambda row: (row["partition"], row["offset"]))
    return [(row["partition"], row["timestamp"], str(row["key"]), str(row["value"]), row["headers"]) for row in rows]


def fill(bootstrap: str, topic: str, count: int = 40, **settings: object) -> None:
    """Records with and without keys, values and headers, some of them bytes that are no UTF-8."""
    with Producer(bootstrap_servers=bootstrap, **settings) as producer:
        for number in range(count):
            producer.send(
                ProducerRecord(
                    topic,
                    None if number % 5 == 1 else b"\xff value %d" % number,
                    None if number % 3 == 1 else b"key %d" % number,
                    number % 3,
                    START + (number % 7) * HOUR_MS,
                    [("trace", b"\xfe%d" % number), ("empty", None)] if number % 4 == 0 else (),
                )
            )


def create(bootstrap: str, topic: str, *words: str) -> None:
    assert kt(bootstrap, "topics", "--create", "--topic", topic, "--partitions", "4", *words).status == 0


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_copy_has_the_records_partitions_and_configs_of_its_source(bootstrap: str, target: str, codec: str) -> None:
    topic = f"whole-{codec}"
    create(bootstrap, topic, "--config", "retention.ms=-1", "--config", "segment.bytes=1MiB")
    fill(bootstrap, topic, compression_type=codec)
    ran = copy(bootstrap, target, topic, topic, "--create")
    assert (ran.status, ran.err) == (0, "complete: 4/4 partitions\nCopied a total of 40 records\n")
    assert [line.rpartition(": ")[2] for line in ran.out.splitlines()] == [
        "14 records, same checksum", "13 records, same checksum", "13 records, same checksum",
        "0 records, same checksum",
    ]  # fmt: skip
    assert records(target, topic) == records(bootstrap, topic)
    described = [kt(server, "configs", "--describe", "--topic", topic).out for server in (bootstrap, target)]
    assert described[0] == described[1]
    assert f"{topic}-to-" not in kt(target, "consumer-groups", "--list").out


@pytest.mark.slow
def test_aborted_records_are_not_copied_and_open_transactions_end_the_copy(bootstrap: str, target: str) -> None:
    create(bootstrap, "with-transactions")
    with (
        RawProducer(bootstrap, "aborted") as aborted,
        RawProducer(bootstrap, "committed") as committed,
        RawProducer(bootstrap, "open") as unfinished,
    ):
        aborted.send("with-transactions", 0, [START, START])
        committed.send("with-transactions", 0, [START + 1])
        aborted.end(committed=False)
        committed.end(committed=True)
        unfinished.send("with-transactions", 0, [START + 2])
        ran = copy(bootstrap, target, "with-transactions", "with-transactions", "--create")
        unfinished.end(committed=False)
    assert (ran.status, ran.err.splitlines()[0]) == (
        0,
        "with-transactions-0: an open transaction begins at offset 5, where the copy ends",
    )
    assert [row[:2] for row in records(target, "with-transactions")] == [(0, START + 1)]
    ran = copy(bootstrap, target, "with-transactions", "all", "--create", "--isolation-level", "read_uncommitted")
    assert (ran.status, len(records(target, "all"))) == (0, 4)


@pytest.mark.slow
@pytest.mark.parametrize("words", [("--since", str(START + 4 * HOUR_MS)), ("--until", str(START + 5 * HOUR_MS))])
def test_a_slice_is_that_of_the_console_consumer(bootstrap: str, target: str, words: tuple[str, ...]) -> None:
    source, name = "sliced", f"slice{words[0]}"
    if source not in kt(bootstrap, "topics", "--list").out.split():
        create(bootstrap, source)
        fill(bootstrap, source)
    assert copy(bootstrap, target, source, name, "--create", *words).status == 0
    sliced = records(bootstrap, source, *words)
    assert records(target, name) == sliced
    assert 0 < len(sliced) < 40


@pytest.mark.slow
def test_some_partitions_of_a_topic(bootstrap: str, target: str) -> None:
    create(bootstrap, "parts")
    fill(bootstrap, "parts")
    assert copy(bootstrap, target, "parts", "parts", "--create", "--partition", "1", "--partition", "2").status == 0
    assert records(target, "parts") == [row for row in records(bootstrap, "parts") if row[0] in (1, 2)]


@pytest.mark.slow
def test_the_last_records_are_appended_within_a_cluster(bootstrap: str) -> None:
    create(bootstrap, "near")
    fill(bootstrap, "near")
    all_records = records(bootstrap, "near")
    newest = [row for part in range(3) for row in [row for row in all_records if row[0] == part][-2:]]
    assert kt(bootstrap, "copy", "near", "far", "--create", "--last", "2").status == 0
    assert kt(bootstrap, "copy", "topic:near", "topic:far", "--append", "--last", "2").status == 0
    assert records(bootstrap, "far") == sorted([*newest, *newest], key=lambda row: row[0])


_SMALL_TRANSACTIONS = (
    "import kafkatools.tools.copying.transactions as transactions, kafkatools.__main__ as program\n"
    "transactions._MOST_UNCOMMITTED = 1\n"
    "program.main()"
)


@pytest.mark.slow
def test_a_killed_copy_is_resumed_without_loss_and_without_duplicates(
    bootstrap: str, target: str, tmp_path: pathlib.Path
) -> None:
    create(bootstrap, "killed")
    fill(bootstrap, "killed", 30_000, batch_size=2000)
    (tmp_path / "slow.properties").write_text("max.partition.fetch.bytes=2000\nfetch.max.bytes=2000\n")
    words = ["copy", "killed", "killed", "--bootstrap-server", bootstrap, "--to-bootstrap-server", target]
    slow = ["--command-config", str(tmp_path / "slow.properties"), "--create"]
    child = subprocess.Popen([sys.executable, "-c", _SMALL_TRANSACTIONS, *words, *slow], env=environment(tmp_path))
    with AdminClient(bootstrap, {}, SystemClock()) as source, AdminClient(target, {}, SystemClock()) as admin:
        place = copy_place(source, "killed", "killed")
        eventually(lambda: copied(admin, place) > 500)
        child.send_signal(signal.SIGKILL)
        child.wait(30)
        done = copied(admin, place)
    assert 500 < done < 30_000
    fresh = run_kt(*words)
    assert (fresh.status, "has records already" in fresh.err, "Pass --resume" in fresh.err) == (1, True, True)
    ran = run_kt(*words, "--resume")
    assert (ran.status, ran.err.splitlines()[-1]) == (0, "Copied a total of 30000 records")
    assert records(target, "killed") == records(bootstrap, "killed")


def copy_place(source: AdminClient, topic: str, name: str) -> CopyPlace:
    from kafkatools.core.admin.cluster import describe_cluster
    from kafkatools.core.admin.topics import describe_topics

    cluster_id = describe_cluster(source).cluster_id
    assert cluster_id is not None
    return CopyPlace(cluster_id, topic, describe_topics(source, [topic])[topic].topic_id, name)


def copied(admin: AdminClient, place: CopyPlace) -> int:
    return sum(item.checksum.records for item in read_progress(admin, place, is_final=False).values())


def test_a_copy_does_not_begin_while_the_progress_of_an_earlier_one_cannot_be_deleted(bootstrap: str) -> None:
    create(bootstrap, "earlier")
    place = CopyPlace("AAAAAAAAAAAAAAAAAAAAAA", "source", None, "earlier")
    with Consumer(bootstrap_servers=bootstrap, group_id=place.group_id) as member:
        member.subscribe(["earlier"])
        member.poll(100)
        eventually(lambda: member.poll(10) is not None and member.assignment())
        member.commit_sync({TopicPartition("earlier", 0): OffsetAndMetadata(7)})
        with AdminClient(bootstrap, {}, SystemClock()) as admin:
            with pytest.raises(CommandError, match="earlier copy, cannot be deleted: The group is not empty"):
                forget_earlier_progress(admin, place)
            member.close()
            forget_earlier_progress(admin, place)
            forget_earlier_progress(admin, place)  # without any there is nothing to forget


@pytest.mark.slow
def test_records_of_others_in_the_target_are_a_finding(
    bootstrap: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another producer writes to the target after the copy and before it is compared."""
    create(bootstrap, "disturbed")
    create(target, "disturbed")
    fill(bootstrap, "disturbed")
    run = copier.TopicCopier.run

    def run_and_disturb(self: copier.TopicCopier, clock: Any) -> None:
        run(self, clock)
        fill(target, "disturbed", 1)

    monkeypatch.setattr(copier.TopicCopier, "run", run_and_disturb)
    ran = copy(bootstrap, target, "disturbed", "disturbed")
    assert (ran.status, ran.err.splitlines()[0]) == (
        3,
        "disturbed-0 -> disturbed-0: 14 records, but the target has 15 "
        "(another producer wrote to it, or records were deleted)",
    )
    assert "disturbed-to-disturbed" in kt(target, "consumer-groups", "--list").out


@pytest.mark.slow
def test_records_of_a_new_topic_of_the_same_name_are_not_copied(
    bootstrap: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_anew(value: bytes) -> None:
        kt(bootstrap, "topics", "--create", "--topic", "replaced")
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(4000):
                producer.send(ProducerRecord("replaced", value * 1000, b"%d" % number, 0))

    class Copier(copier.TopicCopier):
        fetches = 0

        def _copy(self, fetched: FetchedColumns) -> None:
            super()._copy(fetched)
            self.fetches += 1
            if self.fetches == 1:
                kt(bootstrap, "topics", "--delete", "--topic", "replaced")
                fill_anew(b"b")

    fill_anew(b"a")
    monkeypatch.setattr(run_copy, "TopicCopier", Copier)
    ran = copy(bootstrap, target, "replaced", "replaced", "--create")
    message = "The copy is incomplete: Topic replaced was deleted and recreated while it was read"
    assert (ran.status, message in ran.err) == (1, True), ran
    assert records(target, "replaced") == []


def test_records_that_were_deleted_meanwhile_make_the_copy_incomplete(
    bootstrap: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(bootstrap, "shrunk")
    create(target, "shrunk")
    fill(bootstrap, "shrunk")

    def stop(self: copier.TopicCopier, clock: Any) -> None:
        self._start()
        self._commit(clock.now_ms())
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(copier.TopicCopier, "run", stop)
        assert copy(bootstrap, target, "shrunk", "shrunk").status == 130
    assert kt(bootstrap, "delete-records", "--topic", "shrunk", "--partition", "1", "--before", "4").status == 0
    ran = copy(bootstrap, target, "shrunk", "shrunk", "--resume")
    assert (ran.status, ran.err.splitlines()) == (
        1,
        [
            "Offsets 0 to 3 of shrunk-1 were deleted before they were copied",
            "complete: 3/4 partitions; 4 offsets were deleted before they were copied",
            "Copied a total of 36 records",
        ],
    )


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("plain",), 2, "kt copy takes two topics, the source and the target"),
        (("ghost", "x"), 1, "Topic ghost does not exist"),
        (("plain", "ghost"), 1, "Topic ghost does not exist in the target cluster"),
        (("plain", "narrow"), 1, "Topic narrow has 1 partitions, and plain has 4: partition numbers could not be kept"),
        (("plain", "stamped"), 1, "Topic stamped has message.timestamp.type=LogAppendTime: the copied records"),
        (("plain", "new", "--resume"), 1, "There is no interrupted copy of plain to new in the target cluster"),
        (("plain", "new", "--resume", "--last", "3"), 2, 'Option "[resume]" can\'t be used with option "[last]"'),
        (
            ("plain", "new", "--create", "--compression-codec", "lzma"),
            2,
            "Invalid value of --compression-codec: 'lzma'",
        ),
        (("plain", "new", "--create", "--isolation-level", "none"), 2, "Invalid value of --isolation-level: 'none'"),
        (("plain", "new", "--partition", "9"), 1, "Topic plain has no partition 9: its partitions are 0 to 3"),
        (("plain", "new", "--since", "then"), 2, "Invalid value of --since: 'then' is not a time"),
    ],
)
def test_wrong_input_is_named(bootstrap: str, target: str, words: tuple[str, ...], status: int, message: str) -> None:
    if "plain" not in kt(bootstrap, "topics", "--list").out.split():
        create(bootstrap, "plain")
        kt(target, "topics", "--create", "--topic", "narrow", "--partitions", "1")
        create(target, "stamped", "--config", "message.timestamp.type=LogAppendTime")
    ran = copy(bootstrap, target, *words)
    assert (ran.status, ran.out, ran.err.startswith(message)) == (status, "", True), ran.err
    assert "new" not in kt(target, "topics", "--list").out.split()


def test_source_and_target_must_differ(bootstrap: str) -> None:
    create(bootstrap, "same")
    ran = kt(bootstrap, "copy", "same", "same")
    assert (ran.status, ran.err.splitlines()[0]) == (2, "Source and target are the same topic, same")
    ran = copy(bootstrap, bootstrap.replace("127.0.0.1", "localhost"), "same", "same")
    assert (ran.status, ran.err.splitlines()[0]) == (2, "Source and target are the same topic, same")
