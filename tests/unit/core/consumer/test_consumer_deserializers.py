"""Deserializers by class name: sizes, Java's text for numbers, the closed list."""

from __future__ import annotations

import struct

import pytest

from kafkatools.core.consumer.deserializers import deserializer
from kafkatools.core.errors import ConfigError, SerializationError
from kafkatools.core.java.text import java_double, java_float

PACKAGE = "org.apache.kafka.common.serialization."


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("LongDeserializer", struct.pack(">q", 1234567890123), b"1234567890123"),
        ("LongDeserializer", struct.pack(">q", -5), b"-5"),
        ("IntegerDeserializer", struct.pack(">i", -1), b"-1"),
        ("ShortDeserializer", b"\x00\x07", b"7"),
        ("DoubleDeserializer", struct.pack(">d", 0.1), b"0.1"),
        ("FloatDeserializer", struct.pack(">f", 0.1), b"0.1"),
        ("BooleanDeserializer", b"\x01", b"true"),
        ("BooleanDeserializer", b"\x00", b"false"),
        ("StringDeserializer", b"a\xffb", b"a\xef\xbf\xbdb"),
        ("BytesDeserializer", b"a\\\x00\xff ~", b"a\\x5C\\x00\\xFF ~"),
        ("ByteArrayDeserializer", b"\xff\x00", b"\xff\x00"),
        ("UUIDDeserializer", b"123E4567-e89b-12d3-a456-426614174000", b"123e4567-e89b-12d3-a456-426614174000"),
    ],
)
def test_bytes_become_javas_text(name: str, data: bytes, expected: bytes) -> None:
    assert deserializer(PACKAGE + name)(data) == expected
    assert deserializer(name)(data) == expected


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("LongDeserializer", b"12", "Size of data received by LongDeserializer is not 8"),
        ("IntegerDeserializer", b"", "Size of data received by IntegerDeserializer is not 4"),
        ("ShortDeserializer", b"123", "Size of data received by ShortDeserializer is not 2"),
        ("DoubleDeserializer", b"1", "Size of data received by Deserializer is not 8"),
        ("BooleanDeserializer", b"\x05", "Unexpected byte received by BooleanDeserializer: 5"),
        ("UUIDDeserializer", b"x", "Error parsing data into UUID"),
        ("VoidDeserializer", b"", "Data should be null for a VoidDeserializer."),
    ],
)
def test_bytes_of_the_wrong_shape_are_refused_in_kafkas_words(name: str, data: bytes, message: str) -> None:
    with pytest.raises(SerializationError, match=message):
        deserializer(name)(data)


@pytest.mark.parametrize(
    ("value", "text"),
    # What java.lang.Double.toString documents and prints.
    [
        (1.0, "1.0"),
        (100.0, "100.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.5e300, "1.5E300"),
        (123456.789, "123456.789"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_double_as_java_prints_it(value: float, text: str) -> None:
    shown = java_double(value)
    assert shown == text


def test_float_prints_its_own_shortest_digits() -> None:
    assert java_float(struct.unpack(">f", struct.pack(">f", 3.4028235e38))[0]) == "3.4028235E38"
    assert java_float(struct.unpack(">f", struct.pack(">f", 16777216.0))[0]) == "1.6777216E7"
    assert java_float(struct.unpack(">f", struct.pack(">f", 0.3))[0]) == "0.3"


def test_a_name_from_outside_is_never_loaded() -> None:
    for name in ("com.example.Nope", "java.lang.String", "os.system", ""):
        with pytest.raises(ConfigError, match="Unknown deserializer"):
            deserializer(name)
