"""A transactional producer without a thread, on a network client whose requests the test answers.

Topic t: partitions 0 and 1 on node 1, 2 on node 2. The coordinator of the transaction is node 1, that of a group node
2, unless the test says otherwise.
"""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

from support.manual_clock import ManualClock

from kafkatools.core.config import PRODUCER, Config
from kafkatools.core.errors import Disconnected
from kafkatools.core.net.client_requests import ClientRequest, ClientResponse
from kafkatools.core.net.metadata import ClusterView, Node, PartitionView, TopicView
from kafkatools.core.producer.assembly import ProducerParts
from kafkatools.core.producer.buffer_pool import BufferPool
from kafkatools.core.producer.futures import RecordFuture
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_metadata import ProducerMetadata
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.core.producer.record_accumulator import AccumulatorSettings, RecordAccumulator
from kafkatools.core.producer.sender import Sender, SenderSettings
from kafkatools.core.producer.transaction_requests import TransactionalResult
from kafkatools.core.producer.transactions import TransactionalManager
from kafkatools.core.protocol.api_versions import ApiKey, BrokerVersions, VersionRange
from kafkatools.core.protocol.messages import decode, request_type
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.compression import CompressionType

PRODUCE_VERSION = 8
DELIVERY_TIMEOUT_MS = 5000


class ScriptedClient:
    """Keeps what is sent until the test answers it."""

    def __init__(self, versions: BrokerVersions) -> None:
        self.versions = versions
        self.requests: list[ClientRequest] = []
        self.answers: list[tuple[ClientRequest, ClientResponse]] = []
        self.unready: set[int] = set()
        self.poll_timeouts: list[int] = []

    def ready(self, node: int, now_ms: int) -> bool:
        return node not in self.unready

    def connection_failed(self, node: int) -> bool:
        return node in self.unready

    def in_flight_count(self, node: int) -> int:
        return 0

    def poll_delay_ms(self, node: int, now_ms: int) -> int:
        return 50

    def least_loaded_node(self, now_ms: int) -> int | None:
        return min({1, 2} - self.unready, default=None)

    def broker_versions(self, node: int) -> BrokerVersions:
        return self.versions

    def throttle(self, node: int, duration_ms: int, now_ms: int) -> None:
        """Nothing here is throttled."""

    def send(self, request: ClientRequest, now_ms: int | None = None) -> None:
        self.requests.append(request)

    def poll(self, timeout_ms: int, now_ms: int | None = None) -> list[ClientResponse]:
        self.poll_timeouts.append(timeout_ms)
        answers, self.answers = self.answers, []
        for request, response in answers:
            assert request.callback is not None
            request.callback(response)
        return [response for _, response in answers]

    def wakeup(self) -> None:
        """The test turns the crank itself."""

    def close(self) -> None:
        """Nothing is open."""


class TransactionBench:
    """`version`: the cluster's transaction version."""

    def __init__(self, version: int = 2) -> None:
        self.clock = ManualClock()
        self.client = ScriptedClient(versions_of_broker(version))
        settings = {"bootstrap.servers": "127.0.0.1:1", "max.block.ms": "0", "linger.ms": "0"}
        config = Config(PRODUCER, settings)
        self.metadata = ProducerMetadata(config, self.clock)
        self.metadata.add("t", 0)
        partitions = {part: PartitionView("t", part, leader, 0) for part, leader in {0: 1, 1: 1, 2: 2}.items()}
        nodes = {number: Node(number, "127.0.0.1", 9000 + number) for number in (1, 2)}
        self.metadata._cluster = ClusterView(nodes, {"t": TopicView("t", None, False, partitions)})
        self.manager = TransactionalManager("tid", 60_000, 100)
        accumulator_settings = AccumulatorSettings(
            400, 0, DELIVERY_TIMEOUT_MS, CompressionType.NONE, None, lambda attempts: 100
        )
        pool = BufferPool(1 << 20, 400, self.clock)
        self.accumulator = RecordAccumulator(accumulator_settings, pool, self.clock, self.manager)
        self.sender = Sender(
            SenderSettings(-1, 1000, 1 << 20, 1000, DELIVERY_TIMEOUT_MS, 100, False),
            self.client,  # type: ignore[arg-type]
            self.metadata,
            self.accumulator,
            self.clock,
            self.manager,
        )
        parts = ProducerParts(self.metadata, self.accumulator, self.sender)
        self.producer = Producer(config, self.clock, parts=parts, start_thread=False)

    # -- the crank --

    def turn(self, count: int = 1) -> None:
        for _ in range(count):
            self.sender.run_once(self.clock.now_ms())

    def waiting(self) -> list[str]:
        """The requests that were sent and not answered, by name."""
        return [ApiKey(request.api_key).label for request in self.client.requests]

    def take(self, api_key: ApiKey) -> ClientRequest:
        """The oldest request of an API that was not answered."""
        found = next(request for request in self.client.requests if request.api_key == api_key)
        self.client.requests.remove(found)
        return found

    def fields(self, request: ClientRequest) -> Any:
        """What a request says in the newest version that it allows."""
        newest = ApiKey(request.api_key).last_version
        version = newest if request.max_version is None else min(newest, request.max_version)
        return decode(request_type(request.api_key, version), b"".join(map(bytes, request.build(version))))[0]

    def answer(self, api_key: ApiKey, **fields: Any) -> ClientRequest:
        """Answers the oldest request of an API and turns the crank twice: it is read, and what follows is sent."""
        request = self.take(api_key)
        body = SimpleNamespace(**{"error_code": 0, **fields})
        self.client.answers.append((request, ClientResponse(request, 0, body, None, None, False, 3)))
        self.turn(2)
        return request

    def lose(self, request: ClientRequest) -> None:
        """The connection breaks before the answer."""
        error = Disconnected("lost")
        self.client.answers.append((request, ClientResponse(request, 0, None, None, error, True, 3)))
        self.turn(2)

    def answer_lookup(self, node: int = 1, error_code: int = 0) -> None:
        """Answers FindCoordinator."""
        asked = self.fields(next(each for each in self.client.requests if each.api_key == ApiKey.FIND_COORDINATOR))
        found = SimpleNamespace(
            key=asked.coordinator_keys[0], node_id=node, host="127.0.0.1", port=9000 + node,
            error_code=error_code, error_message=None,
        )  # fmt: skip
        self.answer(ApiKey.FIND_COORDINATOR, coordinators=[found])

    def answer_produce(self, code: int = 0, offset: int = 10, log_start_offset: int = 0) -> ClientRequest:
        """Answers the oldest Produce request."""
        request = self.take(ApiKey.PRODUCE)
        body = struct.pack(">ih1si", 1, 1, b"t", len(batches_of(request)))
        for partition in batches_of(request):
            body += struct.pack(">ihqqqih", partition, code, -1 if code else offset, -1, log_start_offset, 0, -1)
        raw = memoryview(body + struct.pack(">i", 0))
        self.client.answers.append((request, ClientResponse(request, PRODUCE_VERSION, None, raw, None, False, 3)))
        self.turn(2)
        return request

    def answer_partitions(self, code: int = 0) -> None:
        """Answers AddPartitionsToTxn for all that it names."""
        request = next(each for each in self.client.requests if each.api_key == ApiKey.ADD_PARTITIONS_TO_TXN)
        topics = [
            SimpleNamespace(
                name=topic.name,
                results_by_partition=[
                    SimpleNamespace(partition_index=number, partition_error_code=code) for number in topic.partitions
                ],
            )
            for topic in self.fields(request).v3_and_below_topics
        ]
        self.answer(ApiKey.ADD_PARTITIONS_TO_TXN, results_by_topic_v3_and_below=topics)

    # -- steps that most tests begin with --

    def init(self) -> TransactionBench:
        """Until the producer has an id and a coordinator; identity (77, 0)."""
        result = self.manager.initialize_transactions()
        self.turn()
        self.answer_lookup()
        self.answer(ApiKey.INIT_PRODUCER_ID, producer_id=77, producer_epoch=0)
        result.wait(0)
        return self

    def begin(self) -> TransactionBench:
        self.manager.begin_transaction()
        return self

    def send(self, value: bytes = b"v", partition: int = 0) -> RecordFuture:
        return self.producer.send(ProducerRecord("t", value, partition=partition))

    def sent(self, value: bytes = b"v", partition: int = 0) -> RecordFuture:
        """A record on its way to the broker, its partition in the transaction."""
        future = self.send(value, partition)
        self.turn()
        if not self.manager.is_v2 and ApiKey.ADD_PARTITIONS_TO_TXN.label in self.waiting():
            self.answer_partitions()
        return future

    def end(self, result: TransactionalResult, **fields: Any) -> ClientRequest:
        """Answers EndTxn; `result` is done then."""
        self.turn()
        request = self.answer(ApiKey.END_TXN, **fields)
        result.wait(0)
        return request


def versions_of_broker(version: int) -> BrokerVersions:
    """A broker that has every API in all versions and finalized a transaction version."""
    ranges = {int(key): VersionRange(key.first_version, key.last_version) for key in ApiKey}
    features = {"transaction.version": VersionRange(version, version)}
    return BrokerVersions(0, ranges, finalized_features=features, finalized_features_epoch=version)


def batches_of(request: ClientRequest) -> dict[int, RecordBatch]:
    """Partition -> batch of a Produce request."""
    data = b"".join(bytes(part) for part in request.build(PRODUCE_VERSION))
    (size,) = struct.unpack_from(">h", data, 0)
    position = 2 + max(0, size) + 2 + 4 + 4 + 3
    (count,) = struct.unpack_from(">i", data, position)
    position += 4
    found = {}
    for _ in range(count):
        partition, length = struct.unpack_from(">ii", data, position)
        found[partition] = RecordBatch(data[position + 8 : position + 8 + length])
        found[partition].ensure_valid()
        position += 8 + length
    return found
