"""kt redrive by a user who lacks a right: the right and its resource are named, and nothing is sent by halves."""

from __future__ import annotations

import json

import pytest
from support.denied_users import GuardedBroker

from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.exit_status import ExitStatus

ADVICE = "an administrator sees the rights with kt acls --list and adds one with kt acls --add"


def dead_letters(guarded: GuardedBroker, topic: str, *targets: str) -> None:
    """A dead-letter topic with one record for each target."""
    records = [
        ProducerRecord(topic, b"value", b"key", 0, None, [("__streams.errors.topic", target.encode())])
        for target in targets
    ]
    guarded.topic(topic, *records)


@pytest.fixture(scope="module", autouse=True)
def orders(guarded: GuardedBroker) -> None:
    """Topics from which dead letters came."""
    guarded.topic("orders")
    guarded.topic("payments")


def missing(right: str) -> str:
    return f"Not authorized: the right {right} is missing"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "named"),
    [
        ("DESCRIBE TOPIC dlq-0", "Topic dlq-0: " + missing("DESCRIBE on topic dlq-0")),
        ("READ TOPIC dlq-1", missing("READ on topic dlq-1")),
        ("READ GROUP", "0 records were sent back, then: " + missing("READ on group kt-redrive-dlq-2")),
        ("DESCRIBE GROUP", "0 records were sent back, then: " + missing("DESCRIBE on group kt-redrive-dlq-3")),
        (
            "WRITE TRANSACTIONAL_ID",
            "0 records were sent back, then: " + missing("WRITE on transactional id kt-redrive-dlq-4"),
        ),
    ],
)
def test_a_right_without_which_nothing_can_be_sent(
    guarded: GuardedBroker, right: str, named: str, request: pytest.FixtureRequest
) -> None:
    topic = f"dlq-{named.rpartition('dlq-')[2][0]}"
    dead_letters(guarded, topic, "orders")
    ran = guarded.kt("redrive", topic, user=guarded.user_without(right))
    assert ran.status is ExitStatus.FAILED
    line, advice = ran.err.splitlines()[-2:]
    assert line == named
    assert ADVICE in advice[0].lower() + advice[1:]
    assert guarded.kt("redrive", topic).status is ExitStatus.OK  # nothing had been sent or marked as sent


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["DESCRIBE", "WRITE"])
@pytest.mark.parametrize("mode", [["--dry-run"], []])
def test_a_target_without_rights_keeps_its_records(guarded: GuardedBroker, operation: str, mode: list[str]) -> None:
    topic = f"closed-{operation}-{len(mode)}"
    dead_letters(guarded, topic, "orders", "payments", "orders")
    user = guarded.user_without(f"{operation} TOPIC orders")
    ran = guarded.kt("redrive", topic, *mode, "--json", user=user)
    assert ran.status is ExitStatus.FINDINGS, ran.err
    sent, left = map(json.loads, ran.out.splitlines())
    assert (sent["target"], sent["records"]) == ("payments", 1)
    assert (left["target"], left["offsets"]) == ("orders", [[0, 0], [2, 2]])
    assert left["message"] == f"topic orders: {missing(f'{operation} on topic orders')}"


def test_limits_that_cannot_be_read_are_named(guarded: GuardedBroker) -> None:
    dead_letters(guarded, "unlimited", "orders", "orders")
    user = guarded.user_without("DESCRIBE_CONFIGS TOPIC orders")
    ran = guarded.kt("redrive", "unlimited", user=user)
    assert ran.status is ExitStatus.OK, ran.err
    right = missing("DESCRIBE_CONFIGS on topic orders")
    assert (
        ran.err.count(f"The limits of topic orders are unknown: {right}. A record that it refuses ends the run.") == 1
    )
