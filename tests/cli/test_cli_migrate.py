"""kt migrate between two embedded brokers: killed, continued, and cut; groups go on at the right record."""

from __future__ import annotations

import json
import pathlib
import signal
from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.kt_process import start_kt
from support.raw_transactions import RawProducer
from support.waiting import eventually

from kafkatools.commands.migrate import run_migrate
from kafkatools.core.clock import Clock
from kafkatools.core.consumer.batch_reader import BatchReader
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.tools.copying.client_cluster import ClientCluster

START = 1_700_000_000_000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(
        tmp_path_factory.mktemp("source"), transaction_partition_verification_enable="false"
    ) as address:
        yield address


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("target")) as address:
        yield address


def ok(bootstrap: str, command: str, *words: str) -> Ran:
    ran = run_kt(command, *words, "--bootstrap-server", bootstrap)
    assert ran.status == 0, ran.err
    return ran


def fill(bootstrap: str, topic: str, numbers: range) -> None:
    with Producer(bootstrap_servers=bootstrap, compression_type="lz4") as producer:
        for number in numbers:
            producer.send(ProducerRecord(topic, b"%d" % number, b"key %d" % number, number % 2, START + number))


def values(bootstrap: str, topic: str) -> list[list[int]]:
    """The committed values of both partitions, in their order."""
    words = ("--topic", topic, "--from-beginning", "--exit-at-end", "--json", "--isolation-level", "read_committed")
    rows = map(json.loads, ok(bootstrap, "console-consumer", *words).out.splitlines())
    found = sorted((row["partition"], row["offset"], row["value"]) for row in rows)
    return [[int(value) for partition, _, value in found if partition == number] for number in (0, 1)]


def count(bootstrap: str, topic: str) -> int:
    ran = run_kt("get-offsets", "--bootstrap-server", bootstrap, "--topic", topic)
    return sum(int(line.rpartition(":")[2]) for line in ran.out.split()) if ran.status == 0 else 0


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    ok(
        bootstrap, "consumer-groups", "--reset-offsets", "--group", group, "--topic", f"{topic}:0",
        "--to-offset", str(offset), "--execute", "--no-undo-file",
    )  # fmt: skip


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    parts = json.loads(ok(bootstrap, "consumer-groups", "--describe", "--group", group, "--json").out)["partitions"]
    return {(part["topic"], part["partition"]): part["offset"] for part in parts}


@pytest.mark.slow
def test_a_migration_that_was_killed_goes_on_to_the_cut(source: str, target: str, tmp_path: pathlib.Path) -> None:
    ok(source, "topics", "--create", "--topic", "moving", "--partitions", "2")
    fill(source, "moving", range(100))
    words = ("migrate", "--through", str(tmp_path / "through"), "--to-bootstrap-server", target, "--topic", "moving")
    child = start_kt(tmp_path, *words, "--interval", "50ms", "--bootstrap-server", source)
    eventually(lambda: count(target, "moving") == 100)
    with RawProducer(source, "moving-one") as one, RawProducer(source, "moving-two") as two:
        one.send("moving", 0, [START])  # offset 50, aborted
        two.send("moving", 0, [START])  # offset 51, open while the migration is killed
        one.end(committed=False)
        fill(source, "moving", range(100, 200))
        eventually(lambda: count(target, "moving") == 150)  # partition 0 waits for the open transaction
        child.send_signal(signal.SIGKILL)
        child.communicate(timeout=30)
        two.end(committed=False)
    fill(source, "moving", range(200, 300))
    commit(source, "moved", "moving", 60)
    ran = run_kt(*words, "--cut", "--bootstrap-server", source)
    assert ran.status == 0, ran.err
    assert ran.out.splitlines()[-2:] == [
        "group moved: 1 offset", "Cut: 1 topic and 1 group can go on in the target",
    ]  # fmt: skip
    assert values(target, "moving") == values(source, "moving") == [list(range(0, 300, 2)), list(range(1, 300, 2))]
    # before offset 60 of the source are two records and a marker that the target does not have
    assert committed(target, "moved") == {("moving", 0): 57}
    assert "-to-moving" not in ok(target, "groups", "--list").out
    assert run_kt("backup", "verify", str(tmp_path / "through"), "--against", source).status == 0


@pytest.mark.slow
def test_topics_that_come_later_are_migrated_under_their_new_names(
    source: str, target: str, tmp_path: pathlib.Path
) -> None:
    ok(source, "topics", "--create", "--topic", "late-a", "--partitions", "2")
    fill(source, "late-a", range(10))
    words = ("migrate", "--through", str(tmp_path / "t"), "--to-bootstrap-server", target, "--rename", "s/^/new-/")
    child = start_kt(tmp_path, *words, "--interval", "50ms", "--json", "--bootstrap-server", source)
    eventually(lambda: count(target, "new-late-a") == 10)
    ok(source, "topics", "--create", "--topic", "late-b", "--partitions", "2")
    fill(source, "late-b", range(20))
    eventually(lambda: count(target, "new-late-b") == 20)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=30)
    assert child.returncode == 130
    assert {json.loads(line)["kind"] for line in out.splitlines()} == {"round"}
    assert values(target, "new-late-b") == values(source, "late-b")


@pytest.mark.slow
def test_a_stored_partition_is_never_begun_anew(source: str, target: str, tmp_path: pathlib.Path) -> None:
    ok(source, "topics", "--create", "--topic", "stored", "--partitions", "2")
    fill(source, "stored", range(10))
    words = ("migrate", "--through", str(tmp_path / "t"), "--topic", "stored", "--to-bootstrap-server", target)
    child = start_kt(tmp_path, *words, "--interval", "50ms", "--bootstrap-server", source)
    eventually(lambda: count(target, "stored") == 10)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=30)
    (tmp_path / "t" / "logs" / "stored-1" / "00000000000000000000.log").unlink()
    fill(source, "stored", range(10, 20))
    ran = run_kt(*words, "--cut", "--bootstrap-server", source)
    assert (ran.status, ran.err.startswith("stored-1 cannot be continued: ")) == (1, True)
    assert count(target, "stored") == 10


def test_records_that_were_deleted_before_they_were_stored_do_not_hold_up_the_cut(
    source: str, target: str, tmp_path: pathlib.Path
) -> None:
    ok(source, "topics", "--create", "--topic", "expired", "--partitions", "2")
    fill(source, "expired", range(10))
    words = ("migrate", "--through", str(tmp_path / "t"), "--topic", "expired", "--to-bootstrap-server", target)
    with RawProducer(source, "expired") as producer:
        producer.send("expired", 1, [START])
        child = start_kt(tmp_path, *words, "--interval", "50ms", "--bootstrap-server", source)
        eventually(lambda: count(target, "expired") == 10)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=30)
        producer.end(committed=True)
    fill(source, "expired", range(10, 20))
    ok(source, "delete-records", "--topic", "expired", "--all")
    child = start_kt(tmp_path, *words, "--cut", "--interval", "50ms", "--bootstrap-server", source)
    out, _ = child.communicate(timeout=30)
    assert (child.returncode, out.splitlines()[-1]) == (0, b"Cut: 1 topic and 0 groups can go on in the target")
    assert values(target, "expired") == [list(range(0, 10, 2)), list(range(1, 10, 2))]


def test_records_after_a_cut_that_failed_keep_their_timestamps(
    source: str, target: str, tmp_path: pathlib.Path
) -> None:
    append_time = ("--config", "message.timestamp.type=LogAppendTime")
    ok(source, "topics", "--create", "--topic", "stamped", "--partitions", "2", *append_time)
    fill(source, "stamped", range(4))
    commit(source, "of-stamped", "stamped", 1)
    words = ("migrate", "--through", str(tmp_path / "t"), "--topic", "stamped", "--to-bootstrap-server", target)
    with Consumer({"bootstrap.servers": target, "group.id": "of-stamped"}) as consumer:
        consumer.subscribe(["others"])
        eventually(lambda: not list(consumer.poll(100)) and "of-stamped" in ok(target, "groups", "--list").out)
        ran = run_kt(*words, "--cut", "--interval", "50ms", "--bootstrap-server", source)
        assert (ran.status, "of-stamped: 0 offsets; not all: it is in use" in ran.out) == (1, True), ran
    assert "LogAppendTime" not in ok(target, "configs", "--describe", "--topic", "stamped").out
    fill(source, "stamped", range(4, 8))
    eventually(lambda: run_kt(*words, "--cut", "--interval", "50ms", "--bootstrap-server", source).status == 0)
    assert values(target, "stamped") == [list(range(0, 8, 2)), list(range(1, 8, 2))]
    assert "LogAppendTime" in ok(target, "configs", "--describe", "--topic", "stamped").out


def test_a_target_with_records_and_the_same_cluster_are_refused(
    source: str, target: str, tmp_path: pathlib.Path
) -> None:
    for bootstrap in (source, target):
        ok(bootstrap, "topics", "--create", "--topic", "taken", "--partitions", "2")
        fill(bootstrap, "taken", range(2))
    words = ("migrate", "--through", str(tmp_path / "t"), "--topic", "taken", "--cut", "--bootstrap-server", source)
    ran = run_kt(*words, "--to-bootstrap-server", target)
    assert (ran.status, ran.err.splitlines()[0]) == (
        1, "Topic taken is not empty: partition 0 has records up to offset 0",
    )  # fmt: skip
    ran = run_kt(*words, "--to-bootstrap-server", source)
    assert (ran.status, "Source and target are the same cluster" in ran.err) == (2, True)
    assert run_kt(*words).status == 2


@pytest.mark.parametrize("mode", ["--dry-run", "--cut"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rename", "s/^/copy-/"), "the copies would be topics of the source, and copied again"),
        (("--topic", "circle", "--rename", "circle=circle"), "topic circle would be copied to circle"),
        (("--topic", "circle", "--topic", "round", "--rename", "circle=round", "--rename", "round=new"), "to round"),
    ],
)
def test_a_copy_within_a_cluster_is_not_copied_again(
    source: str, tmp_path: pathlib.Path, words: tuple[str, ...], message: str, mode: str
) -> None:
    for topic in ("circle", "round"):
        run_kt("topics", "--create", "--topic", topic, "--if-not-exists", "--bootstrap-server", source)
    command = ("migrate", "--through", str(tmp_path / "t"), "--bootstrap-server", source)
    ran = run_kt(*command, "--to-bootstrap-server", source, mode, *words)
    assert (ran.status, message in ran.err) == (2, True), ran.err
    assert "copy-circle" not in ok(source, "topics", "--list").out


@pytest.mark.slow
def test_what_holds_up_a_cut_and_who_still_reads_are_named(source: str, target: str, tmp_path: pathlib.Path) -> None:
    ok(source, "topics", "--create", "--topic", "held", "--partitions", "2")
    fill(source, "held", range(10))
    words = ("migrate", "--through", str(tmp_path / "t"), "--topic", "held", "--to-bootstrap-server", target)
    notes = tmp_path / "notes"
    settings = {"bootstrap.servers": source, "group.id": "still-reading", "auto.offset.reset": "earliest"}
    with RawProducer(source, "holding") as holding, Consumer(settings) as consumer, notes.open("wb") as stderr:
        holding.send("held", 1, [START])
        consumer.subscribe(["held"])
        eventually(lambda: bool(list(consumer.poll(100))))
        consumer.commit_sync()
        child = start_kt(tmp_path, *words, "--cut", "--interval", "50ms", "--bootstrap-server", source, stderr=stderr)
        waiting = f"held-1 waits at offset 5 for the end of a transaction of producer {holding.producer_id}. "
        advice = "If it never ends: kt transactions abort --topic held --partition 1 --start-offset 5\n"
        eventually(lambda: notes.read_text() == waiting + advice)
        holding.end(committed=True)
        child.communicate(timeout=60)
    assert child.returncode == 0
    assert notes.read_text().endswith(
        "1 group still has members in the source, such as still-reading: offsets that are committed there from now on "
        "are not in the target\n"
    )


@pytest.mark.slow
def test_a_deleted_topic_with_more_partitions_than_are_read_at_a_time_holds_up_the_cut(
    source: str, target: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok(source, "topics", "--create", "--topic", "vanishing", "--partitions", "70")
    with Producer(bootstrap_servers=source) as producer:
        for number in range(70):
            producer.send(ProducerRecord("vanishing", b"value", b"key", number, START))
    make_reader = run_migrate.batch_reader

    def reader(cluster: ClientCluster, clock: Clock) -> BatchReader:
        ok(source, "topics", "--delete", "--topic", "vanishing")
        return make_reader(cluster, clock)

    monkeypatch.setattr(run_migrate, "batch_reader", reader)
    words = ("--through", str(tmp_path / "t"), "--topic", "vanishing", "--to-bootstrap-server", target, "--cut")
    ran = run_kt("migrate", *words, "--interval", "50ms", "--bootstrap-server", source)
    assert ran.status == 1
    assert "No cut: 70 partitions were not read to the end, such as vanishing-" in ran.err
    assert "0 offsets behind, 70 partitions not read" in ran.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--through", "t", "--acls"), "--acls needs --cut: it copies at the cut"),
        (("--through", "t", "--interval", "0"), "--interval must be at least 1ms"),
        (("--through", "file", "--dry-run"), "file is not a directory: it is no backup"),
        (("--through", "t", "--dry-run", "--topic", "nosuch"), "Topic nosuch does not exist"),
        (
            ("--through", "t", "--dry-run", "--rename", "nosuch=x"),
            "--rename 'nosuch=x': nosuch is not among the topics",
        ),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    source: str, target: str, tmp_path: pathlib.Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "file").touch()
    server = ("--bootstrap-server", source, "--to-bootstrap-server", target)
    ran = run_kt("migrate", *words, *server, cwd=tmp_path)
    assert ran.status in (1, 2)
    assert message in ran.err.splitlines()[0]
    assert not (tmp_path / "t").exists()
