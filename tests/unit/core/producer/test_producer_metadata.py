"""Topics are asked for when first sent to, waited for, and forgotten when idle."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.config import PRODUCER, Config
from kafkatools.core.errors import InvalidTopic, TopicAuthorizationFailed, UnsupportedVersion
from kafkatools.core.producer.producer_metadata import ProducerMetadata


def new_metadata(clock: ManualClock) -> ProducerMetadata:
    config = Config(PRODUCER, {"bootstrap.servers": "127.0.0.1:1", "metadata.max.idle.ms": "5000"})
    return ProducerMetadata(config, clock)


def answer(topics: dict[str, int]) -> Any:
    """A Metadata response of version 12: every topic with its error code and one partition on node 1."""
    partition = SimpleNamespace(
        partition_index=0,
        leader_id=1,
        leader_epoch=3,
        replica_nodes=(1,),
        isr_nodes=(1,),
        offline_replicas=(),
        error_code=0,
    )
    return SimpleNamespace(
        __version__=12,
        brokers=(SimpleNamespace(node_id=1, host="h", port=1, rack=None),),
        cluster_id="c",
        controller_id=1,
        topics=tuple(
            SimpleNamespace(name=name, topic_id=None, is_internal=False, error_code=code, partitions=(partition,))
            for name, code in topics.items()
        ),
    )


def respond(metadata: ProducerMetadata, clock: ManualClock, topics: dict[str, int]) -> None:
    _, version, is_partial = metadata.next_request(clock.now_ms())
    metadata.update(version, answer(topics), is_partial, clock.now_ms())


def test_a_new_topic_is_asked_for_alone() -> None:
    clock = ManualClock()
    metadata = new_metadata(clock)
    metadata.add("first", clock.now_ms())
    respond(metadata, clock, {"first": 0})
    assert not metadata.update_requested
    metadata.add("second", clock.now_ms())
    fields, _, is_partial = metadata.next_request(clock.now_ms())
    assert is_partial
    assert [topic["name"] for topic in fields["topics"]] == ["second"]
    assert fields["allow_auto_topic_creation"]


def test_waiting_ends_with_the_answer() -> None:
    clock = ManualClock()
    metadata = new_metadata(clock)
    version = metadata.request_update_for_topic("t", clock.now_ms())
    thread = threading.Thread(target=respond, args=(metadata, clock, {"t": 0}))
    thread.start()
    assert metadata.await_update(version, 30_000)
    thread.join()
    assert metadata.cluster.partition_count("t") == 1
    assert metadata.cluster.leader_epoch("t", 0) == 3


def test_waiting_has_an_end() -> None:
    metadata = new_metadata(ManualClock())
    assert not metadata.await_update(metadata.update_version, 1)
    assert metadata.waiting == 0  # the sender has no work on account of it


def test_what_makes_waiting_senseless_is_raised() -> None:
    metadata = new_metadata(ManualClock())
    metadata.fail(UnsupportedVersion("too old"))
    with pytest.raises(UnsupportedVersion, match="too old"):
        metadata.await_update(metadata.update_version, 30_000)


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        (17, InvalidTopic, r"Invalid topics: \[t\]"),
        (29, TopicAuthorizationFailed, r"Not authorized to access topics: \[t\]"),
    ],
)
def test_errors_that_no_further_answer_will_cure_are_raised(code: int, kind: type[Exception], message: str) -> None:
    clock = ManualClock()
    metadata = new_metadata(clock)
    metadata.add("t", clock.now_ms())
    respond(metadata, clock, {"t": code})
    with pytest.raises(kind, match=message):
        metadata.raise_for_topic("t")


def test_a_topic_that_does_not_exist_yet_is_asked_for_again() -> None:
    clock = ManualClock()
    metadata = new_metadata(clock)
    metadata.add("t", clock.now_ms())
    respond(metadata, clock, {"t": 3})
    metadata.raise_for_topic("t")
    assert metadata.update_requested


def test_an_idle_topic_is_forgotten_and_one_in_use_is_kept() -> None:
    clock = ManualClock()
    metadata = new_metadata(clock)
    for topic in ("idle", "used"):
        metadata.add(topic, clock.now_ms())
    respond(metadata, clock, {"idle": 0, "used": 0})
    clock.advance_ms(4999)
    metadata.touch("used")
    clock.advance_ms(1)
    metadata.request_update()
    respond(metadata, clock, {"idle": 0, "used": 0})
    assert not metadata.contains("idle")
    assert metadata.contains("used")
    assert metadata.cluster.partition_count("idle") is None
