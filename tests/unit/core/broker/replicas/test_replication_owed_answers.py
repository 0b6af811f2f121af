"""Writes with acks=all that wait for followers while more of them come in on the same connection: appended at once,
answered in order when the high watermark has passed them."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from support.broker_client import BrokerClient, batch
from support.manual_clock import ManualClock

from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.node import single_node_config, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.replicas.replica import Replica

PRODUCE, METADATA, VERSION = 0, 3, 9
TIMEOUT_MS = 3000


class Broker:
    """A node whose crank the test turns; its partition believes that broker 2 follows."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.clock = ManualClock()
        setup = NodeSetup(single_node_config(str(directory / "data"), "127.0.0.1", 0), self.clock)
        self.node = start_node(setup, format_if_needed=True)
        self.node.member.create_topic(NewTopic("t", 1, 1))
        self.client = BrokerClient("127.0.0.1", self.node.listener.port)
        self.client.socket.settimeout(0.05)

    @property
    def partition(self) -> Partition:
        return self.node.replicas.partitions["t"][0]

    def turn(self) -> None:
        for wait_ms in (30, 30, 0):  # until it is on this side of the loopback
            self.node.run_once(wait_ms)

    def send(self, *frames: bytes) -> None:
        self.client.socket.sendall(b"".join(frames))
        self.turn()

    def write(self, value: bytes, *, acks: int = -1) -> bytes:
        data = {"index": 0, "records": batch([value])}
        fields = {
            "acks": acks,
            "timeout": TIMEOUT_MS,
            "transactional_id": None,
            "topic_data": [{"name": "t", "partition_data": [data]}],
        }
        return self.client.frame(PRODUCE, VERSION, fields)

    def follow(self) -> None:
        partition = self.partition
        partition.followers = {2: Replica(2)}
        partition.isr = partition.replicas = (partition.node_id, 2)
        partition.replication = SimpleNamespace(is_joining=lambda *_: False)  # type: ignore[assignment]
        partition.settle()

    def commit(self, offset: int) -> None:
        """What broker 2's fetch would do."""
        self.partition.followers[2].log_end_offset = offset
        assert self.partition.maybe_increment_high_watermark()
        self.node.replicas.note_high_watermark(self.partition)
        self.turn()

    def answers(self) -> list[tuple[int, int]]:
        """(error, base offset) of what has come by now."""
        found = []
        while True:
            try:
                answer = self.client.receive(PRODUCE, VERSION)
            except TimeoutError:
                return found
            result = answer.responses[0].partition_responses[0]
            found.append((int(result.error_code), result.base_offset))

    def close(self) -> None:
        self.client.socket.close()
        self.node.close()


@pytest.fixture
def broker(tmp_path: pathlib.Path) -> Iterator[Broker]:
    """A connection that has written twice, so that the third write is taken by the shortcut."""
    made = Broker(tmp_path)
    made.turn()
    made.send(made.write(b"a"))
    made.send(made.write(b"b"))
    assert made.answers() == [(0, 0), (0, 1)]
    made.follow()
    yield made
    made.close()


def test_writes_do_not_wait_for_each_others_answers(broker: Broker) -> None:
    broker.send(*(broker.write(b"%d" % number) for number in range(4)))
    assert broker.partition.log.log_end_offset == 6
    assert broker.answers() == []
    broker.commit(4)
    assert broker.answers() == [(0, 2), (0, 3)]
    broker.commit(6)
    assert broker.answers() == [(0, 4), (0, 5)]


def test_a_request_of_another_kind_waits_for_what_is_owed(broker: Broker) -> None:
    other = broker.write(b"z", acks=1)
    broker.send(broker.write(b"x"), other, broker.write(b"y"))
    assert broker.partition.log.log_end_offset == 3, "what follows is not handled before"
    broker.commit(3)
    assert broker.answers() == [(0, 2), (0, 3)]
    assert broker.partition.log.log_end_offset == 5
    broker.commit(5)
    assert broker.answers() == [(0, 4)]


def test_a_high_watermark_that_is_there_before_the_answers_were_made_changes_no_order(broker: Broker) -> None:
    broker.send(broker.write(b"x"))
    broker.partition.followers[2].log_end_offset = 3
    broker.partition.maybe_increment_high_watermark()
    broker.send(broker.write(b"y"))
    broker.commit(4)
    assert broker.answers() == [(0, 2), (0, 3)]


def test_a_leader_that_is_none_any_more_says_so_to_all_who_wait(broker: Broker) -> None:
    broker.send(broker.write(b"x"), broker.write(b"y"))
    broker.partition.is_leader = False
    broker.partition.settle()
    broker.partition.answer_waiting()
    broker.turn()
    assert [code for code, _ in broker.answers()] == [6, 6]
    broker.send(broker.write(b"z"))
    assert [code for code, _ in broker.answers()] == [6]


def test_who_waits_too_long_is_told(broker: Broker) -> None:
    broker.send(broker.write(b"x"))
    broker.clock.advance_ms(TIMEOUT_MS - 1)
    broker.node.replicas.expire_waiting(broker.clock.now_ms())
    broker.turn()
    assert broker.answers() == []
    broker.clock.advance_ms(1)
    broker.node.replicas.expire_waiting(broker.clock.now_ms())
    broker.turn()
    assert [code for code, _ in broker.answers()] == [7]


def test_too_small_an_isr_refuses_the_next_write(broker: Broker) -> None:
    broker.send(broker.write(b"x"))
    partition: Any = broker.partition
    partition.is_under_min_isr, partition.takes_plain = True, False
    broker.send(broker.write(b"y"))
    assert broker.answers() == [], "the refusal comes behind what is owed"
    partition.is_under_min_isr = False
    broker.commit(3)
    partition.is_under_min_isr = True
    assert broker.answers()[0] == (0, 2)


def test_a_client_that_leaves_is_owed_nothing(broker: Broker) -> None:
    broker.send(broker.write(b"x"))
    broker.client.socket.close()
    broker.turn()
    broker.commit(3)
    assert not broker.partition.waiting
    broker.client = BrokerClient("127.0.0.1", broker.node.listener.port)
    broker.client.socket.settimeout(0.05)
    broker.turn()
    broker.send(broker.write(b"y"))
    broker.commit(4)
    assert broker.answers() == [(0, 3)]
