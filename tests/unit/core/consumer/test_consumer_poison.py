"""Deserializers, records that they refuse, and interceptors, on a consumer that reads from the embedded broker."""

from __future__ import annotations

import contextlib
import logging
import struct
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.raw_client import RawClient

from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.consumer.consumer import Consumer, ConsumerRecords
from kafkatools.core.consumer.deserializers import object_deserializer
from kafkatools.core.consumer.poison import RecordDecoder, RecordDeserializationError
from kafkatools.core.errors import ConfigError, SerializationError
from kafkatools.core.group.metadata import OffsetAndMetadata

LONG = "org.apache.kafka.common.serialization.LongDeserializer"
START = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"group_initial_rebalance_delay_ms": "0", "offsets_topic_num_partitions": "1"}
    with embedded_broker(tmp_path_factory.mktemp("poison"), **settings) as bootstrap:
        with RawClient(bootstrap) as client:
            client.create_topic("numbers", 2)
            values = [struct.pack(">q", 1), None, b"xx", struct.pack(">q", 3), b"y", struct.pack(">q", 5)]
            client.produce_rows("numbers", 0, [(START, b"k%d" % at, value, ()) for at, value in enumerate(values)])
            client.produce_rows("numbers", 1, [(START, None, struct.pack(">q", at), ()) for at in (10, 11)])
        yield bootstrap


def consumer(broker: str, partitions: tuple[int, ...] = (0,), more: Mapping[str, str] = {}, **given: Any) -> Consumer:  # noqa: B006
    settings = {"bootstrap.servers": broker, "auto.offset.reset": "earliest", **more}
    made = Consumer(Config(CONSUMER, settings), **given)
    made.assign([("numbers", index) for index in partitions])
    return made


def polled(consumer: Consumer, count: int) -> list[Any]:
    """Values until there are so many."""
    values: list[Any] = []
    for _ in range(20):
        values += [record.value for record in consumer.poll(1000)]
        if len(values) >= count:
            return values
    raise AssertionError(values)


def test_bytes_come_as_they_are_without_deserializers(broker: str) -> None:
    with consumer(broker) as reader:
        assert polled(reader, 6)[2] == b"xx"


def test_fail_hands_out_what_is_in_front_and_stays_at_the_record_until_somebody_seeks(broker: str) -> None:
    with consumer(broker, more={"value.deserializer": LONG}) as reader:
        assert polled(reader, 2) == [1, None]
        for _ in range(2):
            with pytest.raises(RecordDeserializationError) as raised:
                reader.poll(1000)
            assert reader.position(("numbers", 0)) == 2
        error = raised.value
        assert (error.topic, error.partition, error.offset, error.is_key) == ("numbers", 0, 2, False)
        assert "Error deserializing VALUE for partition numbers-0 at offset 2" in str(error)
        assert "Size of data received by LongDeserializer is not 8" in str(error)
        reader.seek(("numbers", 0), error.offset + 1)
        assert polled(reader, 1) == [3]


def test_fail_does_not_hold_up_other_partitions(broker: str) -> None:
    with consumer(broker, (0, 1), {"value.deserializer": LONG}) as reader:
        values = []
        for _ in range(10):
            try:
                values += [record.value for record in reader.poll(1000)]
            except RecordDeserializationError:
                break
        assert sorted(value for value in values if value is not None) == [1, 10, 11]


def test_fail_is_raised_although_other_partitions_always_have_records(broker: str) -> None:
    with consumer(broker, (0, 1), {"value.deserializer": LONG, "max.poll.records": "1000"}) as reader:
        assert sorted(value for value in polled(reader, 4) if value is not None) == [1, 10, 11]
        for _ in range(3):
            reader.seek(("numbers", 1), 0)
            with pytest.raises(RecordDeserializationError, match="offset 2"):
                reader.poll(1000)
        reader.pause([("numbers", 0)])
        assert polled(reader, 2) == [10, 11]
        reader.resume([("numbers", 0)])
        reader.seek(("numbers", 0), 3)
        assert polled(reader, 1) == [3]


def test_member_that_polls_a_poison_record_again_and_again_takes_part_in_a_rebalance(broker: str) -> None:
    assignor = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"  # it keeps partitions while it rebalances
    settings = {"group.id": "stuck", "heartbeat.interval.ms": "50", "value.deserializer": LONG}
    settings["partition.assignment.strategy"] = assignor
    joining = Consumer(Config(CONSUMER, {"bootstrap.servers": broker, **settings}))
    with joining, Consumer(Config(CONSUMER, {"bootstrap.servers": broker, **settings})) as reader:
        reader.subscribe(["numbers"])
        reached = time.monotonic() + 10
        while len(reader.assignment()) < 2:
            assert time.monotonic() < reached
            reader.poll(50)
        reader.seek(("numbers", 0), 2)
        reader.seek_to_end([("numbers", 1)])
        joining.subscribe(["numbers"])
        errors = 0
        while not (len(reader.assignment()) == len(joining.assignment()) == 1):
            assert time.monotonic() < reached
            try:
                reader.poll(20)
            except RecordDeserializationError:
                errors += 1
            if errors:
                with contextlib.suppress(RecordDeserializationError):
                    joining.poll(10)
        assert errors > 1


def test_record_that_can_be_deserialized_again_is_handed_out(broker: str) -> None:
    is_away = True

    def from_registry(data: bytes) -> bytes:
        if is_away and data == b"xx":
            raise ConnectionError("the registry is away")
        return data

    with consumer(broker, value_deserializer=from_registry) as reader:
        assert len(polled(reader, 2)) == 2
        with pytest.raises(RecordDeserializationError, match="the registry is away"):
            reader.poll(1000)
        is_away = False
        assert polled(reader, 1)[0] == b"xx"


def test_skip_leaves_them_out_and_logs_them(broker: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), consumer(broker, value_deserializer=_long, poison="skip") as reader:
        assert polled(reader, 4) == [1, None, 3, 5]
        assert reader.position(("numbers", 0)) == 6
    assert [text for text in caplog.messages if "offset 2" in text or "offset 4" in text] == caplog.messages
    assert len(caplog.messages) == 2


def test_raw_hands_out_the_bytes(broker: str) -> None:
    with consumer(broker, more={"value.deserializer": LONG}, poison="raw") as reader:
        assert polled(reader, 6) == [1, None, b"xx", 3, b"y", 5]


def test_objects_are_told_where_the_bytes_come_from(broker: str) -> None:
    class Named:
        def deserialize(self, topic: str, data: bytes, headers: tuple[tuple[str, bytes | None], ...]) -> str:
            return f"{topic}/{data.decode()}/{len(headers)}"

    with consumer(broker, key_deserializer=Named()) as reader:
        assert [record.key for record in reader.poll(5000)][:2] == ["numbers/k0/0", "numbers/k1/0"]


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("StringDeserializer", "grün".encode(), "grün"),
        ("StringDeserializer", b"\xff", "�"),
        ("IntegerDeserializer", b"\xff\xff\xff\xfe", -2),
        ("ShortDeserializer", b"\x01\x00", 256),
        ("DoubleDeserializer", struct.pack(">d", 0.1), 0.1),
        ("FloatDeserializer", struct.pack(">f", 0.5), 0.5),
        ("BooleanDeserializer", b"\x01", True),
        (
            "UUIDDeserializer",
            b"f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
        ),
        ("ByteArrayDeserializer", b"\x00", b"\x00"),
        ("BytesDeserializer", b"\x00", b"\x00"),
    ],
)
def test_built_in_deserializers_give_python_objects(name: str, data: bytes, expected: Any) -> None:
    assert object_deserializer(name)(data) == expected
    assert object_deserializer("org.apache.kafka.common.serialization." + name)(data) == expected


@pytest.mark.parametrize(
    ("name", "data"), [("LongDeserializer", b"1"), ("BooleanDeserializer", b"\x02"), ("VoidDeserializer", b"")]
)
def test_built_in_deserializers_refuse_in_kafkas_words(name: str, data: bytes) -> None:
    with pytest.raises(SerializationError):
        object_deserializer(name)(data)


@pytest.mark.parametrize(
    ("settings", "given", "message"),
    [
        ({"key.deserializer": "com.example.Mine"}, {}, "Unknown deserializer com.example.Mine"),
        ({}, {"poison": "ignore"}, "Unknown policy for poison records: ignore. Known ones: fail, skip, raw"),
        ({}, {"value": 3}, "3 is not a deserializer"),
    ],
)
def test_what_means_nothing_is_refused(settings: dict[str, str], given: dict[str, Any], message: str) -> None:
    config = Config(CONSUMER, {"bootstrap.servers": "localhost:1", **settings})
    with pytest.raises(ConfigError, match=message):
        RecordDecoder.of(config, None, given.get("value"), given.get("poison", "fail"))


class Seen:
    """An interceptor that leaves out what it is told to, and notes what it sees."""

    def __init__(self, without: bytes = b"nothing") -> None:
        self.without = without
        self.consumed: list[int] = []
        self.committed: list[dict[Any, OffsetAndMetadata]] = []
        self.closed = 0

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        kept = [record for record in records if record.value != self.without]
        self.consumed.append(len(records))
        return ConsumerRecords(records.columns(), kept)

    def on_commit(self, offsets: Mapping[Any, OffsetAndMetadata]) -> None:
        self.committed.append(dict(offsets))

    def close(self) -> None:
        self.closed += 1


class Broken:
    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        raise RuntimeError("broken on_consume")

    def on_commit(self, offsets: Mapping[Any, OffsetAndMetadata]) -> None:
        raise RuntimeError("broken on_commit")

    def close(self) -> None:
        raise RuntimeError("broken close")


def test_interceptors_see_records_and_commits_and_their_failures_stay_in_the_log(
    broker: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, last = Seen(without=b"xx"), Seen()
    chain = (first, Broken(), last)
    with consumer(broker, more={"group.id": "seen", "max.poll.records": "100"}, interceptors=chain) as reader:
        values = polled(reader, 5)
        assert b"xx" not in values
        assert len(values) == 5
        assert (first.consumed, last.consumed) == ([6], [5])
        reader.commit_sync()
        assert [list(offsets.values())[0].offset for offsets in last.committed] == [6]
    assert (first.closed, last.closed) == (1, 1)
    for word in ("broken on_consume", "broken on_commit", "broken close"):
        assert word in caplog.text
    assert len(last.committed) == 2, "and the last commit, of closing"


def test_empty_polls_and_columns_go_past_the_interceptors(broker: str) -> None:
    seen = Seen()
    with consumer(broker, interceptors=[seen]) as reader:
        assert reader.poll_columns(5000)
        reader.seek_to_end()
        assert not reader.poll(50)
    assert seen.consumed == []


def test_java_interceptors_are_refused() -> None:
    config = Config(
        CONSUMER, {"bootstrap.servers": "localhost:1", "interceptor.classes": "com.example.A,com.example.B"}
    )
    with pytest.raises(
        ConfigError, match=r"interceptor\.classes=com\.example\.A, com\.example\.B: Java classes cannot"
    ):
        Consumer(config)


def _long(data: bytes) -> int:
    if len(data) != 8:
        raise ValueError(f"{len(data)} bytes")
    return int.from_bytes(data, "big", signed=True)
