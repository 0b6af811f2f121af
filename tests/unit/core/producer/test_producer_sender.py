"""The sender's turns against a scripted network client: every way a batch can end, without a thread and without
waiting."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.config import PRODUCER, Config
from kafkatools.core.errors import (
    ClusterAuthorizationFailed,
    DecodeError,
    DeliveryTimeout,
    Disconnected,
    IllegalState,
    InvalidRecord,
    KafkaError,
    MessageTooLarge,
    NetworkException,
    Timeout,
)
from kafkatools.core.net.client_requests import ClientRequest, ClientResponse
from kafkatools.core.net.metadata import ClusterView, Node, PartitionView, TopicView
from kafkatools.core.producer.assembly import ProducerParts
from kafkatools.core.producer.buffer_pool import BufferPool
from kafkatools.core.producer.futures import RecordFuture, TopicPartition
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_metadata import ProducerMetadata
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.core.producer.record_accumulator import AccumulatorSettings, RecordAccumulator
from kafkatools.core.producer.sender import Sender, SenderSettings
from kafkatools.core.producer.transaction_manager import TransactionManager
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.messages import build, response_type
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.columns import RowColumns
from kafkatools.core.records.compression import CompressionType

TOPIC_ID = uuid.UUID(int=5)
VERSION = 8

NOT_LEADER, OUT_OF_ORDER, DUPLICATE, TOO_LARGE, INVALID_RECORD, CLUSTER_AUTHORIZATION = 6, 45, 46, 10, 87, 31


class ProducerIdAnswer:
    """What an InitProducerId response says."""

    def __init__(self, error_code: int = 0, producer_id: int = 77, producer_epoch: int = 0) -> None:
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch


class ScriptedClient:
    """A network client whose requests are answered by the test."""

    def __init__(self) -> None:
        self.requests: list[ClientRequest] = []
        self.answers: list[tuple[ClientRequest, ClientResponse]] = []
        self.unready: set[int] = set()
        self.poll_timeouts: list[int] = []
        self.is_closed = False
        self.wakeups = 0

    def ready(self, node: int, now_ms: int) -> bool:
        return node not in self.unready

    def connection_error(self, node: int) -> None:
        return None

    def cluster_error(self) -> None:
        return None

    def poll_delay_ms(self, node: int, now_ms: int) -> int:
        return 50

    def least_loaded_node(self, now_ms: int) -> int | None:
        return 1

    def throttle(self, node: int, duration_ms: int, now_ms: int) -> None:
        """Nothing here is throttled."""

    def send(self, request: ClientRequest, now_ms: int | None = None) -> None:
        self.requests.append(request)

    def send_together(self, requests: Sequence[ClientRequest], now_ms: int) -> None:
        self.requests += requests

    def poll(self, timeout_ms: int, now_ms: int | None = None) -> list[ClientResponse]:
        self.poll_timeouts.append(timeout_ms)
        answers, self.answers = self.answers, []
        for request, response in answers:
            assert request.callback is not None
            request.callback(response)
        return [response for _, response in answers]

    def in_flight_count(self, node: int) -> int:
        return sum(request.node == node for request in self.requests)

    def wakeup(self) -> None:
        """Count the call; the test turns the crank itself."""
        self.wakeups += 1

    def close(self) -> None:
        self.is_closed = True

    def take(self, api_key: int = ApiKey.PRODUCE) -> ClientRequest:
        """The oldest request of an API that was not answered."""
        found = next(request for request in self.requests if request.api_key == api_key)
        self.requests.remove(found)
        return found

    def answer(self, request: ClientRequest, **response: Any) -> None:
        fields: dict[str, Any] = {"body": None, "raw": None, "error": None, "disconnected": False, "latency_ms": 3}
        self.answers.append((request, ClientResponse(request, VERSION, **{**fields, **response})))


def produce_response(
    outcomes: Iterable[tuple[int, int, int]], record_errors: Iterable[tuple[int, str]] = ()
) -> memoryview:
    """A Produce response of version 8: (partition, error code, base offset) each."""
    parts = list(outcomes)
    body = struct.pack(">ih1si", 1, 1, b"t", len(parts))
    for partition, code, offset in parts:
        body += struct.pack(">ihqqq", partition, code, offset, -1, 0)
        errors = list(record_errors) if code else []
        body += struct.pack(">i", len(errors))
        for index, message in errors:
            body += struct.pack(">ih", index, len(message)) + message.encode()
        body += struct.pack(">h", -1)
    return memoryview(body + struct.pack(">i", 0))


def batches_of(request: ClientRequest) -> dict[int, RecordBatch]:
    """Partition -> batch of a Produce request (version 8), as it is in the producer's memory now."""
    data = b"".join(bytes(part) for part in request.build(VERSION))
    position = 2 + 2 + 4
    (topics,) = struct.unpack_from(">i", data, position)
    assert topics == 1
    name_size, name, count = struct.unpack_from(">h1si", data, position + 4)
    assert (name_size, name) == (1, b"t")
    position += 4 + 2 + 1 + 4
    found = {}
    for _ in range(count):
        partition, size = struct.unpack_from(">ii", data, position)
        found[partition] = RecordBatch(data[position + 8 : position + 8 + size])
        found[partition].ensure_valid()
        position += 8 + size
    return found


def values_of(request: ClientRequest) -> list[bytes | None]:
    return [record.value for batch in batches_of(request).values() for record in batch.records()]


class Bench:
    """A producer without a thread on a scripted client; partitions 0 and 1 of topic t on node 1, 2 on node 2."""

    def __init__(
        self, *, acks: int = -1, idempotent: bool = True, retries: int = 1000, order: bool = False, batch: int = 400
    ) -> None:
        self.clock = ManualClock()
        self.client = ScriptedClient()
        config = Config(PRODUCER, {"bootstrap.servers": "127.0.0.1:1", "max.block.ms": "0", "linger.ms": "0"})
        self.metadata = ProducerMetadata(config, self.clock)
        self.metadata.add("t", 0)
        self.set_leaders({0: (1, 0), 1: (1, 0), 2: (2, 0)})
        self.transactions = TransactionManager() if idempotent else None
        self.pool = BufferPool(1 << 20, batch, self.clock)
        settings = AccumulatorSettings(batch, 0, 5000, CompressionType.NONE, None, lambda attempts: 100)
        self.accumulator = RecordAccumulator(settings, self.pool, self.clock, self.transactions)
        self.sender = Sender(
            SenderSettings(acks, retries, 1 << 20, 1000, 5000, 100, order),
            self.client,  # type: ignore[arg-type]
            self.metadata,
            self.accumulator,
            self.clock,
            self.transactions,
        )
        parts = ProducerParts(self.metadata, self.accumulator, self.sender)
        self.producer = Producer(config, self.clock, parts=parts, start_thread=False)

    def set_leaders(self, leaders: dict[int, tuple[int, int]]) -> None:
        partitions = {part: PartitionView("t", part, leader, epoch) for part, (leader, epoch) in leaders.items()}
        nodes = {number: Node(number, "127.0.0.1", 9000 + number) for number in (1, 2)}
        self.metadata._cluster = ClusterView(nodes, {"t": TopicView("t", TOPIC_ID, False, partitions)})

    def turn(self, count: int = 1) -> None:
        for _ in range(count):
            self.sender.run_once(self.clock.now_ms())

    def start(self) -> Bench:
        """Gives the producer its id."""
        self.turn()
        self.client.answer(self.client.take(ApiKey.INIT_PRODUCER_ID), body=ProducerIdAnswer())
        self.turn()
        return self

    def send(self, value: bytes, partition: int = 0, callback: Callable[..., None] | None = None) -> RecordFuture:
        return self.producer.send(ProducerRecord("t", value, partition=partition), callback)

    def reply(self, request: ClientRequest, code: int = 0, offset: int = 10, **more: Any) -> None:
        """Answers every partition of a request alike."""
        parts = [(partition, code, offset if code == 0 else -1) for partition in batches_of(request)]
        self.client.answer(request, raw=produce_response(parts, **more))


def test_nothing_is_sent_before_there_is_a_producer_id() -> None:
    bench = Bench()
    future = bench.send(b"v")
    bench.turn()
    assert [request.api_key for request in bench.client.requests] == [ApiKey.INIT_PRODUCER_ID]
    bench.client.answer(bench.client.take(ApiKey.INIT_PRODUCER_ID), body=ProducerIdAnswer())
    bench.turn(2)
    request = bench.client.take()
    batch = batches_of(request)[0]
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 0, 0)
    bench.reply(request, offset=42)
    bench.turn()
    assert future.get(0).offset == 42
    assert bench.pool.available_bytes == 1 << 20
    assert bench.sender.is_idle


@pytest.mark.parametrize("code", [15, 14])
def test_a_producer_id_that_cannot_be_had_yet_is_asked_for_again(code: int) -> None:
    bench = Bench()
    bench.turn()
    bench.client.answer(bench.client.take(ApiKey.INIT_PRODUCER_ID), body=ProducerIdAnswer(code))
    bench.turn(2)
    assert not bench.client.requests
    bench.clock.advance_ms(100)
    bench.turn()
    assert bench.client.requests[0].api_key == ApiKey.INIT_PRODUCER_ID


def test_a_producer_id_that_is_refused_fails_everything() -> None:
    bench = Bench()
    future = bench.send(b"v")
    bench.turn()
    bench.client.answer(bench.client.take(ApiKey.INIT_PRODUCER_ID), body=ProducerIdAnswer(CLUSTER_AUTHORIZATION))
    bench.turn(2)
    with pytest.raises(ClusterAuthorizationFailed):
        future.get(0)


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, -1), (-1, 0), (77, -1)])
def test_a_producer_id_or_epoch_below_zero_fails_the_records(producer_id: int, epoch: int) -> None:
    bench = Bench()
    future = bench.send(b"v")
    bench.turn()
    answer = ProducerIdAnswer(0, producer_id, epoch)
    bench.client.answer(bench.client.take(ApiKey.INIT_PRODUCER_ID), body=answer)
    bench.turn(2)
    with pytest.raises(DecodeError, match=f"producer id {producer_id} and epoch {epoch}"):
        future.get(0)


def test_a_batch_wakes_nobody_while_every_node_has_its_requests_in_flight() -> None:
    bench = Bench(idempotent=False)
    bench.sender._is_polling = True  # as during the poll of the sender's thread
    for partition in (0, 2):
        for _ in range(5):
            assert not bench.sender.is_saturated
            bench.send(b"v" * 300, partition)
            bench.turn()
            bench.sender._is_polling = True
    assert bench.sender.is_saturated
    woken = bench.client.wakeups
    bench.send(b"waits", 1)
    assert bench.client.wakeups == woken
    bench.reply(bench.client.take())
    bench.turn(2)
    assert any(values_of(request) == [b"waits"] for request in bench.client.requests)


def test_only_the_first_of_several_wake_ups_ends_a_poll() -> None:
    bench = Bench().start()
    bench.sender._is_polling = True
    bench.sender.wakeup()
    bench.sender.wakeup()
    assert bench.client.wakeups == 1
    bench.turn()
    bench.sender._is_polling = True
    bench.sender.wakeup()
    assert bench.client.wakeups == 2


def test_a_request_holds_the_batches_of_one_node() -> None:
    bench = Bench().start()
    for partition in (0, 1, 2):
        bench.send(b"v%d" % partition, partition)
    bench.turn()
    by_node = {request.node: sorted(batches_of(request)) for request in bench.client.requests}
    assert by_node == {1: [0, 1], 2: [2]}


def test_a_partition_without_a_leader_keeps_the_back_off_of_metadata_requests() -> None:
    bench = Bench().start()
    bench.send(b"v")
    partitions = [{"partition_index": 0, "leader_id": -1, "leader_epoch": 1}]
    fields = {
        "brokers": [{"node_id": 1, "host": "h", "port": 9001}],
        "topics": [{"name": "t", "partitions": partitions}],
    }
    response = build(response_type(ApiKey.METADATA, 12), fields)
    for _ in range(2):  # the second response brings no change
        bench.metadata.update(0, response, False, bench.clock.now_ms())
    bench.turn()
    assert bench.metadata.update_requested
    assert bench.metadata.time_to_next_update_ms(bench.clock.now_ms()) > 0


def test_a_retriable_error_is_tried_again_after_the_back_off_with_the_same_sequence() -> None:
    bench = Bench().start()
    future = bench.send(b"v")
    bench.turn()
    bench.reply(bench.client.take(), NOT_LEADER)
    bench.turn(2)
    assert not bench.client.requests
    assert bench.metadata.update_requested
    bench.clock.advance_ms(100)
    bench.turn()
    request = bench.client.take()
    assert batches_of(request)[0].base_sequence == 0
    bench.reply(request, offset=3)
    bench.turn()
    assert future.get(0).offset == 3


def test_a_lost_connection_is_tried_again() -> None:
    bench = Bench().start()
    future = bench.send(b"v")
    bench.turn()
    bench.client.answer(bench.client.take(), error=Disconnected("gone"), disconnected=True)
    bench.turn()
    bench.clock.advance_ms(100)
    bench.turn()
    bench.reply(bench.client.take())
    bench.turn()
    assert future.get(0).offset == 10


@pytest.mark.parametrize("size", [0, 1, 10, 30])
def test_a_response_that_is_cut_off_fails_the_records(size: int) -> None:
    bench = Bench().start()
    future = bench.send(b"v")
    bench.turn()
    bench.client.answer(bench.client.take(), raw=produce_response([(0, 0, 5)])[:size])
    bench.turn()
    with pytest.raises(DecodeError, match=r"\(at byte \d+\)$"):
        future.get(0)


def test_retries_end_with_the_error() -> None:
    bench = Bench(retries=1).start()
    future = bench.send(b"v")
    for _ in range(2):
        bench.clock.advance_ms(100)
        bench.turn()
        bench.client.answer(bench.client.take(), error=Disconnected("gone"), disconnected=True)
        bench.turn()
    with pytest.raises(NetworkException, match="Disconnected from node 1"):
        future.get(0)


def test_the_first_batch_of_a_partition_goes_alone_until_a_broker_knows_the_producer() -> None:
    bench = Bench().start()
    futures = []
    for number in range(3):
        futures.append(bench.send(b"%d" % number * 350))
        bench.turn()
    first = bench.client.take()
    assert not bench.client.requests
    bench.reply(first, NOT_LEADER)
    bench.turn(2)
    bench.clock.advance_ms(100)
    bench.turn(2)
    assert batches_of(bench.client.requests[0])[0].base_sequence == 0 and len(bench.client.requests) == 1
    bench.reply(bench.client.take(), offset=0)
    bench.turn(3)
    assert [batches_of(request)[0].base_sequence for request in bench.client.requests] == [1, 2]


def test_order_is_kept_when_the_first_of_several_in_flight_fails() -> None:
    bench = Bench().start()
    bench.send(b"before all")
    bench.turn()
    bench.reply(bench.client.take())
    bench.turn()
    futures = []
    for number in range(3):
        futures.append(bench.send(b"%d" % number * 350))
        bench.turn()
    requests = [bench.client.take() for _ in range(3)]
    bench.reply(requests[0], NOT_LEADER)
    bench.reply(requests[1], OUT_OF_ORDER)
    bench.reply(requests[2], OUT_OF_ORDER)
    bench.turn()
    seen = []
    for offset in range(3):
        bench.clock.advance_ms(100)
        bench.turn(2)
        request = bench.client.take()
        assert not bench.client.requests, "only the first in line may go"
        seen.append(batches_of(request)[0].base_sequence)
        bench.reply(request, offset=offset)
        bench.turn()
    assert seen == [1, 2, 3]
    assert [future.get(0).offset for future in futures] == [0, 1, 2]


def test_a_duplicate_is_success_without_an_offset() -> None:
    bench = Bench().start()
    future = bench.send(b"v")
    bench.turn()
    bench.reply(bench.client.take(), DUPLICATE)
    bench.turn()
    assert future.get(0).offset == -1


def test_a_new_leader_in_the_answer_is_taken_over() -> None:
    bench = Bench().start()
    bench.send(b"v")
    bench.turn()
    request = bench.client.take()
    moved = {("t", 0): (2, 7)}
    bench.metadata.update_partition_leadership(moved)
    bench.reply(request, NOT_LEADER)
    bench.turn(2)
    assert bench.client.take().node == 2, "a retry to a new leader does not wait"


def test_a_batch_that_is_too_large_is_split_and_the_guilty_record_alone_fails() -> None:
    bench = Bench(batch=16384).start()
    futures = [bench.send(value) for value in (b"small", b"y" * 3000, b"after")]
    bench.turn()
    for _ in range(10):
        while bench.client.requests:
            request = bench.client.take()
            large = any(len(value or b"") > 1000 for value in values_of(request))
            bench.reply(request, TOO_LARGE if large else 0, offset=1)
        bench.turn(2)
    assert futures[0].get(0).offset == 1
    with pytest.raises(MessageTooLarge):
        futures[1].get(0)
    assert futures[2].get(0).offset == 1
    assert bench.pool.available_bytes == 1 << 20


def test_a_batch_that_cannot_be_split_fails_and_the_next_one_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(batch=16384).start()
    futures = [bench.send(b"x" * 100), bench.send(b"y" * 100)]
    bench.turn()

    def make_builder(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(bench.accumulator, "make_builder", make_builder)
        bench.reply(bench.client.take(), TOO_LARGE)
        bench.turn()
    for future in futures:
        with pytest.raises(KafkaError, match=r"^2 record\(s\) for t-0 could not be encoded: MemoryError"):
            future.get(0)
    assert bench.pool.available_bytes == 1 << 20
    following = bench.send(b"after")
    bench.turn()
    bench.reply(bench.client.take(), 0, offset=0)
    bench.turn()
    assert following.get(0).offset == 0
    assert bench.sender.is_idle


def test_no_record_joins_a_part_of_a_split_batch_whose_sequence_is_set() -> None:
    bench = Bench(batch=16384).start()
    values: list[bytes | None] = [b"%d" % number * 60 for number in range(6)]
    futures = [bench.send(value or b"") for value in values]
    bench.turn()
    bench.reply(bench.client.take(), TOO_LARGE)
    bench.set_leaders({1: (1, 0), 2: (2, 0)})
    bench.turn()
    futures += [bench.send(b"c")]  # which has room in the last part
    bench.set_leaders({0: (1, 0), 1: (1, 0), 2: (2, 0)})
    written: list[tuple[int, list[bytes | None]]] = []
    for offset in (0, 2, 4, 6):
        bench.turn()
        request = bench.client.take()
        written.append((batches_of(request)[0].base_sequence, values_of(request)))
        bench.reply(request, offset=offset)
        bench.turn()
    assert written == [(0, values[:2]), (2, values[2:4]), (4, values[4:]), (6, [b"c"])]
    assert [future.get(0).offset for future in futures] == list(range(7))


def test_record_errors_name_the_guilty_records() -> None:
    bench = Bench().start()
    futures = [bench.send(value) for value in (b"a", b"b", b"c")]
    bench.turn()
    bench.reply(bench.client.take(), INVALID_RECORD, record_errors=[(1, "no key"), (2, "no key either")])
    bench.turn()
    errors = []
    for future in futures:
        with pytest.raises(KafkaError) as caught:
            future.get(0)
        errors.append(caught.value)
    assert [type(error) for error in errors] == [KafkaError, InvalidRecord, InvalidRecord]
    assert str(errors[1]) == "no key"


def test_a_queued_batch_expires_with_kafkas_words() -> None:
    bench = Bench().start()
    bench.client.unready.add(1)
    future = bench.send(b"v")
    bench.turn()
    bench.clock.advance_ms(5000)
    bench.turn()
    with pytest.raises(DeliveryTimeout) as caught:
        future.get(0)
    assert str(caught.value) == (
        "Expiring 1 record(s) for t-0:5000 ms has passed since batch creation. "
        "The request has not been sent, or no server response has been received yet."
    )


def test_the_memory_of_a_batch_that_expired_in_flight_is_not_used_before_its_request_is_over() -> None:
    bench = Bench(batch=400).start()
    future = bench.send(b"first" * 50)
    bench.turn()
    request = bench.client.take()
    bench.clock.advance_ms(5000)
    bench.turn()
    with pytest.raises(DeliveryTimeout):
        future.get(0)
    assert bench.pool.available_bytes == (1 << 20) - 400
    bench.send(b"other" * 50, 1)
    assert values_of(request) == [b"first" * 50], "what is on the wire must not change"
    bench.reply(request)
    bench.turn(2)
    assert not bench.sender.is_idle
    bench.reply(bench.client.take())
    bench.turn()
    assert bench.pool.available_bytes == 1 << 20
    assert bench.sender.is_idle


@pytest.mark.slow
def test_many_batches_that_expire_in_flight_never_put_a_record_on_a_wrong_partition() -> None:
    bench = Bench(batch=400, idempotent=False)
    for turn in range(2000):
        partition = turn % 3
        bench.send(b"p%d-%06d" % (partition, turn) * 30, partition)
        bench.turn()
        bench.clock.advance_ms(5000)
        if turn % 5 == 4:
            while bench.client.requests:
                request = bench.client.take()
                for place, batch in batches_of(request).items():
                    assert all((record.value or b"").startswith(b"p%d-" % place) for record in batch.records())
                bench.client.answer(request, error=Disconnected("gone"), disconnected=True)
        bench.turn()
    bench.turn(2)
    assert bench.pool.available_bytes == 1 << 20


def test_an_expired_batch_that_was_sent_makes_the_partition_start_a_new_epoch() -> None:
    bench = Bench().start()
    bench.send(b"v")
    bench.turn()
    bench.clock.advance_ms(5000)
    bench.turn()
    bench.client.answer(bench.client.take(), error=Disconnected("gone"), disconnected=True)
    bench.turn()
    bench.send(b"next")
    bench.turn(2)
    batch = batches_of(bench.client.take())[0]
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_a_part_of_a_split_batch_that_expires_makes_the_partition_start_a_new_epoch() -> None:
    bench = Bench(batch=16384).start()
    futures = [bench.send(value) for value in (b"a", b"b")]
    bench.turn()
    bench.set_leaders({1: (1, 0), 2: (2, 0)})
    bench.reply(bench.client.take(), TOO_LARGE)
    bench.turn()
    bench.clock.advance_ms(5000)
    bench.turn(2)
    assert [type(future.exception()) for future in futures] == [DeliveryTimeout, DeliveryTimeout]
    bench.set_leaders({0: (1, 0), 1: (1, 0), 2: (2, 0)})
    bench.send(b"next")
    bench.turn(2)
    batch = batches_of(bench.client.take())[0]
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_without_acks_a_written_request_is_success_without_an_offset() -> None:
    bench = Bench(acks=0, idempotent=False)
    future = bench.send(b"v")
    bench.turn()
    request = bench.client.take()
    assert not request.expect_response
    bench.client.answer(request)
    bench.turn()
    assert future.get(0).offset == -1


def test_one_request_at_a_time_per_partition_keeps_the_order_without_sequences() -> None:
    bench = Bench(idempotent=False, order=True)
    for number in range(2):
        bench.send(b"%d" % number * 350)
    bench.turn(2)
    assert len(bench.client.requests) == 1
    bench.reply(bench.client.take())
    bench.turn(2)
    assert values_of(bench.client.take()) == [b"1" * 350]


def test_an_unknown_topic_fails_the_record_and_not_the_call() -> None:
    bench = Bench().start()
    told: list[tuple[Any, Exception | None]] = []
    future = bench.producer.send(ProducerRecord("absent", b"v"), lambda metadata, error: told.append((metadata, error)))
    with pytest.raises(Timeout, match="Topic absent not present in metadata after 0 ms."):
        future.get(0)
    assert told[0][0].offset == -1 and isinstance(told[0][1], Timeout)


def test_a_partition_that_does_not_exist_is_said_so() -> None:
    with pytest.raises(Timeout, match="Partition 9 of topic t with partition count 3 is not present"):
        Bench().start().send(b"v", 9).get(0)


def test_rows_are_spread_by_key_and_every_row_is_told() -> None:
    bench = Bench(batch=16384).start()
    keys = [b"k%d" % number for number in range(60)]
    rows = RowColumns.of_values([b"v%d" % number for number in range(60)], keys)
    future = bench.producer.send_columns("t", rows)
    bench.turn()
    found: dict[bytes, int] = {}
    while bench.client.requests:
        request = bench.client.take()
        for partition, batch in batches_of(request).items():
            found |= {record.key or b"": partition for record in batch.records()}
        bench.reply(request, offset=100)
    bench.turn()
    assert {key: found[key] for key in keys[:10]} == {
        b"k0": 2, b"k1": 2, b"k2": 0, b"k3": 1, b"k4": 1, b"k5": 0, b"k6": 1, b"k7": 1, b"k8": 2, b"k9": 2,
    }  # fmt: skip
    runs = future.get(0)
    assert sorted(row for run in runs for row in run.rows) == list(range(60))
    assert future.failed_count == 0


def test_a_row_that_is_too_large_fails_alone() -> None:
    bench = Bench(batch=400).start()
    rows = RowColumns.of_values([b"a", b"x" * (1 << 20), b"b"])
    future = bench.producer.send_columns("t", rows, partition=0)
    sent = []
    for _ in range(2):
        bench.turn(2)
        request = bench.client.take()
        sent.append(values_of(request))
        bench.reply(request)
    assert sent == [[b"a"], [b"b"]]
    bench.turn()
    runs = {tuple(run.rows): run.error for run in future.get(0)}
    assert runs[(0,)] is None and runs[(2,)] is None
    assert "1048664 bytes when serialized" in str(runs[(1,)])


def test_a_close_without_time_reports_everything_that_is_left() -> None:
    bench = Bench().start()
    told: list[Exception | None] = []
    futures = [bench.send(b"v", partition, lambda metadata, error: told.append(error)) for partition in (0, 1, 2)]
    bench.turn()
    bench.send(b"queued", 0, lambda metadata, error: told.append(error))
    bench.producer.close(0)
    assert len(told) == 4 and all(isinstance(error, IllegalState) for error in told)
    for future in futures:
        with pytest.raises(IllegalState):
            future.get(0)
    with pytest.raises(IllegalState):
        bench.send(b"late")
    assert bench.client.is_closed


def test_poll_waits_no_longer_than_until_something_is_due() -> None:
    bench = Bench().start()
    bench.client.unready.add(1)
    bench.send(b"v")
    bench.turn()
    assert bench.client.poll_timeouts[-1] == 50
    bench.client.poll_timeouts.clear()
    bench.clock.advance_ms(4990)
    bench.turn()
    assert bench.client.poll_timeouts == [10]


def test_metrics_have_kafkas_names() -> None:
    bench = Bench().start()
    bench.send(b"v")
    bench.turn()
    bench.reply(bench.client.take(), NOT_LEADER)
    bench.turn()
    bench.clock.advance_ms(100)
    bench.turn()
    bench.reply(bench.client.take())
    bench.turn()
    figures = bench.producer.metrics()
    assert figures["record-send-total"] == 2
    assert figures["record-retry-total"] == 1
    assert figures["record-error-total"] == 0
    assert figures["request-latency-avg"] == 3


def test_topic_partitions_have_kafkas_name() -> None:
    assert str(TopicPartition("t", 3)) == "t-3"
