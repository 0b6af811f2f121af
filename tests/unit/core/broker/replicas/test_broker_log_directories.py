"""A broker with several log directories: what it starts with, what it tells of them, one that fails, moving replicas.
Error codes and words are Apache Kafka's."""

from __future__ import annotations

import errno
import os
import pathlib
import threading
from collections.abc import Iterator

import pytest
from support.broker_client import BrokerClient, batch
from support.waiting import eventually

from kafkatools.core.broker.node import Node, single_node_config, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import ConfigError, KafkaError, KafkaStorageError
from kafkatools.core.log.files import Buffer, DirectoryEntry, RealFileSystem, RealLogFile
from kafkatools.core.log.format.checkpoints import read_meta_properties
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.records.batch import read_batches

NONE, STORAGE_ERROR, LOG_DIR_NOT_FOUND, UNKNOWN_PARTITION, NAME_TOO_LONG = 0, 56, 57, 3, 17
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
ALTER_LOG_DIRS, DESCRIBE_LOG_DIRS = 34, 35


class BreakingDisk(RealFileSystem):
    """Nothing below `broken` can be opened, listed or written."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: str | None = None

    def check(self, path: str) -> None:
        if self.broken is not None and (path + "/").startswith(self.broken + "/"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def open(self, path: str, *, create: bool = False) -> RealLogFile:
        self.check(path)
        return super().open(path, create=create)

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        self.check(path)
        return super().list_directory(path)

    def read_bytes(self, path: str) -> bytes:
        self.check(path)
        return super().read_bytes(path)

    def write_bytes(self, path: str, data: Buffer, *, sync: bool) -> None:
        self.check(path)
        super().write_bytes(path, data, sync=sync)


class Broker:
    """A node with the directories `a`, `b` and `c`."""

    def __init__(self, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths = [str(root / name) for name in "abc"]
        self.disk = BreakingDisk()
        self.reports: list[str] = []
        self.ended: BaseException | None = None
        self.settings: dict[str, str] = {}
        self.node: Node
        self.client: BrokerClient
        self._thread: threading.Thread | None = None
        self._write = os.pwrite
        monkeypatch.setattr(os, "pwrite", self._pwrite)

    def _pwrite(self, descriptor: int, data: Buffer, position: int) -> int:
        self.disk.check(os.readlink(f"/proc/self/fd/{descriptor}"))
        return self._write(descriptor, data, position)

    def start(self, *, format_if_needed: bool = True) -> Broker:
        config = single_node_config(",".join(self.paths), "127.0.0.1", 0, self.settings)
        setup = NodeSetup(config, SystemClock(), self.disk, self.reports.append)
        self.node = start_node(setup, format_if_needed=format_if_needed)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self.client = BrokerClient("127.0.0.1", self.node.listener.port)
        return self

    def _run(self) -> None:
        try:
            self.node.run()
        except KafkaError as error:
            self.ended = error

    def stop(self) -> None:
        if self._thread is not None:
            self.client.close()
            self.node.request_stop()
            self._thread.join()
            self._thread = None
            self.node.close()

    # what is asked of it

    def create(self, topic: str, partitions: int) -> None:
        wanted = [{"name": topic, "num_partitions": partitions, "replication_factor": 1}]
        assert self.client.call(19, 7, topics=wanted, timeout=1000).topics[0].error_code == NONE

    def produce(self, partition: int, size: int = 10) -> int:
        return int(self.client.produce("t", batch([b"x" * size]), partition=partition).error_code)

    def describe(self) -> dict[str, tuple[int, dict[str, tuple[int, bool]]]]:
        """By directory: error, and (lag, is future) by partition."""
        found = {}
        for each in self.client.call(DESCRIBE_LOG_DIRS, 4, topics=None).results:
            held = {
                f"{topic.name}-{partition.partition_index}": (partition.offset_lag, partition.is_future_key)
                for topic in each.topics
                for partition in topic.partitions
            }
            found[each.log_dir[-1]] = (int(each.error_code), held)
            assert (each.total_bytes >= each.usable_bytes > 0) is (each.error_code == NONE)
        return found

    def held(self) -> dict[str, list[str]]:
        return {name: sorted(held) for name, (_, held) in self.describe().items()}

    def move(self, path: str, topic: str, index: int) -> int:
        wanted = [{"path": path, "topics": [{"name": topic, "partitions": [index]}]}]
        return int(self.client.call(ALTER_LOG_DIRS, 2, dirs=wanted).results[0].partitions[0].error_code)

    def throttle(self, rate: str) -> None:
        resource = {"resource_type": 4, "resource_name": "1"}
        change = {"name": RATE, "config_operation": 0, "value": rate}
        answer = self.client.call(44, 1, resources=[{**resource, "configs": [change]}], validate_only=False)
        assert answer.responses[0].error_code == NONE


@pytest.fixture
def broker(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    made = Broker(tmp_path, monkeypatch)
    yield made
    made.disk.broken = None
    made.stop()


def properties_of(path: str) -> dict[str, str]:
    return read_meta_properties(RealFileSystem(), f"{path}/meta.properties")


def change_properties(path: str, **changes: str) -> None:
    file = pathlib.Path(path) / "meta.properties"
    values = {**properties_of(path), **{name.replace("_", "."): value for name, value in changes.items()}}
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))


def test_all_are_formatted_as_one_node_and_partitions_are_spread(broker: Broker) -> None:
    broker.start()
    broker.create("t", 7)
    found = [properties_of(path) for path in broker.paths]
    assert len({each["cluster.id"] for each in found}) == 1
    assert len({each["directory.id"] for each in found}) == 3
    assert {each["node.id"] for each in found} == {"1"}
    assert broker.held() == {"a": ["t-0", "t-3", "t-6"], "b": ["t-1", "t-4"], "c": ["t-2", "t-5"]}
    assert [os.path.exists(f"{path}/__cluster_metadata-0") for path in broker.paths] == [True, False, False]
    keeper = broker.node.keeper
    assert keeper is not None

    def knows_where() -> bool:
        states = broker.node.image.topics["t"].partitions
        mine = broker.node.replicas.partitions["t"]
        return all(state.directories == (keeper.directory_of(mine[index]),) for index, state in states.items())

    eventually(knows_where, 10)
    broker.stop()
    broker.start(format_if_needed=False)
    assert broker.node.logs.is_clean_start
    assert broker.held() == {"a": ["t-0", "t-3", "t-6"], "b": ["t-1", "t-4"], "c": ["t-2", "t-5"]}
    assert broker.reports == []


def test_directories_that_do_not_belong_together_are_refused(broker: Broker) -> None:
    broker.start().stop()
    second = properties_of(broker.paths[1])
    cluster_id = second["cluster.id"]
    for changes, message in (
        (
            {"cluster_id": "AAAAAAAAAAAAAAAAAAAAAQ"},
            rf"Invalid cluster.id in: .*b/meta.properties. Expected {cluster_id}, but read AAAAAAAAAAAAAAAAAAAAAQ",
        ),
        ({"node_id": "2"}, r"Stored node id 2 doesn't match previous node id 1 in .*b/meta.properties. If you moved"),
        (
            {"directory_id": properties_of(broker.paths[0])["directory.id"]},
            "Duplicate directory ID .* found. It was the ID of .*a, but also of .*b",
        ),
    ):
        change_properties(broker.paths[1], **changes)
        with pytest.raises(ConfigError, match=message):
            broker.start()
        change_properties(broker.paths[1], **{name.replace(".", "_"): value for name, value in second.items()})
    os.mkdir(f"{broker.paths[2]}/__cluster_metadata-0")
    with pytest.raises(ConfigError, match="Found unexpected metadata location in data directory `.*c/__cluster_meta"):
        broker.start()
    os.rmdir(f"{broker.paths[2]}/__cluster_metadata-0")
    os.unlink(f"{broker.paths[2]}/meta.properties")
    with pytest.raises(ConfigError, match="No `meta.properties` found in .*c"):
        broker.start(format_if_needed=False)
    broker.start()
    assert properties_of(broker.paths[2])["cluster.id"] == cluster_id


def test_a_directory_that_another_process_has_is_not_taken_for_broken(broker: Broker, tmp_path: pathlib.Path) -> None:
    broker.start().stop()
    other = os.fork()
    if other == 0:  # pragma: no cover - a process that holds the lock
        import fcntl
        import time

        descriptor = os.open(f"{broker.paths[1]}/.lock", os.O_RDWR)
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        (tmp_path / "locked").touch()
        time.sleep(60)
        os._exit(0)
    try:
        eventually((tmp_path / "locked").exists, 20)
        with pytest.raises(KafkaStorageError, match="Failed to acquire lock on file .lock in .*b"):
            broker.start()
    finally:
        os.kill(other, 9)
        os.waitpid(other, 0)


def test_a_directory_that_fails_takes_its_partitions_along_and_no_others(broker: Broker) -> None:
    broker.start()
    broker.create("t", 6)
    assert [broker.produce(index) for index in range(6)] == [NONE] * 6
    broker.disk.broken = broker.paths[1]
    assert broker.produce(4) == STORAGE_ERROR
    eventually(lambda: broker.describe()["b"] == (STORAGE_ERROR, {}), 10)
    assert [broker.produce(index) for index in range(6)] == [NONE, STORAGE_ERROR, NONE, NONE, STORAGE_ERROR, NONE]
    read = [{"topic": "t", "partitions": [{"partition": 1, "fetch_offset": 0, "partition_max_bytes": 1000}]}]
    fetched = broker.client.call(1, 11, replica_id=-1, max_wait=0, min_bytes=0, max_bytes=1000, topics=read)
    assert fetched.responses[0].partitions[0].error_code == STORAGE_ERROR
    assert broker.move(broker.paths[1], "t", 0) == STORAGE_ERROR
    assert broker.move(broker.paths[0], "t", 1) == STORAGE_ERROR
    broker.create("u", 2)
    assert broker.held() == {"a": ["t-0", "t-3", "u-0"], "b": [], "c": ["t-2", "t-5", "u-1"]}
    assert any(
        line.startswith("WARN Logs for partitions t-1,t-4 are offline and logs for future partitions none are offline")
        for line in broker.reports
    )
    keeper = broker.node.keeper
    assert keeper is not None
    assert [directory.path for directory in broker.node.logs.offline] == [broker.paths[1]]
    states = broker.node.image.topics["t"].partitions
    assert [states[index].leader for index in range(6)] == [1, -1, 1, 1, -1, 1]
    broker.stop()
    markers = [os.path.exists(f"{path}/.kafka_cleanshutdown") for path in broker.paths]
    assert markers == [True, False, True]
    broker.disk.broken = None
    broker.start()
    assert [broker.produce(index) for index in range(6)] == [NONE] * 6
    ends = [broker.node.replicas.get("t", index).log.log_end_offset for index in range(6)]
    assert ends == [3, 2, 3, 3, 2, 3]
    assert {state.leader for state in broker.node.image.topics["t"].partitions.values()} == {1}


def test_a_directory_that_is_bad_at_the_start_is_offline_and_its_partitions_too(broker: Broker) -> None:
    broker.start()
    broker.create("t", 3)
    keeper = broker.node.keeper
    assert keeper is not None
    eventually(lambda: not keeper.assignments, 10)
    broker.stop()
    broker.disk.broken = broker.paths[2]
    broker.start(format_if_needed=False)
    assert [broker.produce(index) for index in range(3)] == [NONE, NONE, STORAGE_ERROR]
    assert {name: error for name, (error, _) in broker.describe().items()} == {"a": 0, "b": 0, "c": STORAGE_ERROR}
    assert not os.path.exists(f"{broker.paths[0]}/t-2")
    assert not os.path.exists(f"{broker.paths[1]}/t-2")


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (0, "Shutdown broker because the metadata log dir {0} has failed"),
        (1, "Shutdown broker because all log dirs in {1}, {2} have failed"),
    ],
)
def test_without_the_metadata_or_any_directory_the_broker_ends(broker: Broker, first: int, message: str) -> None:
    paths = broker.paths
    if first:  # the metadata elsewhere
        broker.settings["metadata.log.dir"] = paths[0]
        broker.paths = paths[1:]
    broker.start()
    broker.create("t", 3)
    for path in paths[first:]:
        broker.disk.broken = path
        lost = [name.partition for each in broker.node.logs.live for name in each.logs if each.path == path]
        data = [{"name": "t", "partition_data": [{"index": lost[0], "records": batch([b"x"])}]}]
        fields = {"transactional_id": None, "acks": 1, "timeout": 1000, "topic_data": data}
        broker.client.socket.sendall(broker.client.frame(0, 9, fields))
        directory = next(each for each in broker.node.logs.directories if each.path == path)
        eventually(lambda directory=directory: directory.failure is not None, 10)
        if path == paths[0]:
            break
    eventually(lambda: broker.ended is not None, 10)
    assert str(broker.ended) == message.format(*paths)


def test_a_failed_metadata_directory_outside_of_the_log_directories_ends_the_broker(broker: Broker) -> None:
    metadata, broker.paths = broker.paths[0], broker.paths[1:2]
    broker.settings["metadata.log.dir"] = metadata
    broker.start()
    broker.create("t", 1)
    broker.disk.broken = metadata
    topic = {"name": "u", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    broker.client.socket.sendall(broker.client.frame(19, 5, {"topics": [topic], "timeout": 1000}))
    eventually(lambda: broker.ended is not None, 10)
    assert str(broker.ended) == f"Shutdown broker because the metadata log dir {metadata} has failed"


def test_at_the_start_the_metadatas_directory_must_be_good(broker: Broker) -> None:
    broker.start().stop()
    broker.disk.broken = broker.paths[0]
    with pytest.raises(KafkaStorageError, match="Encountered I/O error in metadata log directory .*a. Cannot continue"):
        broker.start()


@pytest.mark.parametrize("durability", ["none", "fsync"])
def test_a_replica_moves_there_and_back_while_it_is_written(broker: Broker, durability: str) -> None:
    broker.settings["log.durability"] = durability
    broker.settings["log.segment.bytes"] = "1048576"
    broker.start()
    broker.create("t", 3)
    for _ in range(30):
        assert broker.produce(0, 100_000) == NONE
    written = 30
    for target, rest in ((1, 0), (2, 1), (0, 2)):
        assert broker.move(broker.paths[target], "t", 0) == NONE
        while "t-0" in broker.held()["abc"[rest]]:
            assert broker.produce(0, 1000) == NONE
            written += 1
        log = broker.node.replicas.get("t", 0).log
        assert (log.log_end_offset, log.high_watermark) == (written, written)
        assert [name for name, held in broker.held().items() if "t-0" in held] == ["abc"[target]]
    assert broker.move(broker.paths[0], "t", 0) == NONE  # it is there already
    assert broker.describe()["a"][1]["t-0"] == (0, False)
    offset = 0
    while offset < written:
        for each in read_batches(log.read(offset, 1 << 20).read()):
            assert each.base_offset == offset
            offset = each.next_offset
    assert broker.reports == []


def test_what_cannot_be_moved_says_why(broker: Broker) -> None:
    broker.start()
    broker.create("t", 1)
    assert broker.move("/nowhere", "t", 0) == LOG_DIR_NOT_FOUND
    assert broker.move(os.path.relpath(broker.paths[1]), "t", 0) == LOG_DIR_NOT_FOUND
    assert broker.move(broker.paths[1], "n" * 249, 0) == NAME_TOO_LONG
    assert broker.move(broker.paths[2], "u", 0) == UNKNOWN_PARTITION
    broker.create("u", 1)  # where it was said that it should be
    assert broker.held() == {"a": ["t-0"], "b": [], "c": ["u-0"]}


def test_a_throttled_move_is_seen_survives_a_restart_and_can_be_called_back(broker: Broker) -> None:
    broker.start()
    broker.create("t", 2)
    for _ in range(20):
        assert broker.produce(0, 100_000) == NONE
    broker.throttle("1000")
    assert broker.move(broker.paths[2], "t", 0) == NONE
    eventually(lambda: broker.describe()["c"][1]["t-0"][0] < 20, 10)
    lag, is_future = broker.describe()["c"][1]["t-0"]
    assert 0 < lag < 20
    assert is_future
    assert broker.describe()["a"][1]["t-0"] == (0, False)
    assert broker.produce(0) == NONE
    broker.stop()
    (future,) = (name for name in os.listdir(broker.paths[2]) if name.startswith("t-0."))
    assert len(future) == len("t-0.") + 32 + len("-future")
    assert future.endswith("-future")
    broker.start()
    eventually(lambda: "t-0" in broker.describe()["c"][1], 10)
    assert broker.move(broker.paths[0], "t", 0) == NONE
    assert broker.held() == {"a": ["t-0"], "b": ["t-1"], "c": []}
    assert broker.move(broker.paths[1], "t", 0) == NONE
    assert broker.held() == {"a": ["t-0"], "b": ["t-0", "t-1"], "c": []}
    assert broker.move(broker.paths[2], "t", 0) == NONE  # another way than the one under way
    assert broker.held() == {"a": ["t-0"], "b": ["t-1"], "c": ["t-0"]}
    broker.throttle(str(1 << 40))
    eventually(lambda: broker.held() == {"a": [], "b": ["t-1"], "c": ["t-0"]}, 30)
    log = broker.node.replicas.get("t", 0).log
    assert isinstance(log, PartitionLog)
    assert log.log_end_offset == 21


def test_a_throttle_of_zero_holds_moves_until_it_is_raised(broker: Broker) -> None:
    broker.start()
    broker.create("t", 1)
    assert broker.produce(0, 100_000) == NONE
    broker.throttle("0")
    assert broker.move(broker.paths[2], "t", 0) == NONE
    assert broker.produce(0) == NONE
    for _ in range(10):  # the node works on its moves between requests
        assert broker.describe()["c"][1]["t-0"] == (2, True)
    assert broker.reports == []
    broker.throttle(str(1 << 40))
    eventually(lambda: broker.held() == {"a": [], "b": [], "c": ["t-0"]}, 10)


def test_a_deleted_topic_takes_its_moving_replica_along(broker: Broker) -> None:
    broker.start()
    broker.create("t", 1)
    assert broker.produce(0, 100_000) == NONE
    broker.throttle("1")
    assert broker.move(broker.paths[1], "t", 0) == NONE
    assert broker.client.call(20, 4, topic_names=["t"], timeout=1000).responses[0].error_code == NONE
    assert broker.held() == {"a": [], "b": [], "c": []}
    assert not [name for path in broker.paths for name in os.listdir(path) if name.endswith("-future")]


def test_a_cordoned_directory_gets_no_new_partitions(broker: Broker) -> None:
    broker.settings["cordoned.log.dirs"] = broker.paths[0]
    broker.start()
    eventually(lambda: broker.node.logs.directories[0].is_cordoned, 10)
    broker.create("t", 4)
    assert broker.held() == {"a": [], "b": ["t-0", "t-2"], "c": ["t-1", "t-3"]}
    results = broker.client.call(DESCRIBE_LOG_DIRS, 5, topics=None).results
    assert [each.is_cordoned for each in results] == [True, False, False]


def test_a_replica_that_is_damaged_stays_where_it_is(broker: Broker) -> None:
    broker.start()
    broker.create("t", 1)
    assert [broker.produce(0), broker.produce(0)] == [NONE, NONE]
    segment = pathlib.Path(broker.paths[0]) / "t-0" / ("0" * 20 + ".log")
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    assert broker.move(broker.paths[1], "t", 0) == NONE
    eventually(
        lambda: any(line.startswith("Cannot move replica t-0 to another log directory: ") for line in broker.reports),
        10,
    )
    eventually(lambda: broker.held() == {"a": ["t-0"], "b": [], "c": []}, 10)
    assert broker.produce(0) == NONE
