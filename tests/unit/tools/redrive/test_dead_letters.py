"""The headers of dead-letter records, as the frameworks wrote them (tests/golden/redrive)."""

from __future__ import annotations

import pytest
from support.dead_letters import dead_letters

from kafkatools.core.records.columns import decode_headers
from kafkatools.tools.redrive.dead_letters import ATTEMPTS_HEADER, headers_to_send, read_dead_letter

WRITTEN = {
    "spring.dlt": ("java.lang.IllegalStateException", "Listener failed; no such customer", True),
    "spring-dlt": (
        "java.lang.IllegalStateException",
        "Exception thrown at 2023-11-14T22:13:29Z; no such customer",
        True,
    ),
    "streams.dlq": ("java.lang.IllegalStateException", "no such customer", False),
    "connect.dlq": (
        "org.apache.kafka.connect.errors.DataException",
        "Converting byte[] to Kafka Connect data failed due to serialization error: ",
        False,
    ),
}


@pytest.mark.parametrize("topic", WRITTEN)
def test_origin_and_failure_are_read(topic: str) -> None:
    exception, message, has_timestamp = WRITTEN[topic]
    for number, record in enumerate(dead_letters(topic)):
        letter = read_dead_letter(record.headers)
        timestamp = 1_700_000_000_000 + number if has_timestamp else None
        assert letter == ("orders", 2, number, timestamp, exception, message, 0)


@pytest.mark.parametrize("topic", WRITTEN)
def test_the_headers_of_the_failure_are_removed_and_the_others_stay(topic: str) -> None:
    record, other = dead_letters(topic)
    assert decode_headers(headers_to_send(record.headers, 3, keep_headers=False)) == (
        ("trace", b"t-1"),
        ("kt-redrive-attempts", b"3"),
    )
    assert decode_headers(headers_to_send(other.headers, 1, keep_headers=False)) == (("kt-redrive-attempts", b"1"),)
    kept = decode_headers(headers_to_send(record.headers, 1, keep_headers=True))
    assert [(name.encode(), value) for name, value in kept] == [*record.headers, (ATTEMPTS_HEADER, b"1")]


def test_the_newest_failure_counts() -> None:
    """A record that failed in a Streams application after it had failed in Spring; both wrote where it was read."""
    spring, streams = dead_letters("spring.dlt")[0].headers, dead_letters("streams.dlq")[1].headers
    assert read_dead_letter([*spring, *streams]).offset == 1
    assert read_dead_letter([*streams, *spring]).timestamp_ms == 1_700_000_000_000
    again = [*streams, (b"__streams.errors.topic", b"later"), (b"__streams.errors.partition", b"0")]
    assert read_dead_letter(again)[:2] == ("later", 0)


@pytest.mark.parametrize("value", [b"", None, b"x", b"-1", b"\0\0\0\x02", b"99999999999999999999", b"\xd9\xa3"])
def test_numbers_that_are_none_are_unknown(value: bytes | None) -> None:
    letter = read_dead_letter([(b"__connect.errors.topic", b"t"), (b"__connect.errors.partition", value)])
    assert letter[:2] == ("t", None)


def test_a_binary_number_of_another_length_is_unknown() -> None:
    for value in (b"2", b"\0" * 8, b"\xff\xff\xff\xff"):
        headers = [(b"kafka_dlt-original-topic", b"t"), (b"kafka_dlt-original-partition", value)]
        assert read_dead_letter(headers)[:2] == ("t", None)


def test_the_own_header_names_the_topic_and_counts_attempts() -> None:
    headers = [(b"origin", b"orders"), (ATTEMPTS_HEADER, b"4")]
    assert read_dead_letter(headers).topic is None
    letter = read_dead_letter(headers, b"origin")
    assert (letter.topic, letter.attempts) == ("orders", 4)
    assert read_dead_letter([*headers, (ATTEMPTS_HEADER, b"many")]).attempts is None
    assert read_dead_letter([(b"__streams.errors.topic", b"t")], b"origin").topic == "t"
