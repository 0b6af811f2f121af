"""kt backup of an embedded broker: the objects are the broker's own batches, and damage of each kind is found."""

from __future__ import annotations

import json
import pathlib
import signal
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.kt_process import start_kt
from support.raw_transactions import RawProducer
from support.waiting import eventually

from kafkatools.commands.backup import run_backup
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import Clock
from kafkatools.core.config import CONSUMER
from kafkatools.core.consumer.batch_reader import BatchReader
from kafkatools.core.errors import RequestTimedOut
from kafkatools.core.net.requests import BrokerRequest, BrokerResponse
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.exit_status import CommandError
from kafkatools.tools.backup import backup_run, deleted_topics
from kafkatools.tools.backup.generations import last_manifest, read_progress
from kafkatools.tools.backup.manifest import Manifest
from kafkatools.tools.backup.opening import open_store
from kafkatools.tools.backup.store import Store
from kafkatools.tools.copying.client_cluster import ClientCluster

START = 1_700_000_000_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The log directory of the broker."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def broker(data: pathlib.Path) -> Iterator[str]:
    with embedded_broker(data) as address:
        yield address


def kt(bootstrap: str, command: str, *words: str) -> Ran:
    return run_kt(command, *words, "--bootstrap-server", bootstrap)


def create(bootstrap: str, topic: str, *words: str, partitions: int = 1) -> None:
    ran = kt(bootstrap, "topics", "--create", "--topic", topic, "--partitions", str(partitions), *words)
    assert ran.status == 0, ran.err


def fill(bootstrap: str, topic: str, count: int = 50, **settings: object) -> None:
    with Producer(bootstrap_servers=bootstrap, **settings) as producer:
        for number in range(count):
            producer.send(ProducerRecord(topic, b"value %d" % number, b"key %d" % number, 0, START + number))


def fill_each(bootstrap: str, topic: str, partitions: int) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(partitions):
            producer.send(ProducerRecord(topic, b"value", b"key", number, START))


def back_up(bootstrap: str, url: str | pathlib.Path, *topics: str) -> dict[str, Any]:
    words = [word for topic in topics for word in ("--topic", topic)]
    ran = kt(bootstrap, "backup", "--to", str(url), *words, "--json")
    assert ran.status == 0, ran.err
    row: dict[str, Any] = json.loads(ran.out)
    return row


def stored(url: pathlib.Path, partition: str, place: str = "logs") -> bytes:
    return b"".join(path.read_bytes() for path in sorted((url / place / partition).glob("*.log")))


def segments(data: pathlib.Path, partition: str) -> bytes:
    """The bytes of the partition's segments, as the broker has them."""
    (directory,) = data.rglob(partition)
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def test_topics_that_look_internal_are_left_out_and_counted(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data") as bootstrap:
        for topic in ("orders", "__heartbeat", "__audit"):
            create(bootstrap, topic)
        ran = kt(bootstrap, "backup", "--to", str(tmp_path / "b"))
        left_out = "Left out, since the name begins with __: 2 topics, such as __audit. Name it with --topic\n"
        assert (ran.status, ran.err, "1 topic," in ran.out) == (0, left_out, True), ran
        ran = kt(bootstrap, "backup", "--to", str(tmp_path / "b"), "--topic", "__audit")
        assert (ran.status, ran.err, "2 topics," in ran.out) == (0, "", True), ran


def test_objects_are_the_bytes_of_the_brokers_segments(broker: str, data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    create(broker, "exact", partitions=2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        fill(broker, "exact", compression_type=codec)
    with RawProducer(broker, "exact") as producer:
        producer.send("exact", 0, [START])
        producer.end(committed=False)
    row = back_up(broker, tmp_path / "b", "exact")
    assert (row["topics"], row["partitions"], row["open_transactions"]) == (1, 2, 0)
    assert stored(tmp_path / "b", "exact-0") == segments(data, "exact-0")
    assert len(stored(tmp_path / "b", "exact-0")) == row["total_bytes"]
    read = run_kt("console-consumer", "--from", f"log:{tmp_path}/b/logs/exact-0", "--exit-at-end")
    assert read.out.splitlines()[:50] == [f"value {number}" for number in range(50)]


def test_a_next_run_stores_only_what_is_new(broker: str, data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    create(broker, "grows")
    fill(broker, "grows", 10)
    first = back_up(broker, tmp_path / "b", "grows")
    assert back_up(broker, tmp_path / "b", "grows")["new_bytes"] == 0
    fill(broker, "grows", 10)
    third = back_up(broker, tmp_path / "b", "grows")
    assert third["generation"] == 3
    assert third["new_bytes"] == third["total_bytes"] - first["total_bytes"] > 0
    assert stored(tmp_path / "b", "grows-0") == segments(data, "grows-0")
    listed = run_kt("backup", "list", str(tmp_path / "b"), "--json").out.splitlines()
    assert [json.loads(line)["generation"] for line in listed] == [1, 2, 3]


def test_offsets_that_were_deleted_before_they_were_read_are_named(broker: str, tmp_path: pathlib.Path) -> None:
    create(broker, "lossy")
    fill(broker, "lossy", 10, batch_size=0)
    back_up(broker, tmp_path / "b", "lossy")
    fill(broker, "lossy", 10, batch_size=0)
    offsets = tmp_path / "offsets.json"
    offsets.write_text('{"partitions": [{"topic": "lossy", "partition": 0, "offset": 15}], "version": 1}')
    assert kt(broker, "delete-records", "--offset-json-file", str(offsets)).status == 0
    ran = kt(broker, "backup", "--to", str(tmp_path / "b"), "--topic", "lossy")
    assert (ran.status, ran.err) == (0, "lossy-0: offsets 10 to 14 were deleted before they were backed up\n")
    assert run_kt("backup", "verify", str(tmp_path / "b")).status == 0


def test_a_topic_that_was_created_again_gets_a_new_place(
    broker: str, data: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    create(broker, "again")
    fill(broker, "again", 10)
    back_up(broker, tmp_path / "b", "again")
    before = stored(tmp_path / "b", "again-0")
    assert kt(broker, "topics", "--delete", "--topic", "again").status == 0
    create(broker, "again")
    fill(broker, "again", 3)
    ran = kt(broker, "backup", "--to", str(tmp_path / "b"), "--topic", "again")
    assert "again was deleted and created again" in ran.err
    assert stored(tmp_path / "b", "again-0") == before
    assert stored(tmp_path / "b", "again-0", "logs-2") == segments(data, "again-0")
    assert run_kt("backup", "verify", str(tmp_path / "b")).status == 0


def test_open_transactions_are_counted(broker: str, tmp_path: pathlib.Path) -> None:
    create(broker, "open")
    with RawProducer(broker, "unfinished") as producer:
        producer.send("open", 0, [START])
        row = back_up(broker, tmp_path / "b", "open")
        producer.end(committed=True)
    assert row["open_transactions"] == 1
    assert back_up(broker, tmp_path / "b", "open")["open_transactions"] == 0


@pytest.mark.slow
def test_share_groups_of_the_topics_are_named_and_no_others(broker: str, tmp_path: pathlib.Path) -> None:
    for topic in ("jobs", "other-jobs"):
        create(broker, topic)
        words = (
            "--reset-offsets",
            "--topic",
            topic,
            "--to-earliest",
            "--execute",
            "--undo-file",
            str(tmp_path / f"{topic}.csv"),
        )
        assert kt(broker, "share-groups", "--group", f"workers-of-{topic}", *words).status == 0
    create(broker, "lone")
    of_jobs, of_lone, of_all = (
        kt(broker, "backup", "--to", str(tmp_path / str(number)), *words).err
        for number, words in enumerate((("--topic", "jobs"), ("--topic", "lone"), ()))
    )
    note = "1 share group is not in the backup, such as workers-of-jobs: only committed offsets are"
    assert note in of_jobs
    assert "share group" not in of_lone
    assert "2 share groups are not in the backup" in of_all


def test_a_backup_behind_a_url_is_the_same(broker: str, tmp_path: pathlib.Path) -> None:
    create(broker, "remote")
    fill(broker, "remote")
    url = f"memory://{uuid.uuid4()}/backups"
    row = back_up(broker, url, "remote")
    local = back_up(broker, (tmp_path / "b").as_uri(), "remote")
    assert row["total_bytes"] == local["total_bytes"]
    assert len(stored(tmp_path / "b", "remote-0")) == row["total_bytes"]
    assert back_up(broker, url, "remote")["new_bytes"] == 0
    assert run_kt("backup", "verify", url).status == 0


@pytest.mark.slow
def test_the_password_of_a_url_is_not_printed(broker: str) -> None:
    create(broker, "hidden-url")
    row = back_up(broker, "memory://user:hunter2@host/hidden", "hidden-url")
    assert row["url"] == "memory://[hidden]@host/hidden"


def test_a_killed_backup_goes_on_with_its_finished_objects(
    broker: str, data: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    create(broker, "killed")
    with Producer(bootstrap_servers=broker, linger_ms=5) as producer:
        for number in range(24_000):
            producer.send(ProducerRecord("killed", b"x" * 1000, b"%d" % number, 0))
    limit = ("--entity-type", "clients", "--entity-name", "kt-backup")
    assert kt(broker, "configs", "--alter", *limit, "--add-config", "consumer_byte_rate=2000000").status == 0
    url = tmp_path / "b"
    words = ("backup", "--to", str(url), "--topic", "killed", "--object-size", "1MiB")
    child = start_kt(tmp_path, *words, "--bootstrap-server", broker)
    eventually(lambda: len(list(url.glob("logs/killed-0/*.log"))) >= 2)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=30)
    assert not list(url.glob("manifest-*.json"))
    unfinished = run_kt("backup", "verify", str(url))
    assert (unfinished.status, "has no complete backup" in unfinished.err) == (1, True)
    (url / "logs/killed-0/00000000000000099999.log.partial").write_bytes(b"unfinished")
    (url / "other.partial").write_bytes(b"not of a backup")
    assert kt(broker, "configs", "--alter", *limit, "--delete-config", "consumer_byte_rate").status == 0
    finished = sum(path.stat().st_size for path in url.glob("logs/killed-0/*.log"))
    ran = kt(broker, *words, "--json")
    row = json.loads(ran.out)
    assert (ran.status, row["adopted_bytes"], row["generation"]) == (0, finished, 1)
    assert row["adopted_bytes"] + row["new_bytes"] == row["total_bytes"]
    assert [path.name for path in url.rglob("*.partial")] == ["other.partial"]
    assert stored(url, "killed-0") == segments(data, "killed-0")
    assert run_kt("backup", "verify", str(url), "--against", broker).status == 0


def before_reading(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Lets something happen between the plan of a backup and its reading."""
    make_reader = run_backup.batch_reader

    def reader(cluster: ClientCluster, clock: Clock) -> BatchReader:
        act()
        return make_reader(cluster, clock)

    monkeypatch.setattr(run_backup, "batch_reader", reader)


def delete_records(bootstrap: str, topic: str, offset: int, directory: pathlib.Path) -> None:
    path = directory / "offsets.json"
    path.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": offset}]}))
    assert kt(bootstrap, "delete-records", "--offset-json-file", str(path)).status == 0


@pytest.mark.parametrize("others", [[], ["stays"]])
def test_a_topic_that_is_deleted_while_it_is_read_is_named(
    broker: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, others: list[str]
) -> None:
    for topic in ("goes", *others):
        create(broker, topic)
        fill(broker, topic)
    before_reading(monkeypatch, lambda: kt(broker, "topics", "--delete", "--topic", "goes"))
    words = [word for topic in ("goes", *others) for word in ("--topic", topic)]
    ran = kt(broker, "backup", "--to", str(tmp_path / "b"), *words)
    assert (ran.status, "goes-0 was read up to offset 0: the topic no longer exists" in ran.err) == (1, True), ran.err
    assert all(stored(tmp_path / "b", f"{topic}-0") for topic in others)
    assert len(list((tmp_path / "b").glob("manifest-*.json"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "partitions"), [("memory", 20), ("file", 70)])
def test_a_deleted_topic_with_more_partitions_than_are_read_at_a_time(
    broker: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, scheme: str, partitions: int
) -> None:
    topic = f"wide-{scheme}"
    create(broker, topic, partitions=partitions)
    fill_each(broker, topic, partitions)
    before_reading(monkeypatch, lambda: kt(broker, "topics", "--delete", "--topic", topic))
    url = f"memory://{uuid.uuid4()}/b" if scheme == "memory" else (tmp_path / "b").as_uri()
    ran = kt(broker, "backup", "--to", url, "--topic", topic, "--json")
    assert (ran.status, json.loads(ran.out)["unread_partitions"]) == (1, partitions), ran.err
    lines = ran.err.splitlines()
    for number in range(partitions):
        assert sum(f"{topic}-{number} was read up to offset 0: the topic no longer exists" in row for row in lines) == 1
    if scheme == "file":
        manifest = last_manifest(open_store(url))
        assert manifest is not None
        listed = [(part.end, part.unread) for _, _, part in manifest.partitions()]
        assert listed == [(0, "the topic no longer exists")] * partitions


@pytest.mark.slow
def test_partitions_that_wait_for_failed_ones_are_read(
    broker: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker, "first", partitions=8)
    fill_each(broker, "first", 8)
    create(broker, "second", partitions=8)
    fill_each(broker, "second", 8)
    monkeypatch.setattr(backup_run, "_LOCAL_PARTITIONS", 4)
    before_reading(monkeypatch, lambda: kt(broker, "topics", "--delete", "--topic", "first"))
    words = ("--topic", "first", "--topic", "second", "--json")
    ran = kt(broker, "backup", "--to", str(tmp_path / "b"), *words)
    assert (ran.status, json.loads(ran.out)["unread_partitions"]) == (1, 8), ran.err
    assert all(stored(tmp_path / "b", f"second-{number}") for number in range(8))


def refuse_looks(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let the next `count` requests for topics through admin clients end with a time-out."""
    send_all = AdminClient.send_all
    refused: list[int] = []

    def send(admin: AdminClient, requests: Sequence[BrokerRequest], *limits: int) -> list[BrokerResponse]:
        keys = {request.api_key for request in requests}
        if keys & {ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS} and len(refused) < count:
            refused.append(1)
            raise RequestTimedOut("No broker answered")
        return send_all(admin, requests, *limits)

    monkeypatch.setattr(AdminClient, "send_all", send)


@pytest.mark.slow
def test_a_look_for_a_missing_topic_that_fails_is_repeated(
    broker: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker, "looked-for")
    fill(broker, "looked-for")
    monkeypatch.setattr(deleted_topics, "_INTERVAL_MS", 100)

    def delete() -> None:
        kt(broker, "topics", "--delete", "--topic", "looked-for")
        refuse_looks(monkeypatch, 1)

    before_reading(monkeypatch, delete)
    ran = kt(broker, "backup", "--to", str(tmp_path / "b"), "--topic", "looked-for")
    assert (ran.status, "looked-for-0 was read up to offset 0: the topic no longer exists" in ran.err) == (1, True)
    assert len(list((tmp_path / "b").glob("manifest-*.json"))) == 1


@pytest.mark.slow
def test_looks_that_go_on_failing_end_with_the_readers_patience(
    broker: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker, "unclear")
    fill(broker, "unclear")
    monkeypatch.setattr(deleted_topics, "_INTERVAL_MS", 100)

    def reader(cluster: ClientCluster, clock: Clock) -> BatchReader:
        kt(broker, "topics", "--delete", "--topic", "unclear")
        refuse_looks(monkeypatch, 1000)
        return BatchReader(cluster.client(CONSUMER), clock, patience_ms=1200)

    monkeypatch.setattr(run_backup, "batch_reader", reader)
    ran = kt(broker, "backup", "--to", str(tmp_path / "b"), "--topic", "unclear")
    assert ran.status == 1
    assert "Nothing came of 1 partitions (unclear-0) in 1200 ms" in ran.err
    assert "What was read is kept; run the same command again" in ran.err
    assert not list((tmp_path / "b").glob("manifest-*.json"))


@pytest.mark.parametrize("count", [0, 10])
def test_a_topic_that_is_created_again_with_fewer_records_is_named(
    broker: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    topic = f"shorter-{count}"
    create(broker, topic)
    fill(broker, topic)

    def reader(cluster: ClientCluster, clock: Clock) -> BatchReader:
        kt(broker, "topics", "--delete", "--topic", topic)
        create(broker, topic)
        fill(broker, topic, count)
        return BatchReader(cluster.client(CONSUMER), clock, patience_ms=5000)

    monkeypatch.setattr(run_backup, "batch_reader", reader)
    ran = kt(broker, "backup", "--to", str(tmp_path / "b"), "--topic", topic)
    reason = f"{topic}-0 was read up to offset 0: the topic was deleted and created again during the backup"
    assert (ran.status, reason in ran.err) == (1, True), ran.err


def test_a_topic_that_is_created_again_while_it_is_read_is_named(
    broker: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker, "anew")
    fill(broker, "anew")

    def replace() -> None:
        kt(broker, "topics", "--delete", "--topic", "anew")
        create(broker, "anew")
        fill(broker, "anew", 60)

    before_reading(monkeypatch, replace)
    ran = kt(broker, "backup", "--to", str(tmp_path / "b"), "--topic", "anew")
    assert ran.status == 1
    assert "anew-0 was read up to offset 0: the topic was deleted and created again during the backup" in ran.err
    assert not stored(tmp_path / "b", "anew-0")


@pytest.mark.parametrize("start", [12, 16])
def test_records_that_are_deleted_while_they_are_read_are_a_gap(
    broker: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    topic = f"shrinks-{start}"
    create(broker, topic)
    fill(broker, topic, 8)
    back_up(broker, tmp_path / "b", topic)
    fill(broker, topic, 4)
    fill(broker, topic, 4)
    before_reading(monkeypatch, lambda: delete_records(broker, topic, start, tmp_path))
    ran = kt(broker, "backup", "--to", str(tmp_path / "b"), "--topic", topic)
    gap = f"{topic}-0: offsets 8 to {start - 1} were deleted before they were backed up"
    assert (ran.status, gap in ran.err) == (0, True), ran.err
    monkeypatch.undo()
    objects = sorted(path.stem for path in (tmp_path / f"b/logs/{topic}-0").glob("*.log"))
    assert [int(name) for name in objects] == ([0, 12] if start == 12 else [0])
    assert run_kt("backup", "verify", str(tmp_path / "b"), "--against", broker).status == 0


def test_a_damaged_batch_ends_the_partition_and_is_named(
    broker: str, data: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker, "flipped")
    fill(broker, "flipped", 20)
    fill(broker, "flipped", 20)
    (directory,) = data.rglob("flipped-0")
    (segment,) = directory.glob("*.log")
    first = 12 + int.from_bytes(segment.read_bytes()[8:12], "big")

    def damage() -> None:
        with segment.open("r+b") as file:
            file.seek(first + 100)
            byte = file.read(1)[0]
            file.seek(first + 100)
            file.write(bytes([byte ^ 1]))

    before_reading(monkeypatch, damage)
    ran = kt(broker, "backup", "--to", str(tmp_path / "b"), "--topic", "flipped")
    assert ran.status == 1
    assert "flipped-0 was read up to offset 20: the batch at offset 20 is damaged: " in ran.err
    assert stored(tmp_path / "b", "flipped-0") == segment.read_bytes()[:first]
    ran = run_kt("backup", "verify", str(tmp_path / "b"), "--against", broker)
    assert "offsets 20 to 39 are not backed up" in ran.out + ran.err


def test_only_a_run_that_reads_a_topic_to_its_end_counts_for_tombstones(
    broker: str, data: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker, "half-read", "--config", "cleanup.policy=compact")
    fill(broker, "half-read", 5)
    back_up(broker, tmp_path / "b", "half-read")
    store = open_store(str(tmp_path / "b"))
    (first,) = (topic.read_ms for topic in newest(store).topics.values())
    fill(broker, "half-read", 5)

    def stop() -> None:
        raise CommandError("stopped")

    before_reading(monkeypatch, stop)
    assert kt(broker, "backup", "--to", str(tmp_path / "b"), "--topic", "half-read").status == 1
    monkeypatch.undo()
    progress = read_progress(store)
    assert progress is not None
    assert progress.topics["half-read"].read_ms == first
    (segment,) = data.rglob("half-read-0/*.log")
    sound_bytes = segment.read_bytes()
    segment.write_bytes(sound_bytes[:-1] + bytes([sound_bytes[-1] ^ 1]))
    assert kt(broker, "backup", "--to", str(tmp_path / "b"), "--topic", "half-read").status == 1
    assert newest(store).topics["half-read"].read_ms == first
    segment.write_bytes(sound_bytes)
    back_up(broker, tmp_path / "b", "half-read")
    assert newest(store).topics["half-read"].read_ms == newest(store).created_ms > first


def newest(store: Store) -> Manifest:
    manifest = last_manifest(store)
    assert manifest is not None
    return manifest


# Position in the first batch: what stands there. The second batch begins later.
CLASSES = {
    3: "base offset", 11: "length", 15: "leader epoch", 16: "magic", 18: "crc", 22: "attributes",
    26: "last offset delta", 30: "base timestamp", 50: "producer id", 58: "record count", 70: "records",
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(broker: str, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A backup with an object of two batches."""
    create(broker, "sound")
    fill(broker, "sound", 20)
    fill(broker, "sound", 20)
    url = tmp_path_factory.mktemp("sound") / "b"
    back_up(broker, url, "sound")
    return url


@pytest.mark.parametrize("position", CLASSES)
def test_each_flipped_byte_is_found(sound: pathlib.Path, position: int) -> None:
    path = sound / "logs" / "sound-0" / "00000000000000000000.log"
    content = path.read_bytes()
    path.write_bytes(content[:position] + bytes([content[position] ^ 0x55]) + content[position + 1 :])
    ran = run_kt("backup", "verify", str(sound), "--json")
    path.write_bytes(content)
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert (ran.status, [row["name"] for row in rows[:-1]]) == (3, ["logs/sound-0/00000000000000000000.log"])
    assert rows[-1]["damages"] == 1


def test_lost_and_added_bytes_objects_and_manifests_are_found(sound: pathlib.Path) -> None:
    path = sound / "logs" / "sound-0" / "00000000000000000000.log"
    content = path.read_bytes()
    first = int.from_bytes(content[8:12], "big") + 12
    for changed in (content[:-1], content[:first], content + b"\0" * 20, content + content[:first], b""):
        path.write_bytes(changed)
        assert run_kt("backup", "verify", str(sound)).status == 3
    path.unlink()
    ran = run_kt("backup", "verify", str(sound))
    assert (ran.status, "logs/sound-0/00000000000000000000.log (offset 0): the object is missing" in ran.out) == (
        3,
        True,
    )
    path.write_bytes(content)
    manifest = sound / "manifest-000001.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"start":0', '"start":1'))
    ran = run_kt("backup", "verify", str(sound))
    manifest.write_text(text)
    assert (ran.status, "Damaged: manifest-000001.json: the manifest is damaged" in ran.out) == (3, True)
    assert run_kt("backup", "verify", str(sound)).status == 0


def test_a_cluster_that_went_on_or_is_another_one_is_named(broker: str, tmp_path: pathlib.Path, bootstrap: str) -> None:
    create(broker, "further")
    fill(broker, "further", 4)
    back_up(broker, tmp_path / "b", "further")
    fill(broker, "further", 2)
    ran = run_kt("backup", "verify", str(tmp_path / "b"), "--against", broker)
    assert (ran.status, "further-0: offsets 4 to 5 are not backed up" in ran.out) == (3, True)
    other = kt(bootstrap, "backup", "--to", str(tmp_path / "b"))
    assert (other.status, "is a backup of the cluster" in other.err) == (1, True)


def test_partitions_that_were_added_since_are_named(broker: str, tmp_path: pathlib.Path) -> None:
    create(broker, "wider")
    back_up(broker, tmp_path / "b", "wider")
    assert kt(broker, "topics", "--alter", "--topic", "wider", "--partitions", "3").status == 0
    ran = run_kt("backup", "verify", str(tmp_path / "b"), "--against", broker)
    named = [line for line in ran.out.splitlines() if line.startswith("Different: ")]
    assert (ran.status, named) == (3, [f"Different: wider-{n}: the backup lacks the partition" for n in (1, 2)])


@pytest.mark.parametrize("content", [None, b"short"], ids=["missing", "short"])
def test_a_partition_whose_object_is_lost_is_stored_again(
    broker: str, data: pathlib.Path, tmp_path: pathlib.Path, content: bytes | None
) -> None:
    topic = "lost" if content is None else "shortened"
    create(broker, topic)
    fill(broker, topic, 5)
    back_up(broker, tmp_path / "b", topic)
    path = tmp_path / "b" / "logs" / f"{topic}-0" / "00000000000000000000.log"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    ran = kt(broker, "backup", "--to", str(tmp_path / "b"), "--topic", topic)
    name = f"logs/{topic}-0/00000000000000000000.log"
    assert (ran.status, f"{name} is missing or does not have its" in ran.err) == (0, True)
    assert stored(tmp_path / "b", f"{topic}-0", "logs-2") == segments(data, f"{topic}-0")
    assert run_kt("backup", "verify", str(tmp_path / "b"), "--generation", "2").status == 0


def test_a_backup_of_another_cluster_differs_by_topic_id(broker: str, tmp_path: pathlib.Path, bootstrap: str) -> None:
    create(broker, "elsewhere")
    create(bootstrap, "elsewhere")
    back_up(broker, tmp_path / "b", "elsewhere")
    ran = run_kt("backup", "verify", str(tmp_path / "b"), "--against", bootstrap)
    assert (ran.status, "elsewhere-0: the topic has another id: " in ran.out) == (3, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("backup", "--topic", "x"), 'Missing required argument "[to]"'),
        (("backup", "--to", "x", "--object-size", "5"), "--object-size 5 must be at least 1MiB"),
        (("backup", "verify"), "kt backup verify needs the URL of a backup"),
        (("backup", "verify", "/nowhere"), "/nowhere does not exist: it is no backup"),
        (("backup", "list", "/proc/self/comm"), "/proc/self/comm is not a directory: it is no backup"),
        (("backup", "verify", ""), "The directory or URL of the backup is empty"),
        (("restore", "--from", ""), "The directory or URL of the backup is empty"),
        (("backup", "verify", "nosuch://x"), "nosuch://x: there is no storage 'nosuch'"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], message: str) -> None:
    ran = run_kt(*words)
    assert message in ran.err
    assert ran.status in (1, 2)
    assert "Traceback" not in ran.err


def test_a_missing_topic_is_named(broker: str, tmp_path: pathlib.Path) -> None:
    ran = kt(broker, "backup", "--to", str(tmp_path / "b"), "--topic", "nosuch")
    assert (ran.status, ran.err.splitlines()[0]) == (1, "Topic nosuch does not exist")
