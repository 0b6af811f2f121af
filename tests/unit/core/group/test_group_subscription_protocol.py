"""The bytes that members of a classic group exchange: Kafka's own, and damaged ones."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from kafkatools.core.errors import DecodeError
from kafkatools.core.group.subscription_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

MEMBERS = json.loads((pathlib.Path(__file__).parents[3] / "golden/groups/consumer_protocol.json").read_text())[
    "members"
]


def subscription_of(member: dict[str, Any]) -> Subscription:
    owned = tuple((topic, index) for topic, index in member["owned"])
    user_data = bytes.fromhex(member["user_data"])
    return Subscription(tuple(member["topics"]), user_data, owned, member["generation"], member["rack"])


@pytest.mark.parametrize("member", MEMBERS)
def test_subscriptions_have_kafkas_bytes(member: dict[str, Any]) -> None:
    expected = bytes.fromhex(member["subscription"])
    wanted = subscription_of(member)
    assert encode_subscription(wanted._replace(topics=wanted.topics[::-1])) == expected
    assert decode_subscription(expected) == wanted


@pytest.mark.parametrize("member", MEMBERS)
def test_assignments_have_kafkas_bytes(member: dict[str, Any]) -> None:
    expected = bytes.fromhex(member["assignment"])
    partitions = tuple((topic, index) for topic, index in member["assigned"])
    assert encode_assignment(Assignment(partitions)) == expected
    assert decode_assignment(expected).partitions == partitions


def test_a_version_from_the_future_is_read_as_far_as_it_is_known() -> None:
    data = bytes.fromhex(MEMBERS[0]["subscription"])
    assert decode_subscription(b"\x00\x09" + data[2:] + b"more") == subscription_of(MEMBERS[0])


def test_the_first_version_has_topics_only() -> None:
    assert decode_subscription(bytes.fromhex("00000000000100017affffffff")) == Subscription(("z",))


def test_no_assignment_is_an_empty_one() -> None:
    assert decode_assignment(b"") == Assignment(())


@pytest.mark.parametrize("data", ["", "00", "ffff", "0003", "0000000000010009616263", "00037fffffff", "0003ffffffff"])
def test_other_bytes_are_refused(data: str) -> None:
    with pytest.raises(DecodeError, match="A member's subscription"):
        decode_subscription(bytes.fromhex(data))


def test_every_cut_is_refused() -> None:
    data = bytes.fromhex(MEMBERS[1]["subscription"])
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            decode_subscription(data[:size])
