"""A producer against the embedded broker: rows that are too large for a request, calls at odd moments."""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.waiting import eventually

import kafkatools
from kafkatools import errors
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import KafkaError
from kafkatools.core.producer.futures import RecordMetadata, RowsRun
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.core.records import builder, compression
from kafkatools.core.records.columns import RowColumns


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("calls") / "data") as address:
        with kafkatools.Admin(bootstrap_servers=address) as admin:
            admin.create_topics(["rows"])
        yield address


def sent_and_refused(bootstrap: str, rows: RowColumns) -> tuple[list[int], list[int]]:
    """The numbers of acknowledged rows, and of those that are too large for a request."""
    runs: list[RowsRun] = []
    limits = {"max.request.size": 100_000, "batch.size": 1_000_000, "compression.type": "gzip"}
    with kafkatools.Producer(limits, bootstrap_servers=bootstrap) as producer:
        producer.send_columns("rows", rows, callback=runs.append)
    assert {type(run.error) for run in runs} <= {type(None), errors.RecordTooLarge}
    sent = [row for run in runs if run.error is None for row in run.rows]
    return sorted(sent), sorted(row for run in runs if run.error is not None for row in run.rows)


@pytest.mark.parametrize(("key_size", "value_size"), [(150_000, 1), (1, 150_000), (60_000, 60_000)])
def test_rows_above_a_requests_size_are_refused_wherever_their_bytes_are(
    bootstrap: str, key_size: int, value_size: int
) -> None:
    large = (b"k" * key_size, b"v" * value_size)
    cells = [(b"a", b"1"), large, (b"b", b"2"), (b"c", b"3"), large]
    rows = RowColumns.of_values([value for _, value in cells], [key for key, _ in cells])
    assert sent_and_refused(bootstrap, rows) == ([0, 2, 3], [1, 4])


def test_rows_above_a_requests_size_are_refused_when_keys_are_parts_of_values(bootstrap: str) -> None:
    starts, sizes = array("i", [0, 0, 1]), array("i", [5, 90_000, 5])
    rows = RowColumns(b"x" * 90_000, starts, sizes, starts, sizes)
    assert sent_and_refused(bootstrap, rows) == ([0, 2], [1])


def test_a_row_slightly_above_a_requests_size_is_refused(bootstrap: str) -> None:
    rows = RowColumns.of_values([b"", b"v" * 99_990])
    assert sent_and_refused(bootstrap, rows) == ([0], [1])


@pytest.mark.parametrize("settings", [{}, {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}])
def test_a_batch_that_cannot_be_compressed_fails_alone(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object]
) -> None:
    def compress(codec: int, data: memoryview, level: int | None) -> bytes:
        if b"huge" in bytes(data):
            raise MemoryError("no memory for the window of the compressor")
        return compression.compress(codec, data, level)

    monkeypatch.setattr(builder, "compress", compress)
    topic = f"compressed-{len(settings)}"
    with kafkatools.Producer(
        {"compression.type": "gzip", **settings}, bootstrap_servers=bootstrap, linger_ms=0
    ) as producer:
        first = [producer.send(topic, b"before", partition=0), producer.send(topic, b"huge", partition=0)]
        with pytest.raises(KafkaError, match="could not be encoded: MemoryError"):
            for future in first:
                future.get(5000)
        producer.flush()
        assert producer.send(topic, b"after", partition=0).get(5000).offset >= 0
    with kafkatools.Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning([(topic, 0)])
        values: list[bytes | None] = []
        while b"after" not in values:
            values += [record.value for record in consumer.poll(1000)]
    assert values in ([b"after"], [b"before", b"after"])


def test_a_transaction_with_a_batch_that_cannot_be_compressed_is_aborted(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(codec: int, data: memoryview, level: int | None) -> bytes:
        raise MemoryError

    settings = {"compression.type": "gzip", "transactional.id": "compressed"}
    with kafkatools.Producer(settings, bootstrap_servers=bootstrap, max_block_ms=10_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with monkeypatch.context() as patched:
            patched.setattr(builder, "compress", fail)
            refused = producer.send("compressed", b"x", partition=0)
            with pytest.raises(KafkaError, match="could not be encoded"):
                producer.commit_transaction()
        producer.abort_transaction()
        assert isinstance(refused.exception(), KafkaError)
        producer.begin_transaction()
        accepted = producer.send("compressed", b"y", partition=0)
        producer.commit_transaction()
        assert accepted.get(0).offset >= 0


LONG = "x" * 40_000
REFUSAL = "has 40,000 bytes; a text in a request has at most 32,767"


@pytest.mark.parametrize("client", [kafkatools.Producer, kafkatools.Consumer, kafkatools.Admin])
def test_a_setting_that_no_request_can_hold_is_named(client: Any) -> None:
    with pytest.raises(errors.ConfigError, match=f"^client.id {REFUSAL}"):
        client(bootstrap_servers="127.0.0.1:1", client_id=LONG)


@pytest.mark.parametrize("name", ["client_id", "client_rack", "group_id", "group_instance_id"])
def test_a_setting_with_a_lone_surrogate_is_refused(name: str) -> None:
    with pytest.raises(UnicodeEncodeError):
        kafkatools.Consumer({}, bootstrap_servers="127.0.0.1:1", **{name: "orders\udcff"})


def test_a_topics_name_that_no_request_can_hold_fails_its_record_alone(bootstrap: str) -> None:
    with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
        refused = producer.send(LONG, b"x")
        assert producer.send("compressed", b"x").get(10_000).offset >= 0
        with pytest.raises(errors.InvalidTopic, match=f"^The name of the topic {REFUSAL}"):
            refused.get(0)
    with kafkatools.Consumer(bootstrap_servers=bootstrap) as consumer:
        with pytest.raises(errors.InvalidTopic, match=REFUSAL):
            consumer.assign([(LONG, 0)])
        assert consumer.partitions_for("compressed") == [0]


def test_a_consumer_keeps_its_topics_after_a_name_that_no_request_can_hold(bootstrap: str) -> None:
    with kafkatools.Consumer(bootstrap_servers=bootstrap, group_id="kept") as consumer:
        consumer.subscribe(["rows"])
        with pytest.raises(errors.InvalidTopic, match=REFUSAL):
            consumer.subscribe([LONG])
        assert consumer.subscription() == {"rows"}
        consumer.unsubscribe()
        consumer.assign([("rows", 0)])
        with pytest.raises(errors.InvalidTopic, match=REFUSAL):
            consumer.assign([(LONG, 0)])
        assert consumer.assignment() == [("rows", 0)]
    with kafkatools.ShareConsumer(bootstrap_servers=bootstrap, group_id="share") as share:
        share.subscribe(["rows"])
        with pytest.raises(errors.InvalidTopic, match=REFUSAL):
            share.subscribe([LONG])
        assert share.subscription() == {"rows"}


@pytest.mark.parametrize(
    "offsets",
    [{("rows\udcff", 0): 1}, {("rows", 0): kafkatools.OffsetAndMetadata(1, -1, "\udcff")}],
    ids=["topic", "metadata"],
)
def test_an_offset_with_a_lone_surrogate_is_refused_and_later_commits_do_not_wait_for_it(
    bootstrap: str, offsets: dict[tuple[str, int], int | kafkatools.OffsetAndMetadata]
) -> None:
    with kafkatools.Consumer(bootstrap_servers=bootstrap, group_id="surrogate") as consumer:
        with pytest.raises(UnicodeEncodeError):
            consumer.commit_async(offsets)
        consumer.commit_sync({("rows", 0): 1})
    with kafkatools.Producer(bootstrap_servers=bootstrap, transactional_id="surrogate", max_block_ms=5000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(UnicodeEncodeError):
            producer.send_offsets_to_transaction(offsets, kafkatools.ConsumerGroupMetadata("surrogate"))
        producer.commit_transaction()


def test_a_topics_name_with_a_lone_surrogate_is_refused_and_other_topics_go_on(bootstrap: str) -> None:
    with kafkatools.Producer(bootstrap_servers=bootstrap, max_block_ms=10_000) as producer:
        with pytest.raises(UnicodeEncodeError):
            producer.send("orders\udcff", b"x")
        assert producer.send("compressed", b"x").get(10_000).offset >= 0


def test_names_of_offsets_that_no_request_can_hold_are_refused_at_once(bootstrap: str) -> None:
    group = kafkatools.ConsumerGroupMetadata("g")
    with kafkatools.Producer(bootstrap_servers=bootstrap, transactional_id="names", max_block_ms=10_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(errors.InvalidGroupId, match=f"^The name of the group {REFUSAL}"):
            producer.send_offsets_to_transaction({("rows", 0): 1}, kafkatools.ConsumerGroupMetadata(LONG))
        with pytest.raises(errors.InvalidTopic, match=f"^The name of the topic {REFUSAL}"):
            producer.send_offsets_to_transaction({(LONG, 0): 1}, group)
        producer.send_offsets_to_transaction({("rows", 0): 1}, group)
        producer.commit_transaction()
        producer.begin_transaction()
        with pytest.raises(errors.KafkaError, match=f"The field committed_metadata {REFUSAL}"):
            producer.send_offsets_to_transaction({("rows", 0): kafkatools.OffsetAndMetadata(1, -1, LONG)}, group)


class Counted:
    """An interceptor that counts how often it is closed."""

    def __init__(self) -> None:
        self.closed = 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        pass

    def close(self) -> None:
        self.closed += 1


def test_interceptors_are_closed_once() -> None:
    counted = Counted()
    with kafkatools.Producer(bootstrap_servers="127.0.0.1:1", interceptors=[counted]) as producer:
        producer.close()
        assert counted.closed == 1
        producer.close()
    assert counted.closed == 1


def test_flush_in_a_callback_is_an_error_and_not_a_deadlock(bootstrap: str) -> None:
    failures: list[errors.IllegalState] = []

    with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:

        def flush(metadata: RecordMetadata, error: Exception | None) -> None:
            with pytest.raises(errors.IllegalState, match="flush cannot be called in a callback") as refused:
                producer.flush()
            failures.append(refused.value)

        producer.send("rows", b"x", callback=flush)
        producer.flush()
        assert len(failures) == 1


def test_closed_producer_does_not_wait_for_metadata(bootstrap: str) -> None:
    producer = kafkatools.Producer(bootstrap_servers=bootstrap)
    assert producer.partitions_for("rows") == [0]
    producer.close()
    assert producer.partitions_for("rows") == [0]
    with pytest.raises(errors.IllegalState, match="after producer has been closed"):
        producer.partitions_for("unknown")
    producer.flush()


def test_close_ends_the_wait_of_another_thread_for_metadata(bootstrap: str) -> None:
    problems: list[errors.IllegalState] = []
    producer = kafkatools.Producer(bootstrap_servers=bootstrap)
    assert producer.partitions_for("rows") == [0]

    def send() -> None:
        try:
            producer.send("rows", b"x", partition=7)
        except errors.IllegalState as error:
            problems.append(error)

    asking = threading.Thread(target=send, daemon=True)
    asking.start()
    eventually(lambda: producer._metadata.waiting > 0 or not asking.is_alive())
    assert asking.is_alive(), problems
    producer.close()
    asking.join(20)
    assert not asking.is_alive()
    assert [str(error) for error in problems] == ["The producer was closed while a call waited for metadata"]


def test_init_transactions_waits_no_longer_than_its_time_out_without_a_broker() -> None:
    clock = SystemClock()
    with kafkatools.Producer(bootstrap_servers="127.0.0.1:1", transactional_id="none") as producer:
        started_ms = clock.now_ms()
        with pytest.raises(errors.Timeout, match="after 600ms while awaiting InitProducerId"):
            producer.init_transactions(timeout_ms=600)
        assert clock.now_ms() - started_ms < 2600


def test_negative_time_out_does_not_close(bootstrap: str) -> None:
    with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(ValueError, match="The timeout cannot be negative"):
            producer.close(-1)
        producer.send("rows", b"x").result(10_000)


def test_negative_offset_is_not_sent_to_a_transaction(bootstrap: str) -> None:
    with kafkatools.Producer(bootstrap_servers=bootstrap, transactional_id="negative") as producer:
        with pytest.raises(ValueError, match="Invalid negative offset"), producer.transaction():
            group = kafkatools.ConsumerGroupMetadata("g")
            producer.send_offsets_to_transaction({("rows", 0): -5}, group)
        with producer.transaction():
            producer.send_offsets_to_transaction({}, group)


@pytest.mark.parametrize("headers", [(), [("a", b"b")]], ids=["queued", "appended at once"])
def test_exit_in_a_callback_ends_neither_the_sender_nor_other_records(
    bootstrap: str, headers: list[tuple[str, bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    def leave(metadata: RecordMetadata, error: Exception | None) -> None:
        sys.exit(1)

    with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
        sent = [producer.send("rows", b"x", headers=headers, callback=leave) for _ in range(2)]
        assert [future.result(10_000).topic for future in sent] == ["rows", "rows"]
        producer.flush()
        assert producer.send("rows", b"y").result(10_000).offset > sent[-1].result().offset
    assert "Error executing user-provided callback" in caplog.text


@pytest.mark.parametrize("name", [b"n\xff", "n\udcff"])
def test_header_name_that_is_not_utf8_is_sent_as_it_is(bootstrap: str, name: str) -> None:
    with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
        sent = producer.send("rows", b"x", headers=[(name, b"v")]).result()
    with kafkatools.Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([("rows", sent.partition)])
        consumer.seek(("rows", sent.partition), sent.offset)
        ((_, _, columns),) = consumer.poll_columns(timeout_ms=10_000)
        assert columns.raw_headers(0) == [(b"n\xff", b"v")]


@pytest.mark.parametrize(
    ("partition", "message"),
    [(-1, "Invalid partition: -1"), (-5, "Invalid partition: -5"), ("0", "The partition is an int or None, not str")],
)
def test_rows_for_an_invalid_partition_are_an_error(bootstrap: str, partition: Any, message: str) -> None:
    with (
        kafkatools.Producer(bootstrap_servers=bootstrap) as producer,
        pytest.raises((ValueError, TypeError), match=message),
    ):
        producer.send_many("rows", [b"x"], partition=partition)


def test_record_that_cannot_be_encoded_is_refused_before_the_send() -> None:
    with pytest.raises(ValueError, match="lone surrogate"):
        ProducerRecord("rows", b"x", headers={"\ud800": b"v"})
    with pytest.raises(ValueError, match="more than 64 bits"):
        ProducerRecord("rows", b"x", timestamp=1 << 63)
