"""Coordinators of several nodes over partitions in memory: leaders change, replication goes on and requests between
nodes arrive when a test says so, on a manual clock. The handlers are the broker's own."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from support.manual_clock import ManualClock

from kafkatools.core.broker.coordinators.coordination import Coordination
from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.metadata.image import MetadataImage, PartitionState, TopicState
from kafkatools.core.broker.node import single_node_config
from kafkatools.core.broker.server.apis import BROKER_APIS
from kafkatools.core.broker.server.purgatory import Purgatory
from kafkatools.core.broker.server.requests import DELAYED, Request
from kafkatools.core.broker.server.timer import Timer
from kafkatools.core.errors import KafkaError, NotEnoughReplicas, NotLeaderOrFollower, UnknownTopicOrPartition
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.log_results import LogAppendInfo
from kafkatools.core.log.producers.transaction_verification import Attempts
from kafkatools.core.protocol import messages
from kafkatools.core.records.batch import RecordBatch, stamp_batch

NODES = (1, 2, 3)
NOBODY = -1
FEATURES = {"group.version": 1, "transaction.version": 2, "share.version": 1, "metadata.version": 29}


class MemoryLog:
    """The batches of a partition, the same for every replica."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, bytes]] = []
        self.config = LogConfig()
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.failure: Exception | None = None
        self.reads = 0
        self.ongoing: set[tuple[int, int]] = set()
        self.attempts = Attempts()

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        return (producer_id, producer_epoch) in self.ongoing

    def increment_log_start_offset(self, offset: int) -> None:
        self.log_start_offset = offset

    def read(self, offset: int, max_bytes: int, **_: object) -> _Read:
        self.reads += 1
        found = b""
        for base, data in self.batches:
            if base >= offset and len(found) < max_bytes:
                found += data
        return _Read(found)

    def control_batches(self) -> list[RecordBatch]:
        """The markers."""
        batches = [RecordBatch(data) for _, data in self.batches]
        return [batch for batch in batches if batch.is_control]

    def truncate_to_high_watermark(self) -> None:
        """What a leader loses that fails before its followers had it."""
        self.batches = [(base, data) for base, data in self.batches if base < self.high_watermark]
        self.log_end_offset = self.high_watermark


class _Read:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size_bytes = len(data)

    def read(self) -> bytes:
        return self._data


class MemoryPartition:
    """A node's replica."""

    def __init__(self, topic: TopicState, index: int, log: MemoryLog) -> None:
        self.topic, self.topic_id, self.index, self.log = topic.name, topic.topic_id, index, log
        self.key = (topic.topic_id, index)
        self.is_deleted = False
        self.is_leader = False
        self.is_under_min_isr = False
        self.leader_epoch = 0

    def append(self, records: memoryview, _now_ms: int, transaction_version: int = -1, **_: object) -> LogAppendInfo:
        if not self.is_leader:
            raise NotLeaderOrFollower()
        if self.is_under_min_isr:
            raise NotEnoughReplicas()
        log = self.log
        data = bytearray(records)
        stamp_batch(data, 0, base_offset=log.log_end_offset, leader_epoch=self.leader_epoch)
        batch = RecordBatch(data)
        log.batches.append((log.log_end_offset, bytes(data)))
        if batch.is_transactional:
            producer = (batch.producer_id, batch.producer_epoch)
            log.ongoing = {each for each in log.ongoing if each[0] != producer[0]}
            log.ongoing |= set() if batch.is_control else {producer}
            log.attempts.note_append(batch, transaction_version)  # type: ignore[arg-type]
        log.log_end_offset = batch.next_offset
        return LogAppendInfo(batch.base_offset, batch.last_offset, -1, log.log_start_offset, batch.max_timestamp, False)

    def is_replicated_to(self, offset: int) -> bool:
        return self.log.high_watermark >= offset

    def replication_outcome(self, offset: int) -> int | None:
        if not self.is_leader:
            return NotLeaderOrFollower.code
        return 0 if self.is_replicated_to(offset) else None

    def fetch_end_offset(self, _isolation_level: int) -> int:
        return self.log.high_watermark


class Replicas:
    """A node's partitions."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self.partitions: dict[str, dict[int, MemoryPartition]] = {}
        self.partitions_by_id: dict[uuid.UUID, dict[int, MemoryPartition]] = {}
        self.woken: list[object] = []

    def get(self, topic: str, index: int) -> MemoryPartition:
        partition = self.partitions.get(topic, {}).get(index)
        if partition is None:
            raise UnknownTopicOrPartition()
        if not partition.is_leader:
            raise NotLeaderOrFollower()
        return partition

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        topic = self._image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def note_append(self, partition: object) -> None:
        """Nobody waits to read."""

    def wake(self, key: object) -> None:
        self.woken.append(key)

    def complete_delayed(self) -> None:
        """Nobody waits to read."""


class ClusteredNode:
    """What coordinators and handlers use of a node."""

    def __init__(self, cluster: CoordinatorCluster, node_id: int, settings: Mapping[str, str]) -> None:
        self.node_id, self.image, self.clock = node_id, cluster.image, cluster.clock
        self.config = single_node_config("/nowhere", "127.0.0.1", 0, dict(settings))
        self.failures: list[Exception] = []
        self.timer = Timer(self.clock.now_ms())
        self.produce_purgatory = Purgatory("Produce", self.timer)
        self.fetch_purgatory = Purgatory("Fetch", self.timer)
        self.replicas = Replicas(self.image)
        self.authorizer = None
        self.producer_ids = self
        self._next_producer_id = node_id * 1000 - 1
        self.wanted_topics: list[Any] = []
        self.coordinate(Channel(node_id, cluster.sent))

    def coordinate(self, channel: Channel | None) -> None:
        """Make the coordinators; without a channel those of a node on its own."""
        host = Host(
            self.node_id,
            self.config,
            self.clock,
            self.timer,
            self.image,
            self.replicas,  # type: ignore[arg-type]
            self.produce_purgatory,
            channel,  # type: ignore[arg-type]
            self.create_topic,
            self.every,
            self.note_failure,
        )
        self.coordination = Coordination(host, self.next_id)
        if channel is not None:
            self.coordination.start()
        self.groups = self.coordination.group_coordinator

    def next_id(self) -> int:
        self._next_producer_id += 1
        return self._next_producer_id

    def create_topic(self, topic: Any) -> None:
        self.wanted_topics.append(topic)

    def every(self, *_: object) -> None:
        """Upkeep is not what is tested."""

    def authorize(self, *_: object) -> bool:
        return True

    def authorize_or_raise(self, *_: object) -> None:
        """All is allowed."""

    def note_failure(self, error: Exception) -> None:
        self.failures.append(error)

    @property
    def transactions(self) -> Any:
        return self.coordination.transaction_coordinator

    @property
    def share_partitions(self) -> Any:
        return self.coordination.share_partitions


class _Acceptor:
    name = "PLAINTEXT"


class _Connection:
    client_host = "127.0.0.1"
    acceptor = _Acceptor()
    is_closed = False

    def call_when_closed(self, owner: object, run: Callable[[], None]) -> None:
        """It never closes."""


class Asked(Request):
    """A request without a socket; `answer` is the response's entity when it came."""

    __slots__ = ("answer", "entity")

    def __init__(self, api_key: int, version: int, fields: Mapping[str, Any]) -> None:
        super().__init__(_Connection(), memoryview(b""), (api_key, version, 0))  # type: ignore[arg-type]
        kind = messages.request_type(api_key, version)
        self.entity, _ = messages.decode(kind, messages.encode_fields(kind, fields), 0)
        self.client_id = "client"
        self.answer: Any = None

    def decode(self) -> Any:
        return self.entity

    def frame_response(self, body: Any, following_bytes: int = 0) -> Any:
        assert following_bytes == 0
        return body

    def complete(self, response: Any) -> None:
        assert self.answer is None, "answered twice"
        (body,) = response
        self.answer, _ = messages.decode(messages.response_type(self.api_key, self.version), body, 0)


class Sent:
    """A request between nodes that is on its way."""

    def __init__(self, source: int, target: int, api_key: int, fields: Any, on_response: Any) -> None:
        self.source, self.target, self.api_key, self.fields, self.on_response = (
            source,
            target,
            api_key,
            fields,
            on_response,
        )


class Channel:
    """A `PeerChannel` of one node."""

    def __init__(self, source: int, sent: deque[Sent]) -> None:
        self._source, self._sent = source, sent

    def send(self, node_id: int, api_key: int, fields: Any, on_response: Any, *, timeout_ms: int | None = None) -> None:
        assert timeout_ms is None or timeout_ms > 0
        self._sent.append(Sent(self._source, node_id, api_key, fields, on_response))


class CoordinatorCluster:
    """Nodes 1 to 3; topics are led by nobody until `lead`."""

    def __init__(self, **settings: str) -> None:
        self.clock = ManualClock()
        self.clock.set_wall_ms(1_000_000)
        self.image = MetadataImage()
        self.image.features.update(FEATURES)
        self.logs: dict[tuple[str, int], MemoryLog] = {}
        self.sent: deque[Sent] = deque()
        self.dead: set[int] = set()
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        self.nodes = {node_id: ClusteredNode(self, node_id, dotted) for node_id in NODES}

    # -- topics ----------------------------------------------------------------------------------------------------
    def add_topic(self, name: str, count: int, leader: int = NOBODY) -> TopicState:
        topic = TopicState(name, uuid.uuid5(uuid.NAMESPACE_DNS, name))
        for index in range(count):
            topic.partitions[index] = PartitionState(index, NODES, NODES, NOBODY, 0, 0)
            self.logs[name, index] = MemoryLog()
        self.image.topics[name] = self.image.topics_by_id[topic.topic_id] = topic
        for node in self.nodes.values():
            mine = {index: MemoryPartition(topic, index, self.logs[name, index]) for index in topic.partitions}
            node.replicas.partitions[name] = node.replicas.partitions_by_id[topic.topic_id] = mine
        for index in topic.partitions if leader != NOBODY else ():
            self.lead(name, index, leader)
        return topic

    def lead(self, name: str, index: int, leader: int) -> None:
        """Another leader, in the next epoch; NOBODY: none."""
        state = self.image.topics[name].partitions[index]
        before, state.leader = state.leader, leader
        state.leader_epoch += 1
        for node_id, node in self.nodes.items():
            partition = node.replicas.partitions[name][index]
            partition.leader_epoch = state.leader_epoch
            partition.is_leader = node_id == leader
        if before not in (NOBODY, leader):
            node = self.nodes[before]
            node.coordination.on_resigned(node.replicas.partitions[name][index])  # type: ignore[arg-type]
        if leader != NOBODY:
            node = self.nodes[leader]
            node.coordination.on_elected(node.replicas.partitions[name][index])  # type: ignore[arg-type]

    # -- time ------------------------------------------------------------------------------------------------------
    def advance(self, duration_ms: int) -> None:
        """Time goes on, a step of 10 ms at a time."""
        for _ in range(0, duration_ms, 10):
            self.clock.advance_ms(min(10, duration_ms))
            for node in self.nodes.values():
                node.timer.advance_to(self.clock.now_ms())

    def replicate(self) -> None:
        """Followers have everything."""
        for (name, index), log in self.logs.items():
            if log.high_watermark == log.log_end_offset:
                continue
            log.high_watermark = log.log_end_offset
            for node in self.nodes.values():
                node.produce_purgatory.check_and_complete(node.replicas.partitions[name][index].key)

    def settle(self) -> None:
        """All of that, until nothing changes any more."""
        for _ in range(30):
            self.deliver()
            self.replicate()
            self.advance(10)

    # -- requests --------------------------------------------------------------------------------------------------
    def ask(self, node_id: int, api_key: int, version: int, **fields: Any) -> Asked:
        """A client asks a node."""
        request = Asked(api_key, version, fields)
        response = BROKER_APIS[api_key].load()(self.nodes[node_id], request)
        if response is not DELAYED:
            request.complete(response)
        return request

    def deliver(self) -> list[Sent]:
        """What is on its way arrives; what goes to a dead node is lost. Gives what was delivered."""
        delivered = []
        for _ in range(len(self.sent)):
            sent = self.sent.popleft()
            delivered.append(sent)
            if sent.target in self.dead:
                sent.on_response(None)
                continue
            version = messages.request_type(sent.api_key, BROKER_APIS[sent.api_key].highest).__version__
            request = _Forwarded(sent.api_key, version, sent.fields, sent.on_response)
            response = BROKER_APIS[sent.api_key].load()(self.nodes[sent.target], request)
            if response is not DELAYED:
                request.complete(response)
        return delivered


class _Forwarded(Asked):
    __slots__ = ("_on_answer",)

    def __init__(self, api_key: int, version: int, fields: Any, on_response: Callable[[Any], None]) -> None:
        super().__init__(api_key, version, fields)
        self._on_answer = on_response

    def complete(self, response: Any) -> None:
        super().complete(response)
        self._on_answer(self.answer)


def code_of(call: Callable[[], object]) -> int:
    """The error code that a call raises, 0 without."""
    try:
        call()
    except KafkaError as error:
        return error.code
    return 0
