"""Serializers give Kafka's bytes; interceptors never lose a record."""

from __future__ import annotations

import pytest

from kafkatools.core.errors import ConfigError, SerializationError
from kafkatools.core.producer.futures import RecordMetadata
from kafkatools.core.producer.interceptors import ProducerInterceptors
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.core.producer.serializers import serializer_for


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("StringSerializer", "日本", b"\xe6\x97\xa5\xe6\x9c\xac"),
        ("org.apache.kafka.common.serialization.StringSerializer", "a", b"a"),
        ("ShortSerializer", -2, b"\xff\xfe"),
        ("IntegerSerializer", 258, b"\0\0\x01\x02"),
        ("LongSerializer", 1, b"\0\0\0\0\0\0\0\x01"),
        ("DoubleSerializer", 1.0, b"\x3f\xf0\0\0\0\0\0\0"),
        ("FloatSerializer", 1.0, b"\x3f\x80\0\0"),
        ("BooleanSerializer", True, b"\x01"),
        ("ByteArraySerializer", memoryview(b"xy"), b"xy"),
        ("VoidSerializer", None, None),
        ("StringSerializer", None, None),
    ],
)
def test_a_serializer_gives_kafkas_bytes(name: str, value: object, expected: bytes | None) -> None:
    assert serializer_for("value.serializer", name)("t", value) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [("IntegerSerializer", 2**31), ("StringSerializer", 5), ("ByteArraySerializer", "s"), ("VoidSerializer", b"")],
)
def test_a_value_of_the_wrong_kind_is_an_error(name: str, value: object) -> None:
    with pytest.raises(SerializationError):
        serializer_for("value.serializer", name)("t", value)


def test_serializer_names_are_a_closed_list() -> None:
    with pytest.raises(ConfigError, match="value.serializer: Class os.system could not be found"):
        serializer_for("value.serializer", "os.system")


class Adding:
    def __init__(self, suffix: bytes, fails: bool = False) -> None:
        self.suffix = suffix
        self.fails = fails
        self.seen: list[tuple[RecordMetadata, Exception | None]] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        if self.fails:
            raise RuntimeError("broken")
        return ProducerRecord(record.topic, record.value + self.suffix)

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        self.seen.append((metadata, error))
        if self.fails:
            raise RuntimeError("broken")

    def close(self) -> None:
        if self.fails:
            raise RuntimeError("broken")


def test_a_failing_interceptor_is_skipped_and_the_chain_goes_on() -> None:
    chain = [Adding(b"1"), Adding(b"2", fails=True), Adding(b"3")]
    interceptors = ProducerInterceptors(chain)
    assert interceptors.on_send(ProducerRecord("t", b"v")).value == b"v13"
    metadata = RecordMetadata("t", 0, 5, 6, -1, 1)
    interceptors.on_acknowledgement(metadata, None)
    assert [interceptor.seen for interceptor in chain] == [[(metadata, None)]] * 3
    interceptors.close()


@pytest.mark.parametrize("wrong", [{"partition": -1}, {"timestamp": -5}])
def test_a_record_refuses_negative_places(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="non-negative"):
        ProducerRecord("t", b"v", **wrong)
