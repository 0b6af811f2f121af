"""A disk that is full: what clients are told, what the broker says, and that it goes on when there is room again."""

from __future__ import annotations

import errno
import os
import pathlib
import re
from collections.abc import Iterator

import pytest
from support.broker_client import BrokerClient, batch
from support.full_disk import SETTINGS, FullBroker, FullDisk, watch_writes
from support.manual_clock import ManualClock
from support.waiting import eventually

from kafkatools.core.broker.coordinators.internal_topic import partition_for
from kafkatools.core.broker.node import single_node_config, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.broker.server.failure_reports import FailureReports
from kafkatools.core.clock import SystemClock
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.records.batch import read_batches

NOT_AVAILABLE, NOT_COORDINATOR, STORAGE_ERROR = 15, 16, 56
GROUP, TRANSACTION = 0, 1
FULL = "[Errno 28] No space left on device: "


@pytest.fixture
def broker(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FullBroker]:
    made = FullBroker(tmp_path, monkeypatch)
    yield made
    made.close()


def create(client: BrokerClient, topic: str, partitions: int) -> int:
    wanted = [{"name": topic, "num_partitions": partitions, "replication_factor": 1}]
    return int(client.call(19, 7, topics=wanted, timeout=1000).topics[0].error_code)


@pytest.mark.parametrize("kind", [GROUP, TRANSACTION])
def test_a_coordinator_whose_topic_cannot_be_made_is_not_available(broker: FullBroker, kind: int) -> None:
    broker.disk.is_full = lambda path: "__cluster_metadata-0" in path
    assert [broker.find("one", kind) for _ in range(3)] == [NOT_AVAILABLE] * 3
    (report,) = broker.reports
    assert FULL in report
    assert report.endswith("__cluster_metadata-0/00000000000000000000.log'")
    broker.disk.is_full = lambda path: False
    assert broker.find("one", kind) == 0


@pytest.mark.parametrize(("kind", "topic"), [(GROUP, "__consumer_offsets"), (TRANSACTION, "__transaction_state")])
def test_a_coordinators_partition_that_cannot_be_made_is_made_when_there_is_room(
    broker: FullBroker, kind: int, topic: str
) -> None:
    lacking = f"{topic}-{partition_for('one', 4)}"
    broker.disk.is_full = lambda path: lacking in path
    assert broker.find("one", kind) == NOT_AVAILABLE
    other = next(name for name in "abcdef" if partition_for(name, 4) != partition_for("one", 4))
    assert broker.find(other, kind) == 0
    (report,) = broker.reports
    assert report.startswith(f"Error while creating log for {lacking}: ")
    assert lacking in report.partition(FULL)[2]
    broker.disk.is_full = lambda path: False
    eventually(lambda: broker.find("one", kind) == 0, 10)
    assert broker.find(other, kind) == 0


def test_a_transactional_id_keeps_its_partition_while_others_lack(broker: FullBroker) -> None:
    """By the topic's number of partitions, not by how many there are."""
    broker.disk.is_full = lambda path: "__transaction_state-0" in path
    name = next(f"id{i}" for i in range(20) if partition_for(f"id{i}", 4) == 3)
    assert broker.find(name, TRANSACTION) == 0
    answer = broker.client.call(22, 4, transactional_id=name, transaction_timeout=60_000)
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    assert broker.node.replicas.get("__transaction_state", 3).log.log_end_offset == 1


def test_a_topic_is_made_but_for_the_partition_that_has_no_room(broker: FullBroker) -> None:
    broker.disk.is_full = lambda path: "full-1" in path
    assert create(broker.client, "full", 3) == 0
    produced = [broker.client.produce("full", batch([b"x"]), partition=index).error_code for index in range(3)]
    assert produced == [0, STORAGE_ERROR, 0]
    assert all("full-1" in line for line in broker.reports), broker.reports
    broker.disk.is_full = lambda path: False

    def has_room() -> bool:
        return bool(broker.client.produce("full", batch([b"x"]), partition=1).error_code == 0)

    eventually(has_room, 10)


def test_changes_are_made_while_the_index_of_the_synced_metadata_log_has_no_room(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index is made again from the log; a change must not be in the log and be refused."""
    monkeypatch.setitem(SETTINGS, "log.durability", "fsync")
    broker = FullBroker(tmp_path, monkeypatch)
    try:
        broker.disk.is_full = lambda path: "__cluster_metadata-0" in path and path.endswith("index")
        assert {create(broker.client, f"t{number}", 4) for number in range(30)} == {0}
        assert broker.reports == []
    finally:
        broker.disk.is_full = lambda path: False
        broker.close()
    again = start_node(NodeSetup(single_node_config(str(tmp_path), "127.0.0.1", 0), SystemClock()))
    assert len(again.image.topics) == len(again.image.topics_by_id) == 30
    again.close()


def test_a_topic_that_is_deleted_makes_room(broker: FullBroker, tmp_path: pathlib.Path) -> None:
    configs = [{"name": "file.delete.delay.ms", "value": "0"}]
    wanted = [{"name": "big", "num_partitions": 1, "replication_factor": 1, "configs": configs}]
    assert broker.client.call(19, 7, topics=wanted, timeout=1000).topics[0].error_code == 0
    assert broker.client.produce("big", batch([b"x"])).error_code == 0
    broker.disk.is_full = lambda path: "/big-0" in path
    assert broker.client.call(20, 5, topic_names=["big"], timeout=1000).responses[0].error_code == 0
    eventually(lambda: not [name for name in os.listdir(tmp_path) if name.startswith("big-")], 10)
    assert broker.reports == []


@pytest.mark.slow
def test_a_partition_that_has_no_room_is_reported_once_until_the_reason_changes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is turned by hand, so that the tries of minutes take no time."""
    disk, clock = FullDisk(), ManualClock()
    reports: list[str] = []
    setup = NodeSetup(single_node_config(str(tmp_path), "127.0.0.1", 0, {}), clock, disk, reports.append)
    node = start_node(setup, format_if_needed=True)
    watch_writes(disk, monkeypatch)
    client = BrokerClient("127.0.0.1", node.listener.port)

    def reported_in_minutes() -> list[str]:
        for _ in range(200):
            clock.advance_ms(1000)
            node.run_once(0)
        told = [line.partition(": ")[0] for line in reports]
        reports.clear()
        return told

    try:
        disk.is_full = lambda path: "/full-" in path
        wanted = [{"name": "full", "num_partitions": 3, "replication_factor": 1}]
        client.socket.sendall(client.frame(19, 7, {"topics": wanted, "timeout": 1000}))
        assert reported_in_minutes() == ["Error while creating log for full-0"]
        assert reported_in_minutes() == []
        disk.is_full = lambda path: "/full-2" in path
        assert reported_in_minutes() == ["Error while creating log for full-2"]
        disk.is_full = lambda path: False
        assert reported_in_minutes() == []
        assert node.replicas.get("full", 2).log.log_end_offset == 0
    finally:
        disk.is_full = lambda path: False
        client.close()
        node.close()


def test_topics_are_gone_even_if_the_files_of_one_cannot_be(
    broker: FullBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [create(broker.client, name, 2) for name in ("a", "b")] == [0, 0]
    rename = broker.disk.rename

    def rename_or_not(source: str, target: str) -> None:
        if "/a-" in source:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source)
        rename(source, target)

    monkeypatch.setattr(broker.disk, "rename", rename_or_not)
    broker.client.call(20, 5, topic_names=["a", "b"], timeout=1000)
    assert {"a", "b"}.isdisjoint(broker.node.replicas.partitions)
    assert all("/a-" in line for line in broker.reports) and broker.reports
    monkeypatch.setattr(broker.disk, "rename", rename)
    assert create(broker.client, "a", 1) == 0
    assert broker.client.produce("a", batch([b"x"])).error_code == 0


def test_a_topic_that_the_metadata_log_has_no_room_for_is_refused(broker: FullBroker) -> None:
    broker.disk.is_full = lambda path: "__cluster_metadata-0" in path
    assert create(broker.client, "t", 1) == STORAGE_ERROR
    broker.disk.is_full = lambda path: False
    assert create(broker.client, "t", 1) == 0


def test_a_group_whose_records_have_no_room_has_no_coordinator(broker: FullBroker) -> None:
    assert broker.find("g", GROUP) == 0
    kept = f"__consumer_offsets-{partition_for('g', 4)}"
    broker.disk.is_full = lambda path: kept in path
    joined = broker.client.call(
        11,
        5,
        group_id="g",
        session_timeout=10_000,
        rebalance_timeout=10_000,
        member_id="",
        group_instance_id="static",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}],
    )
    codes = {joined.error_code}
    if joined.error_code == 0:
        synced = broker.client.call(
            14,
            3,
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id="static",
            assignments=[{"member_id": joined.member_id, "assignment": b"a"}],
        )
        codes = {synced.error_code}
    assert codes == {NOT_COORDINATOR}
    assert any(FULL in line and kept in line for line in broker.reports)


def in_flight(values: list[bytes], producer_epoch: int = 0) -> list[bytes]:
    """One batch for each value, in the sequence of a producer."""
    header = {"producer_id": 7, "producer_epoch": producer_epoch}
    return [batch([value], base_sequence=number, **header) for number, value in enumerate(values)]


def refuse_once(broker: FullBroker, name: str) -> None:
    """The disk has no room for the next write below a partition's directory, and has for all after it."""
    left = [1]

    def is_full(path: str) -> bool:
        return name in path and path.endswith(".log") and bool(left) and left.pop() == 1

    broker.disk.is_full = is_full


def values_of(broker: FullBroker, topic: str) -> list[bytes | None]:
    log = broker.node.replicas.get(topic, 0).log
    data = log.read(0, 1 << 20).read()
    return [record.value for each in read_batches(data) for record in each.records()]


@pytest.mark.parametrize("written", [0, 2])
def test_batches_in_flight_behind_a_refused_one_get_the_same_error(broker: FullBroker, written: int) -> None:
    """Room that comes back between two of them changes nothing: the producer sends them again, in order."""
    assert create(broker.client, "t", 1) == 0
    values = [b"%d" % number for number in range(5)]
    batches = in_flight(values)
    assert broker.produce_at_once("t", batches[:written]) == [0] * written
    refuse_once(broker, "/t-0/")
    behind = len(values) - written
    assert broker.produce_at_once("t", batches[written:]) == [STORAGE_ERROR] * behind
    assert broker.produce_at_once("t", batches[written:]) == [0] * behind
    assert values_of(broker, "t") == values


def test_a_new_epoch_begins_behind_a_refused_batch(broker: FullBroker) -> None:
    assert create(broker.client, "t", 1) == 0
    refuse_once(broker, "/t-0/")
    assert broker.produce_at_once("t", in_flight([b"a", b"b"])) == [STORAGE_ERROR] * 2
    assert broker.produce_at_once("t", in_flight([b"c", b"d"], producer_epoch=1)) == [0, 0]
    assert values_of(broker, "t") == [b"c", b"d"]


def test_all_batches_in_flight_to_a_directory_that_fails_get_the_same_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = FullBroker(tmp_path / "a", monkeypatch, tmp_path / "b")
    try:
        assert create(broker.client, "u", 1) == 0  # the directories take turns: a has this one
        assert create(broker.client, "t", 1) == 0
        batches = in_flight([b"%d" % number for number in range(7)])
        assert broker.produce_at_once("t", batches[:2]) == [0, 0]
        refuse_once(broker, "/b/t-0/")
        assert broker.produce_at_once("t", batches[2:]) == [STORAGE_ERROR] * 5
        assert broker.produce_at_once("u", in_flight([b"x"])) == [0]
    finally:
        broker.close()


def test_a_failure_that_repeats_is_told_once_a_minute_with_a_count() -> None:
    clock = ManualClock()
    told: list[str] = []
    reports = FailureReports(clock, told.append)
    for line in ("no room", "no room", "other", "no room"):
        reports.report(line)
        clock.advance_ms(1000)
    assert told == ["no room", "other"]
    clock.advance_ms(60_000)
    reports.report("no room")
    assert told[2:] == ["no room (2 more times since the last report)"]


def test_a_bug_is_told_with_its_place_in_the_code() -> None:
    told: list[str] = []
    reports = FailureReports(ManualClock(), told.append)
    try:
        {}["orders"]
    except KeyError as error:
        reports.note_failure(error)
    assert re.fullmatch(r"KeyError: 'orders' \(in test_a_bug_\w+, line \d+ of test_broker_full_disk\.py\)", told[0])


def test_errors_of_descriptors_name_their_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealFileSystem().open(str(tmp_path / "f"), create=True)
    file.append(b"kept")

    def fails(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name, work in (
        ("pwrite", lambda: file.append(b"x")),
        ("pwrite", lambda: file.write_at(0, b"x")),
        ("pread", lambda: file.read_at(0, 1)),
        ("fsync", file.flush),
        ("ftruncate", lambda: file.truncate(1)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fails)
            with pytest.raises(OSError, match="No space left on device: '.*/f'"):
                work()
    assert (tmp_path / "f").read_bytes() == b"kept"
    file.close()
