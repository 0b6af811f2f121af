"""Topic filters and Java's hash order, with values recorded from Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import string_hash
from kafkatools.options import TopicFilter


def test_hash_is_that_of_java() -> None:
    """Values from the documentation of String.hashCode: s[0]*31^(n-1) + ... ."""
    assert string_hash("") == 0
    assert string_hash("ab") == 97 * 31 + 98
    assert string_hash("polygenelubricants") == 0x80000000


def test_map_order_is_the_one_in_which_kafka_describes_topics() -> None:
    """Recorded in topics/047-describe-all."""
    names = ["alpha", "beta", "cfg3", "delta", "eps", "gamma", "my.topic", "z"]
    assert hash_order(names, capacity=len(names)) == ["cfg3", "alpha", "delta", "eps", "my.topic", "z", "beta", "gamma"]


@pytest.mark.parametrize(
    ("text", "taken", "refused"),
    [
        ("alpha", ["alpha"], ["alpha2", "xalpha"]),
        ("alpha,gamma", ["alpha", "gamma"], ["beta"]),
        ("al.*|delta", ["alpha", "delta"], ["gamma"]),
        ("my.topic", ["my.topic", "my_topic"], []),
        ('"a"', ["a"], ['"a"']),
        ("\\Qmy.topic\\E", ["my.topic"], ["my_topic"]),
        ("(?<x>a)\\k<x>", ["aa"], ["a"]),
    ],
)
def test_filters(text: str, taken: list[str], refused: list[str]) -> None:
    wanted = TopicFilter(text)
    assert all(wanted.takes(name) for name in taken)
    assert not any(wanted.takes(name) for name in refused)


def test_internal_topics_can_be_left_out() -> None:
    assert TopicFilter(".*").takes("__consumer_offsets")
    assert not TopicFilter(".*").takes("__consumer_offsets", exclude_internal=True)


def test_invalid_expressions_get_the_words_of_kafka() -> None:
    with pytest.raises(ValueError, match=r"^\[ is an invalid regex\.$"):
        TopicFilter("[")
